"""The probe `directional-accuracy`: measurement, figures, and what it alone uses."""
