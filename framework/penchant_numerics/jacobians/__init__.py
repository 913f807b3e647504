"""Outputs linearised in the parameters: products with Jacobians, gradients of samples."""

from penchant_numerics.jacobians.linearisation import (
    FlatOutputs,
    Linearisation,
    NoForwardDerivativeError,
    Outputs,
    any_direction,
    dual_pass,
    linearise,
    vectors_together,
)
from penchant_numerics.jacobians.modules import Modules
from penchant_numerics.jacobians.parameters import Layout, Unchanged, select, trainable_names
from penchant_numerics.jacobians.sample_gradients import floating_inputs
from penchant_numerics.jacobians.tape import NotRecordableError

__all__ = [
    "FlatOutputs",
    "Layout",
    "Linearisation",
    "Modules",
    "NoForwardDerivativeError",
    "NotRecordableError",
    "Outputs",
    "Unchanged",
    "any_direction",
    "dual_pass",
    "floating_inputs",
    "linearise",
    "select",
    "trainable_names",
    "vectors_together",
]
