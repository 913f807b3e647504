"""The probe `complexity`: measurement, figures, and what it alone uses."""
