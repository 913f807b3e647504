"""The probe `geometry-evolution`: measurement, figures, and what it alone uses."""
