"""The pairs of a second moment that so many networks can estimate."""

import dataclasses

from penchant_numerics.refusal import Refusal
from penchant_numerics.roles import Directions

from penchant_nad.nad.participation import without_rounding


def estimated_pairs(directions: Directions) -> Directions:
    """As many pairs as there are networks: the moment of one vector per network has no more.

    Args:
        directions: The answer of an estimator. Where it has the norm of one vector per network, the
            eigenvalues behind their number must be zero.

    Returns:
        The answer, without the pairs whose eigenvalues are zero in any network.

    Raises:
        Refusal: Where more eigenvalues are above zero than there are networks.
    """
    if directions.squared_norms is None:
        return directions
    count, pairs = len(directions.squared_norms), len(directions.eigenvalues)
    if pairs <= count:
        return directions
    positive = int((without_rounding(directions.eigenvalues) > 0).sum())
    if positive > count:
        raise Refusal(
            f"the estimator found {positive} eigenvalues above zero of the moment of {count} "
            f"vectors, one per network; expected at most {count}, or no squared_norms where there "
            "are several vectors per network"
        )
    jackknife = directions.jackknife
    return dataclasses.replace(
        directions,
        eigenvalues=directions.eigenvalues[:count],
        vectors=directions.vectors[:count],
        residuals=None if directions.residuals is None else directions.residuals[:count],
        jackknife=None if jackknife is None else jackknife[:, :count],
    )
