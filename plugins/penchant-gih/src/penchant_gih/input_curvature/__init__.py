"""The probe `input-curvature`: measurement, figures, and what it alone uses."""
