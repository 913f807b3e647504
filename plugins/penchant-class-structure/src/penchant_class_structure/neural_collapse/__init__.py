"""The probe `neural-collapse`: measurement, figures, and what it alone uses."""
