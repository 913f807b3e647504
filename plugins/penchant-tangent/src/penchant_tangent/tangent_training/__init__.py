"""The probe `tangent-training`: measurement, figures, and what it alone uses."""
