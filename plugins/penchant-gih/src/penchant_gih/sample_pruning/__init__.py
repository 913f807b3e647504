"""The probe `sample-pruning`: measurement, figures, and what it alone uses."""
