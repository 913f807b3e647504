"""Loss along lines and planes, as data."""

import attrs
import penchant

from penchant_landscape.declarations.recipes import (
    BATCH_NORM,
    EVAL_STEPS,
    PARAMETERS,
    QUICK,
    SAMPLES,
)


@attrs.frozen
class LossPlane(penchant.Probe):
    """Loss and accuracy along lines and planes: between checkpoints, and around the last one.

    Straight paths lead from every checkpoint to the last (start and end of training, unless
    `eval_steps` or a trajectory has more). Around the last network: random directions whose
    filters have the norms of its filters, and leading eigenvectors of the Hessian, each as far as
    the quadratic model predicts a rise of `rise`; both also as planes. Beside every curve stands
    the quadratic model, from gradient and Hessian at the last network. Errors are over samples,
    and paired where losses are compared. For sequences with a label at every position, losses and
    accuracies are means over positions, errors are over sequences.

    The barrier is the largest excess of the loss over the straight line between its ends, at the
    points between them: below 0 where the loss stays under that line everywhere. Its point is
    chosen on one half of the samples and measured on the other. Null: 0. Random directions of the
    same length are the null of eigenvectors.

    `parameters` names modules: each moves along random directions and along its straight path while
    the others stay at the last network, and has the largest eigenvalue of its block.

    When not to trust it: two directions out of many say little about the others; a random direction
    sees the mean curvature, which hides a few steep ones. Paths with batch-norm depend on its
    statistics (`batch_norm`): running ones are interpolated and fit no network in between. A loss
    that falls all the way can lie above the line between its ends. Between grid points nothing is
    seen. Where `quadratic-ratio` is far from 1, eigenvectors say nothing at
    this distance.

    Reference: Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018; Goodfellow,
    Vinyals, Saxe, Qualitatively Characterizing Neural Network Optimization Problems, ICLR 2015.
    """

    name = "loss-plane"
    example = "penchant probe loss-plane -a mlp:widths=[32] -d digits:per_class=60"
    question = "What does the loss look like between checkpoints, and around the network?"
    target = "penchant_landscape.loss_plane.probe:run"
    figures = "penchant_landscape.loss_plane.figures:draw"
    needs = ("architecture", "dataset", "classes", "second-derivatives")
    takes = ("fresh", "trained", "trajectory")
    accepts = ("sequences",)
    quantities = {
        "barrier": "largest excess of the loss over the straight line between its ends, on the "
        "path from the first checkpoint to the last; null: 0",
        "accuracy-drop": "accuracy on the straight line between its ends less that of the network, "
        "at the same point; null: 0",
        "eigenvector-rise": "mean rise of the loss at both ends of the line along the first "
        "eigenvector; its error finds direction and length again without groups of samples; null: "
        "random directions of the same length",
        "quadratic-ratio": "that rise at half the length over what the quadratic model predicts; "
        "1 where the loss is quadratic",
        "random-rise": "mean rise of the loss at `distance` filter norms, over random directions",
        "sharpness": "largest eigenvalue of the Hessian; null: curvature along random directions",
        "loss": "mean loss of the last network; null: the best constant outputs",
    }
    headline = penchant.Headline(
        "barrier",
        above="On the straight path between the first and last checkpoint the loss rises above the "
        "line between the losses of its ends",
        below="On the straight path between the first and last checkpoint the loss stays below the "
        "line between the losses of its ends",
        neither="On the straight path between the first and last checkpoint there is no "
        "significant barrier",
    )
    arrays = {
        "path-positions": "from 0, the earlier checkpoint, to 1, the last network",
        "steps": "steps of all checkpoints",
        "path-steps": "steps of the earlier checkpoints, one for each path",
        "random-positions": "in filter norms",
        "eigenvector-positions": "in units of the length of each line",
        "plane-positions": "along both axes of the planes, in the units of their lines",
    }
    tables = {
        "path-loss[step, position]": "mean loss on the path from this step",
        "path-accuracy[step, position]": "share of right answers",
        "path-excess[step, position]": "loss less that on the straight line between its ends",
        "path-quadratic[step, position]": "the quadratic model of the loss at the last network",
        "random-loss[direction, distance]": "mean loss, by distance in filter norms",
        "random-accuracy[direction, distance]": "share of right answers",
        "random-quadratic[direction, distance]": "the quadratic model of the loss",
        "eigenvector-loss[eigenvector, length]": "mean loss, by distance in lengths of the line",
        "eigenvector-accuracy[eigenvector, length]": "share of right answers",
        "eigenvector-quadratic[eigenvector, length]": "the quadratic model of the loss",
        "eigenvector-lengths[eigenvector]": "Euclidean length of each line, from the network to "
        "its end",
        "eigenvalues[eigenvector]": "of the Hessian",
        **{
            f"{name}-plane-{what}[second-position, first-position]": f"{about} in the plane of the "
            f"first two {directions}"
            for name, directions in (
                ("random", "random directions"),
                ("eigenvector", "eigenvectors"),
            )
            for what, about in (("loss", "mean loss"), ("accuracy", "share of right answers"))
        },
        "random-loss-by-module[module, distance]": "mean loss over random directions of the "
        "module, by distance in filter norms; error: directions",
        "random-rise-by-module[module]": "mean rise of the loss at `distance` filter norms; error: "
        "directions",
        "sharpness-by-module[module]": "largest eigenvalue of the module's block of the Hessian; "
        "null: curvature along random directions of the module",
        "path-loss-by-module[module, position]": "mean loss where only this module goes from the "
        "first checkpoint (0) to the last (1)",
    }
    presets = {"quick": {"training": QUICK}}

    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    samples: int | None = penchant.option(
        None, f"samples that are measured on, {SAMPLES}", at_least=2
    )
    grid_points: int = penchant.option(
        25, "points of a line; odd, so that its middle is one", at_least=5
    )
    plane_points: int = penchant.option(
        11, "points of a plane along each axis; odd; 0: no planes", at_least=0
    )
    random_directions: int = penchant.option(
        20, "random directions, which are also the null of eigenvectors", at_least=2
    )
    distance: float = penchant.option(
        1.0, "length of random lines, in norms of the network's filters", above=0
    )
    rise: float = penchant.option(
        1.0,
        "rise of the loss that the quadratic model predicts at the ends of eigenvectors",
        above=0,
    )
    eigenvectors: int = penchant.option(2, "leading eigenvectors of the Hessian", at_least=1)
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS)
    parameters: tuple[str, ...] = penchant.option((), PARAMETERS)
    batch_norm: str = penchant.option(
        "running",
        f"{BATCH_NORM} at every point, or those of the batch at hand, which is all samples",
        choices=("running", "batch", "calibrated"),
    )
