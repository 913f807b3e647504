"""The probe `capacity`: measurement, figures, and what it alone uses."""
