"""The probe `information-benchmark`: measurement, figures, and what it alone uses."""
