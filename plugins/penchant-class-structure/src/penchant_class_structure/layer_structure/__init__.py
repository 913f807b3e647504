"""The probe `layer-structure`: measurement, figures, and what it alone uses."""
