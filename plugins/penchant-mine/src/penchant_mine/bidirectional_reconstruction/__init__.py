"""The probe `bidirectional-reconstruction`: measurement, figures, and what it alone uses."""
