"""The probe `kernel-spectrum`: measurement, figures, and what it alone uses."""
