"""The probe `gan-modes`: measurement, figures, and what it alone uses."""
