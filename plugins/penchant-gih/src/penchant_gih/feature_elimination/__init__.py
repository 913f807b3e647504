"""The probe `feature-elimination`: measurement, figures, and what it alone uses."""
