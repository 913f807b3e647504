"""Critical sharpness, as data."""

import attrs
import penchant

from penchant_landscape.declarations.recipes import BATCH_NORM, EVAL_STEPS, QUICK, SAMPLES


@attrs.frozen
class CriticalSharpness(penchant.Probe):
    r"""Sharpness from forward passes: where the loss first rises along a step.

    Along a unit direction $u$ the loss falls with slope $s$ and is back where it began at the
    distance $r$; $2 s / r$ is the critical sharpness. Along the gradient $r / s$ is the critical
    learning rate, the least with which a step does not lower the loss. For a quadratic loss the
    number is $u^\top H u$, so $g^\top H g / g^\top g$ along the gradient $g$, and at most the
    largest eigenvalue. A state takes at most 12 forward passes of the samples, and no second
    derivative, so that attention keeps its own kernels.

    `along` says what the direction is: the gradient, that of a step of gradient descent on the
    training samples (the first `samples`); an update that the training made, from the network
    before it; or random. Up to `exact_limit` parameters the largest eigenvalue of the Hessian
    stands beside it, and `stability-limit`, 2 (1 + momentum) / rate, where gradient descent becomes
    unstable.

    Errors are over samples of a population, with the direction as it is: a gradient of other
    samples would be another direction. Where samples were chosen with as many of each class, other
    such choices differ by less: in the tests the error of the largest eigenvalue, which depends
    most on the classes, is then 1.5 times their spread. Null: the curvature along random
    directions, over the same distance.

    When not to trust it: along one direction the loss may be flat where another is steep, so that
    it says more about the largest eigenvalue during a training than at its start. Where the loss is
    far from quadratic over the critical distance the two differ. A rise between two points that
    were tried is not seen. Updates that do not lower the loss have no critical sharpness, and
    random directions hardly lower it: they need double precision. For networks with batch-norm, the
    loss with running statistics is not that of the training (`batch_norm`). States of one training
    follow each other: errors of `rank-correlation` and `sharpening` count them as repetitions.

    Reference: Kalra et al., A Scalable Measure of Loss Landscape Curvature for Analyzing the
    Training Dynamics of LLMs, arXiv 2601.16979; Cohen et al., Gradient Descent on Neural Networks
    Typically Occurs at the Edge of Stability, ICLR 2021. The paper has 2 over the critical learning
    rate of the optimiser's update; here both are in units of the distance, which is the same for
    gradient descent and needs no learning rate.
    """

    name = "critical-sharpness"
    example = "penchant probe critical-sharpness -a mlp:widths=[32] -d digits:per_class=60"
    question = "How sharp is the loss along training, without second derivatives?"
    target = "penchant_landscape.critical_sharpness.probe:run"
    figures = "penchant_landscape.critical_sharpness.figures:draw"
    needs = ("architecture", "dataset")
    takes = ("fresh", "trained", "trajectory")
    accepts = ("sequences",)
    quantities = {
        "critical-sharpness": "2 s / r at the last state; error: samples; null: curvature along "
        "random directions, over the same distance",
        "critical-rate": "r / s, 2 over the critical sharpness: along the gradient, the least "
        "learning rate with which a step does not lower the loss",
        "critical-update": "r in lengths of the update: above 1 where the update lowered the loss "
        "(along = update)",
        "sharpness": "largest eigenvalue of the Hessian of these samples at the last state, where "
        "it fits; null: curvature along random directions",
        "sharpness-ratio": "critical sharpness over the largest eigenvalue, at the last state; at "
        "most 1 for a quadratic loss",
        "stability-limit": "2 (1 + momentum) / rate at the last state, of a training by sgd",
        "rank-correlation": "of critical sharpness and largest eigenvalue over states; null: 0",
        "sharpening": "rank correlation of critical sharpness with the step; null: 0",
        "loss": "mean loss of the last state",
    }
    headline = penchant.Headline(
        "sharpening",
        above="The critical sharpness rises along the training",
        below="The critical sharpness falls along the training",
        neither="The critical sharpness does not rise or fall significantly along the training",
    )
    tables = {
        "critical-sharpness[step]": "2 s / r; missing where the loss does not fall or not rise",
        "critical-update[step]": "r in lengths of the update",
        "sharpness[step]": "largest eigenvalue of the Hessian of these samples",
        "stability-limit[step]": "2 (1 + momentum) / rate",
        "loss[step]": "mean loss",
        "forward-passes[step]": "passes over all samples that the search took, its direction "
        "included",
        "hessian-products[step]": "products of the Hessian with a vector that the largest "
        "eigenvalue took",
    }
    arrays = {"steps": "steps of the states that were measured"}
    presets = {"quick": {"training": QUICK}}

    along: str = penchant.option(
        "gradient",
        "what to step along: the gradient, an update of the training, or random",
        choices=("gradient", "update", "random"),
    )
    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    samples: int | None = penchant.option(
        None, f"samples of the loss and of the gradient, {SAMPLES}", at_least=2
    )
    random_directions: int = penchant.option(
        20, "random directions of the null, at the last state; 0: no null", at_least=0
    )
    exact_limit: int = penchant.option(
        100_000,
        "parameters up to which the largest eigenvalue is computed at every state; 0: never",
        at_least=0,
    )
    products: int = penchant.option(
        200, "products with the Hessian to find that eigenvalue, at most", at_least=1
    )
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, f"{EVAL_STEPS}: nine of a training, all states of a trajectory"
    )
    batch_norm: str = penchant.option(
        "running",
        f"{BATCH_NORM} at every point, or those of the batch at hand, which is all samples",
        choices=("running", "batch", "calibrated"),
    )
