"""Runs in Weights & Biases: one W&B run per job, in the project that PENCHANT_WANDB names."""

from penchant_wandb.tracker import penchant_job_finished

__all__ = ["penchant_job_finished"]
