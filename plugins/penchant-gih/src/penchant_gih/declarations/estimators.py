"""The estimator of the average geometry."""

import attrs
import penchant

SCALE = "standard deviation s of the inputs, N(0, s^2 I); use a small one, 1e-3, with GELU"
BATCH_NORM = "statistics of batch-norm: running, of the batch of inputs, or calibrated"


@attrs.frozen
class AverageGeometry(penchant.Estimator):
    r"""Average geometry: second moment of input gradients at random inputs.

    $G = \mathbb{E}[g g^\top]$, where $g$ is the gradient of the output with respect to the input.
    Each network has its own inputs: normal, zero, or from a dataset. The estimator also returns G
    for independent groups of networks, so norms can be estimated without sampling bias. Batch-norm
    layers use running statistics (which have no effect at initialisation), those of the batch of
    inputs, or statistics calibrated by one pass over more inputs of the same distribution.

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.1.
    """

    name = "average-geometry"
    role = "directions"
    target = "penchant_gih.estimators.average_geometry:estimate"

    inputs: int = penchant.option(1, "inputs per network at which gradients are taken", at_least=1)
    probing: str = penchant.option(
        "gaussian", "where gradients are taken", choices=("gaussian", "zero", "data")
    )
    scale: float = penchant.option(1.0, SCALE, above=0)
    opposite: bool = penchant.option(
        False, "use normal inputs in pairs x, -x, which reduces the variance"
    )
    batch_norm: str = penchant.option(
        "running", BATCH_NORM, choices=("running", "batch", "calibrated")
    )

    def __attrs_post_init__(self) -> None:
        if self.probing == "zero" and self.inputs > 1:
            raise penchant.Error(
                f"probing = zero has one probing input, found inputs {self.inputs}"
            )
        if self.probing != "gaussian" and self.opposite:
            raise penchant.Error(f"opposite inputs are normal ones, found probing {self.probing}")
        if self.probing == "zero" and self.batch_norm != "running":
            raise penchant.Error(
                f"at zero there are no statistics, found batch_norm {self.batch_norm}"
            )
        if self.batch_norm == "batch" and self.vectors < 2:
            raise penchant.Error(
                f"batch_norm = batch needs at least two probing inputs, found {self.inputs}"
            )

    @property
    def vectors(self) -> int:
        """Gradients per network."""
        if self.opposite:
            return 2 * self.inputs
        return self.inputs
