"""The probe `class-paths`: measurement, figures, and what it alone uses."""
