"""The probe `peak-ablation`: measurement, figures, and what it alone uses."""
