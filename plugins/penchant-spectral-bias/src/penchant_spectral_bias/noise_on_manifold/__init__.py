"""The probe `noise-on-manifold`: measurement, figures, and what it alone uses."""
