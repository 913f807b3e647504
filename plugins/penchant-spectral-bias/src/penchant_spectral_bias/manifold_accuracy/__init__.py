"""The probe `manifold-accuracy`: measurement, figures, and what it alone uses."""
