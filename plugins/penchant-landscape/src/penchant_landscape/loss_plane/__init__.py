"""The probe `loss-plane`: measurement, figures, and what it alone uses."""
