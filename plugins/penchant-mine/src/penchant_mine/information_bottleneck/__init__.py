"""The probe `information-bottleneck`: measurement, figures, and what it alone uses."""
