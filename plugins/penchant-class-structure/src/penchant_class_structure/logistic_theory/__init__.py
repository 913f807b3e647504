"""The probe `logistic-theory`: measurement, figures, and what it alone uses."""
