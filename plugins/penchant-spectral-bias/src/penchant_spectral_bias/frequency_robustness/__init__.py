"""The probe `frequency-robustness`: measurement, figures, and what it alone uses."""
