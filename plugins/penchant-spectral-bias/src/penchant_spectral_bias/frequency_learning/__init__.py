"""The probe `frequency-learning`: measurement, figures, and what it alone uses."""
