"""The probe `supernat`: measurement, figures, and what it alone uses."""
