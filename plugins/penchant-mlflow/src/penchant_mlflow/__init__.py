"""Runs in MLflow: one MLflow run per job, in the experiment that PENCHANT_MLFLOW names."""

from penchant_mlflow.tracker import penchant_job_finished

__all__ = ["penchant_job_finished"]
