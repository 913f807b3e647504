"""The probe `dipole`: measurement, figures, and what it alone uses."""
