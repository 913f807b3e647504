"""The probe `mutual-information`: measurement, figures, and what it alone uses."""
