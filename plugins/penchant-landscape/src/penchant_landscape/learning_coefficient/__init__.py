"""The probe `learning-coefficient`: measurement, figures, and what it alone uses."""
