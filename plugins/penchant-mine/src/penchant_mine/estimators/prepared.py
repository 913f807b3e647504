"""Pairs as estimators take them, and the answer where there is nothing to estimate."""

import penchant
from penchant_numerics import Refusal
from penchant_numerics.roles import Information
from torch import Tensor

from penchant_mine.shared.information.pairs import Pairs, prepare


def prepared(
    options: penchant.Estimator, x: Tensor, z: Tensor, *, at_least: int, scaling: str | None
) -> Pairs:
    """Checked and scaled pairs; what is wrong with them is an Error that names the estimator."""
    try:
        return prepare(x, z, scaling=scaling, at_least=at_least)
    except Refusal as error:
        raise penchant.Error(f"{options.name}: {error}") from None


def no_information(pairs: Pairs) -> Information:
    """A constant variable has no information: 0, exactly."""
    # No null was measured, and none is needed.
    return Information(
        value=0.0,
        training=0.0,
        stderr=0.0,
        warnings=pairs.warnings,
        over="exact: a variable is constant",
        count=len(pairs.x),
    )
