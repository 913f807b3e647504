"""The probe `nad`: measurement, figures, and what it alone uses."""
