"""The probe `curvature-proxies`: measurement, figures, and what it alone uses."""
