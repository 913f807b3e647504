"""Runs in TensorBoard: quantities, figures and progress, where PENCHANT_TENSORBOARD says."""

from penchant_tensorboard.tracker import (
    penchant_job_finished,
    penchant_progress,
    penchant_run_finished,
    penchant_run_started,
)

__all__ = [
    "penchant_job_finished",
    "penchant_progress",
    "penchant_run_finished",
    "penchant_run_started",
]
