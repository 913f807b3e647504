"""The probe `feature-preference`: measurement, figures, and what it alone uses."""
