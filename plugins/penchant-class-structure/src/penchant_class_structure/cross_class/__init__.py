"""The probe `cross-class`: measurement, figures, and what it alone uses."""
