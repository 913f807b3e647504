"""The probe `tangent-eigenfunctions`: measurement, figures, and what it alone uses."""
