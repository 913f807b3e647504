"""The probe `target-noise`: measurement, figures, and what it alone uses."""
