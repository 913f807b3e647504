"""How networks are trained; `penchant_numerics.training.trainer` follows this recipe."""

import math

import attrs
from penchant.components.component import Component
from penchant.components.options import option
from penchant.components.targets import TARGET
from penchant.errors import Error

LOSSES = ("cross-entropy", "squared-error", "binary-cross-entropy")
EPOCHS = 10  # where neither epochs nor steps are given


@attrs.frozen
class Training(Component):
    """How a network is trained.

    `steps = 0` is the network at initialisation; with neither `epochs` nor `steps`, ten epochs.
    """

    kind = "training"
    name = "training"

    epochs: int | None = option(None, "passes over the training samples", at_least=0)
    steps: int | None = option(None, "optimiser steps, instead of epochs", at_least=0)
    batch: int = option(128, "samples per step; 0 is the full batch", at_least=0)
    optimizer: str = option("sgd", "update rule", choices=("sgd", "adam"))
    learning_rate: float = option(0.1, "initial learning rate", above=0)
    schedule: str = option(
        "constant",
        "linear: to 0 over the steps; thirds: / 10 at 1/3 and 2/3",
        choices=("constant", "linear", "thirds"),
    )
    momentum: float = option(0.0, "momentum of sgd", at_least=0, below=1)
    weight_decay: float = option(0.0, "weight decay", at_least=0)
    clip: float | None = option(None, "largest norm of the gradient", above=0)
    loss: str = option(
        "cross-entropy",
        "training loss: cross-entropy, squared-error, binary-cross-entropy, or module:function of "
        "outputs and labels",
    )
    until_loss: float | None = option(
        None, "stop when the mean loss of an epoch is below this", above=0
    )
    learning_rates: tuple[float, ...] = option(
        (), "try each of these and use the one with the smallest final test error", above=0
    )

    def __attrs_post_init__(self) -> None:
        if self.epochs is not None and self.steps is not None:
            both = f"{self.epochs} and {self.steps}"
            raise Error(f"training takes epochs or steps, found both ({both})")
        if self.loss not in LOSSES and not TARGET.fullmatch(self.loss):
            known = f"module:function or one of {', '.join(LOSSES)}"
            error = Error(f"loss must be {known}, found {self.loss!r}")
            error.option = "loss"
            raise error

    def total_steps(self, samples: int) -> int:
        """Optimiser steps over this many training samples."""
        if self.steps is not None:
            return self.steps
        epochs = EPOCHS if self.epochs is None else self.epochs
        return epochs * self.steps_per_epoch(samples)

    def steps_per_epoch(self, samples: int) -> int:
        """Optimiser steps in a pass over this many samples; the last batch may be smaller."""
        return max(1, math.ceil(samples / self.batch)) if self.batch else 1
