"""The probe `nad-agreement`: measurement, figures, and what it alone uses."""
