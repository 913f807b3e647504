"""The probe `geometry-training`: measurement, figures, and what it alone uses."""
