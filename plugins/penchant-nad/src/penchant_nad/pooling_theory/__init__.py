"""The probe `pooling-theory`: measurement, figures, and what it alone uses."""
