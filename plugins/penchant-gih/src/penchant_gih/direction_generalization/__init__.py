"""The probe `direction-generalization`: measurement, figures, and what it alone uses."""
