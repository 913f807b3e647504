"""The probe `flipped-accuracy`: measurement, figures, and what it alone uses."""
