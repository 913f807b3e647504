"""The probe `critical-sharpness`: measurement, figures, and what it alone uses."""
