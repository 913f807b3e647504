"""The probe `poisoned-accuracy`: measurement, figures, and what it alone uses."""
