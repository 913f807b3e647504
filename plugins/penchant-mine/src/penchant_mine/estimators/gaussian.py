"""Information of normal variables: the estimator `gaussian`."""

import math

import penchant
from penchant_numerics.roles import Information
from torch import Tensor

from penchant_mine.declarations.estimators import GaussianInformation
from penchant_mine.estimators.prepared import no_information, prepared
from penchant_mine.estimators.second_opinions import clear_second_opinion
from penchant_mine.estimators.untrained import FEWEST, answer, shuffled
from penchant_mine.shared.information.gaussian import far_from_normal, gaussian_information

CERTAIN = 1 - 1e-7  # a correlation above it counts as 1


def estimate(
    options: GaussianInformation, context: penchant.Context, x: Tensor, z: Tensor
) -> Information:
    """Target of the estimator `gaussian`."""
    pairs = prepared(options, x, z, at_least=FEWEST, scaling="standard")
    if pairs.empty:
        return no_information(pairs)
    value, stderr, correlations = gaussian_information(pairs.x, pairs.z)
    # Correlations say all about normal variables and little about others.
    warnings = []
    if far_from_normal(pairs.x, pairs.z):
        warnings.append(
            "the samples are not normal, so this is the information of normal variables with "
            "their correlations"
        )
    if float(correlations.max()) > CERTAIN:
        warnings.append("a linear map has no residual: the true value is infinite")

    # What is not linear counts in full elsewhere.
    bias, texts = clear_second_opinion(pairs, value, stderr, context.generator("second opinions"))
    stderr = math.hypot(stderr, bias)
    warnings += texts

    def with_order(order: Tensor) -> float:
        return gaussian_information(pairs.x, pairs.z[order])[0]

    # Shuffled pairs read 0 without a bias, and their spread is the error there.
    nulls = shuffled(with_order, pairs, options.shuffles, context.generator("gaussian"))
    return answer(
        pairs,
        value,
        stderr,
        nulls,
        warnings=warnings,
        over="samples (delta method), and what other methods find more",
        count=len(pairs.x),
    )
