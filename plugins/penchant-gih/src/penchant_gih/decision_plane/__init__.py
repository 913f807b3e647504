"""The probe `decision-plane`: measurement, figures, and what it alone uses."""
