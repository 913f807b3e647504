"""The probe `representation-similarity`: measurement, figures, and what it alone uses."""
