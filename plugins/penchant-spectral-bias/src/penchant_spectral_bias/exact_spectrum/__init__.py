"""The probe `exact-spectrum`: measurement, figures, and what it alone uses."""
