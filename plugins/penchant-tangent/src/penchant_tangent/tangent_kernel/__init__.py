"""The probe `tangent-kernel`: measurement, figures, and what it alone uses."""
