"""The probe `weight-spectra`: measurement, figures, and what it alone uses."""
