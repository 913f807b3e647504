"""The probe `average-geometry`: measurement, figures, and what it alone uses."""
