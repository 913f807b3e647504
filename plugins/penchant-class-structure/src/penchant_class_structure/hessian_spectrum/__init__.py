"""The probe `hessian-spectrum`: measurement, figures, and what it alone uses."""
