"""The local learning coefficient, as data."""

import attrs
import penchant

from penchant_landscape.declarations.recipes import BATCH_NORM, EVAL_STEPS, PARAMETERS, QUICK


@attrs.frozen
class LearningCoefficient(penchant.Probe):
    """Local learning coefficient: how fast the volume of nearly as good networks shrinks.

    lambda = n beta (E_w[L_n(w)] - L_n(w*)), beta = 1 / log n, over Langevin chains that a Gaussian
    of precision `localisation` keeps near the network w*. A regular model of d parameters has
    d / 2, which is the null and an upper bound; degenerate directions make it smaller. Without
    `batch` every gradient is over all samples and steps are accepted or refused (Metropolis), so
    that the step size, which is chosen automatically, does not affect the result. With `batch` it
    is SGLD, which needs a `step_size`. For sequences with a label at every position, n counts
    sequences and L_n is the mean over positions.

    `localised-coefficient` is this number at this n and localisation, with the error of the chains.
    Compare networks by it, with the same samples and localisation. `learning-coefficient` is the
    limit of large n. How far the limit is away follows from the measured `temperature-slope`, up to
    a multiplicity of 3 of the pole. The middle of that range is given, and its ends are one
    standard error away. It is missing where the slope is above a fifth of the value.

    There is no number, and a warning says why, where chains disagree (split R-hat above 1.1, fewer
    than 5 effective samples each), diverge, find a lower loss than the network's, are farther away
    than the localisation alone lets them be, or have not reached their distribution (Stein's
    identity off by more than a quarter).

    `parameters` names modules: each has the coefficient of the same loss as a function of its
    parameters alone, at the last state. What modules do together is in none of them, so they do
    not add up to the whole.

    Reference: Lau et al., The Local Learning Coefficient, arXiv 2308.12108; Watanabe, WBIC, JMLR
    2013.
    """

    name = "learning-coefficient"
    example = "penchant probe learning-coefficient -a mlp:widths=[8] -d digits:per_class=60"
    question = "How many parameters does the network use around its minimum?"
    target = "penchant_landscape.learning_coefficient.probe:run"
    figures = "penchant_landscape.learning_coefficient.figures:draw"
    needs = ("architecture", "dataset")
    takes = ("fresh", "trained", "trajectory")
    accepts = ("sequences",)
    quantities = {
        "learning-coefficient": "the limit of large n, at the last step; error: chains and the "
        "distance to the limit; null: half the parameters, a regular model",
        "localised-coefficient": "n beta (E[L_n] - L_n(w*)) at this n and localisation; error: "
        "chains only",
        "temperature-slope": "its derivative in log(n beta); 0 in the limit of large n",
        "split-r-hat": "agreement of chains and of their halves; 1 where they agree",
        "effective-samples": "of all chains together",
        "stein-ratio": "E<w - w*, grad U> over the number of parameters; 1 for exact sampling",
        "acceptance": "share of steps that were accepted",
        "loss": "mean loss of the network on these samples",
    }
    arrays = {
        "steps": "steps of training at which it was measured",
        "coefficients-by-chain": "of each chain at the last step",
        "excess": "n beta (L_n(w) - L_n(w*)) of each chain (chains, draws) at the last step, "
        "thinned",
        "autocorrelations": "of these, by lag in draws",
    }
    tables = {
        "coefficients[step]": "localised coefficient along the training; error: chains only; "
        "missing where chains do not allow a number",
        "learning-coefficient-by-module[module]": "the limit of large n where only this module "
        "moves; null: half its parameters",
        "localised-coefficient-by-module[module]": "the same at this n and localisation; error: "
        "chains only",
    }
    presets = {"quick": {"chains": 8, "chain_steps": 4000, "warmup": 2000, "training": QUICK}}

    samples: int | None = penchant.option(
        None,
        "samples of the training set, the first in order, which are the n; None: all",
        at_least=3,
    )
    chains: int = penchant.option(8, "Langevin chains, which are computed as one stack", at_least=2)
    chain_steps: int = penchant.option(4000, "steps of each chain that count", at_least=8)
    warmup: int = penchant.option(2000, "steps of each chain before these", at_least=2)
    localisation: float = penchant.option(
        10.0, "precision gamma of the Gaussian around the network", above=0
    )
    batch: int | None = penchant.option(
        None, "samples in every gradient of each chain (SGLD); None: all, corrected", at_least=2
    )
    step_size: float | None = penchant.option(
        None, "step size of the chains; None: found by acceptance, without batch only", above=0
    )
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS)
    parameters: tuple[str, ...] = penchant.option((), PARAMETERS)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
