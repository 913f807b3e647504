"""The probe `parameter-directions`: measurement, figures, and what it alone uses."""
