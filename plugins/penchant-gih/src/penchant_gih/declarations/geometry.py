"""Probes of the geometry itself."""

from __future__ import annotations

import attrs
import penchant

from penchant_gih.declarations.estimators import BATCH_NORM

MOMENTUM = {"batch": 128, "learning_rate": 0.1, "momentum": 0.9}
# Gradients are clipped and the rate decays in the published code; without these LeNet stays at
# chance on CIFAR.
CLIPPED = {**MOMENTUM, "schedule": "linear", "clip": 0.5}
FULL_BATCH = {**CLIPPED, "batch": 0, "steps": 100}
ADAM = {
    "batch": 0,
    "optimizer": "adam",
    "learning_rate": 0.001,
    "schedule": "linear",
    "clip": 0.5,
    "steps": 100,
}
AN_EPOCH = 79  # steps of 128 samples of 10000
# Most happens early.
HUNDRED = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 100)
# GELU networks are probed close to zero, as published.
SMALL_SCALE = {"directions": {"name": "average-geometry", "scale": 1e-3}}
# The inputs at which the evolution itself is taken.
OPPOSITE = {"directions": {"name": "average-geometry", "opposite": True}}

# Help texts and meanings that several probes share.
EVAL_STEPS = "steps of training looked at; None: 0, 1, 2, 4, ... and the last"
PROBING_SCALE = "standard deviation of normal probing inputs; None: that of the estimator of G"
NULL_MEAN = "mean after a random rotation"
NULL_SPREAD = "standard deviation over random rotations"


@attrs.frozen
class AverageGeometry(penchant.Probe):
    """Average geometry G = E[g g^T] of an architecture before training, g its input gradient.

    Expectation over fresh networks and over probing inputs: normal ones, zero, or the inputs of a
    dataset (options of the estimator). The null is an isotropic architecture with the same gradient
    norms.

    Of a trained network of your own it is E_x[g g^T] over samples of its dataset, g the gradient of
    the output, of the difference of two logits, or of the logit of the sample's class; standard
    errors are over samples. Nulls are then gradients with their pixels in random order, and with
    the phases of their waves in random order, which keeps the amplitude at every frequency.

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.1 and figure 9.
    """

    name = "average-geometry"
    example = "penchant probe average-geometry -a lenet --shape 1,16,16"
    question = "Which directions of its input does an architecture weigh before it is trained?"
    needs = ("architecture", "continuous-inputs")
    takes = ("fresh", "trained")
    accepts = ("dataset",)
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.probes.average_geometry:run"
    figures = "penchant_gih.figures.average_geometry:draw"
    quantities = {
        "trace": "mean squared norm of the gradient",
        "effective-rank": "exp of the entropy of the eigenvalues",
        "condition": "largest over smallest eigenvalue; missing where G has not full rank",
        "rank": "eigenvalues above the rounding of gradients",
        "corr-isotropic": "Corr(G, I), the norm of G from independent parts of the networks",
        "beyond-null": "eigenvalues outside null-edges",
        "low-frequencies": "share of the trace in waves of eight pixels or longer; null: isotropic "
        "gradients, of a trained network gradients with shuffled pixels",
        "rank-over-scrambled": "of a trained network: effective rank over that of the same "
        "gradients with scrambled phases; null: another scrambling",
    }
    arrays = {
        "geometry": "G; not stored for more than 4096 inputs and fewer networks than inputs",
        "eigenvalues": "of G, descending",
        "directions": "orthonormal rows, in the order of eigenvalues",
        "null-edges": "smallest and largest eigenvalue of isotropic architectures, same norms",
        "null-eigenvalues": "mean spectrum of these architectures",
        "null-eigenvalues-spread": "its standard deviation over them",
        "frequency-shares": "share of the trace by frequency, in the order of torch.fft",
        "radii": "of a trained network: lengths of frequencies, in waves across the input",
        "radial-shares": "share of the trace at frequencies of each length",
        "radial-shares-null": "the same with shuffled pixels",
        "radial-shares-null-spread": "its standard deviation over shufflings",
    }
    presets = {
        "quick": {"networks": 500},
        "fig-9": {"networks": 10000, "estimators": SMALL_SCALE},
    }

    networks: int = penchant.option(500, "networks drawn", at_least=12)
    keep: int | None = penchant.option(None, "leading directions stored; None: all", at_least=1)
    null_draws: int = penchant.option(
        8, "isotropic architectures, or shufflings, simulated for the null", at_least=2
    )
    samples: int = penchant.option(
        1000, "samples at which gradients of one trained network are taken", at_least=16
    )
    split: str = penchant.option("train", "which samples of the dataset", choices=("train", "test"))


@attrs.frozen
class GeometryEvolution(penchant.Probe):
    """Average geometry evolution Delta = dG/dt under gradient flow, its alignment with S and G S G.

    From the mixed derivative, at initialisation or at given steps of training; one output,
    S = sum x x^T. G comes from the estimator: of the same networks where it is `average-geometry`,
    else of as many others. Beside every Corr stands what a random rotation would give.
    `containment` is |P Delta P| / |Delta|, P on the leading eigenvectors of G S G (conjecture 2);
    `label-effect` is the squared norm of what permuting labels changes, in units of |Delta|^2
    (proposition A.1: 0 if the last layer has mean zero).

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.2, theorems 3.1, 3.2 and
    figure 7. The paper's Delta for linear regression misses a factor of two: it is -2 s^2 S.
    """

    name = "geometry-evolution"
    example = (
        "penchant probe geometry-evolution "
        "-a 'mlp:widths=[32],bias=false,initialization=gaussian,weight_std=0.3' "
        "-d 'gaussian:input_shape=[1,4,4],train=64,test=2'"
    )
    question = "Where does the geometry of a network move when training begins?"
    needs = ("architecture", "dataset", "second-derivatives", "continuous-inputs")
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.probes.geometry_evolution:run"
    figures = "penchant_gih.figures.geometry_evolution:draw"
    quantities = {
        "corr-s": "Corr(Delta, S), at the last width or step",
        "corr-gsg": "Corr(Delta, G S G), at the last width or step",
        "containment": "|P Delta P| / |Delta|, P on the leading eigenvectors of G S G; "
        "null: a random subspace",
        "leading": "dimension of that subspace",
        "label-effect": "|Delta - Delta with permuted labels|^2 / |Delta|^2",
    }
    arrays = {
        "evolution": "Delta, at the last width or step",
        "label-difference": "Delta minus Delta with permuted labels, the same networks",
        "corr-s": "Corr(Delta, S), by width or step",
        "corr-s-null": NULL_MEAN,
        "corr-s-null-spread": NULL_SPREAD,
        "corr-gsg": "Corr(Delta, G S G), by width or step",
        "corr-gsg-null": NULL_MEAN,
        "corr-gsg-null-spread": NULL_SPREAD,
        "containment": "by dimension of the subspace, at the last width or step",
        "containment-null": "for a random subspace",
        "dimensions": "dimensions of the subspaces",
        "widths": "widths of the sweep",
        "steps": "steps of training",
    }
    presets = {
        "quick": {"networks": 2000, "estimators": OPPOSITE},
        "fig-7": {
            "networks": 10000,
            "widths": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            "estimators": OPPOSITE,
        },
    }

    networks: int = penchant.option(2000, "networks drawn", at_least=12)
    widths: tuple[int, ...] | None = penchant.option(
        None, "widths to sweep: each hidden layer of an MLP, channels of a convolution", at_least=1
    )
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "steps of training at which Delta is taken; None: initialisation", at_least=0
    )
    samples: int | None = penchant.option(
        None, "first training samples that drive the evolution; None: all", at_least=1
    )
    residual: str = penchant.option(
        "squared-error",
        "loss whose gradient flow it is",
        choices=("squared-error", "cross-entropy"),
    )
    probing_scale: float | None = penchant.option(None, PROBING_SCALE, above=0)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
    leading: int | None = penchant.option(
        None, "dimension of the subspace; None: 90 % of the trace of G S G", at_least=1
    )

    def __attrs_post_init__(self) -> None:
        if self.widths is not None and self.eval_steps is not None:
            widths = list(self.widths)
            found = f"{widths} and {list(self.eval_steps)}"
            raise penchant.Error(
                f"geometry-evolution takes widths or eval_steps, found both ({found})"
            )
        steps = list(self.eval_steps or ())
        if steps != sorted(set(steps)):
            raise penchant.Error(f"eval_steps must ascend, found {steps}")


@attrs.frozen
class GeometryTraining(penchant.Probe):
    """Geometry G_t of networks along training: Corr(G_t, S), Corr(G_t, G S G), velocity.

    On a dataset of two classes, or on N(0, G) (`data = geometry`) or N(0, flip G)
    (`data = flipped`, eigenvalues in reverse order) with random labels.
    Along a trajectory of your own (`data = dataset`), G_t is that of one network over probing
    inputs, and standard errors are over these.

    Reference: Geometric Inductive Biases of Deep Networks, figures 2, 3, 8, 12, 13.
    """

    name = "geometry-training"
    example = "penchant probe geometry-training -a lenet --shape 1,16,16"
    question = "Does the geometry of a network align with the data while it is trained?"
    needs = ("architecture", "training", "continuous-inputs")
    takes = ("fresh", "trajectory")
    accepts = ("dataset",)
    roles = {"directions": "average-geometry"}
    uses = ("gaussian",)
    target = "penchant_gih.probes.geometry_training:run"
    figures = "penchant_gih.figures.geometry_training:draw"
    quantities = {
        "peak-corr-s": "largest Corr(G_t, S) over steps; missing where G_t is all noise",
        "peak-corr-gsg": "largest Corr(G_t, G S G) over steps; missing where G_t is all noise",
        "train-accuracy": "accuracy on training samples at the last step",
        "test-accuracy": "accuracy on test samples at the last step",
        "path-length": "sum of velocities; missing where one of them is",
    }
    arrays = {
        "steps": "steps of training",
        "corr-s": "Corr(G_t, S)",
        "corr-s-null": NULL_MEAN,
        "corr-s-null-spread": NULL_SPREAD,
        "corr-gsg": "Corr(G_t, G S G)",
        "corr-gsg-null": NULL_MEAN,
        "corr-gsg-null-spread": NULL_SPREAD,
        "velocity": "1 - Corr of consecutive steps, one fewer than steps",
        "train-accuracy": "accuracy on training samples, mean over trainings",
        "test-accuracy": "accuracy on test samples, mean over trainings",
    }
    presets = {
        "quick": {
            "trainings": 6,
            "networks": 1000,
            "train": 1000,
            "test": 200,
            "training": {**MOMENTUM, "steps": 64},
        },
        "fig-2": {
            "data": "dataset",
            "trainings": 25,
            "networks": 10000,
            "eval_steps": HUNDRED,
            "training": FULL_BATCH,
        },
        "fig-3": {
            "data": "geometry",
            "trainings": 25,
            "networks": 10000,
            "eval_every": AN_EPOCH,
            "estimators": SMALL_SCALE,
            "training": {**CLIPPED, "epochs": 100},
        },
        "fig-3-flipped": {
            "data": "flipped",
            "trainings": 25,
            "networks": 10000,
            "eval_every": AN_EPOCH,
            "estimators": SMALL_SCALE,
            "training": {**CLIPPED, "epochs": 100},
        },
        "fig-8": {
            "data": "dataset",
            "trainings": 25,
            "networks": 10000,
            "eval_steps": HUNDRED,
            "training": ADAM,
        },
        "fig-12": {
            "data": "geometry",
            "trainings": 25,
            "networks": 10000,
            "train": 100000,
            "eval_every": 10 * AN_EPOCH,
            "estimators": SMALL_SCALE,
            "training": {**CLIPPED, "epochs": 50},
        },
        "fig-13": {
            "data": "geometry",
            "trainings": 25,
            "networks": 10000,
            "train": 100000,
            "eval_every": AN_EPOCH,
            "estimators": SMALL_SCALE,
            "training": {**CLIPPED, "batch": 1280, "epochs": 50},
        },
    }

    trainings: int = penchant.option(6, "networks trained", at_least=3)
    networks: int = penchant.option(1000, "other networks, drawn for G", at_least=12)
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS, at_least=0)
    eval_every: int | None = penchant.option(
        None, "steps between looks, as in figure 3; None: eval_steps", at_least=1
    )
    inputs: int = penchant.option(16, "probing inputs a trained network", at_least=1)
    probing_scale: float | None = penchant.option(None, PROBING_SCALE, above=0)
    batch_norm: str = penchant.option(
        "running", BATCH_NORM, choices=("running", "batch", "calibrated")
    )
    data: str = penchant.option(
        "geometry", "what networks are trained on", choices=("dataset", "geometry", "flipped")
    )
    train: int = penchant.option(10000, "training samples where data is not a dataset", at_least=2)
    test: int = penchant.option(2000, "test samples where data is not a dataset", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.eval_steps is not None and self.eval_every is not None:
            raise penchant.Error(
                f"geometry-training takes eval_steps or eval_every, found {list(self.eval_steps)} "
                f"and {self.eval_every}"
            )


@attrs.frozen
class InputCurvature(penchant.Probe):
    """Input Hessian of the loss against the geometry, along training.

    The mean Hessian is E[l''] g g^T + E[l' Hess_x f]. The paper drops the second term; here it is
    measured (`second-share`). Two classes, one output, small inputs. Of a network of your own, or
    of checkpoints of its training, standard errors are over samples instead of networks.

    Reference: Geometric Inductive Biases of Deep Networks, appendix A.3.
    """

    name = "input-curvature"
    example = (
        "penchant probe input-curvature -a 'mlp:widths=[32],activation=gelu' "
        "-d 'two-circles:input_shape=[16],train=400,test=100'"
    )
    question = "Does the curvature of the loss in the input follow the network's geometry?"
    needs = ("architecture", "dataset", "classes", "second-derivatives", "continuous-inputs")
    takes = ("fresh", "trained", "trajectory")
    target = "penchant_gih.probes.input_curvature:run"
    figures = "penchant_gih.figures.input_curvature:draw"
    quantities = {
        "corr-g": "Corr of the mean Hessian with G_t at the last step",
        "second-share": "norm of E[l' Hess_x f] over that of the whole, at the last step",
    }
    arrays = {
        "steps": "steps of training",
        "corr-g": "Corr of the mean Hessian with G_t, inner products of different networks only",
        "corr-g-null": NULL_MEAN,
        "corr-g-null-spread": NULL_SPREAD,
        "second-share": "norm of E[l' Hess_x f] over that of the whole",
        "weight": "mean l''",
    }
    presets = {
        "quick": {"trainings": 16, "samples": 32, "training": {**MOMENTUM, "steps": 100}},
        "appendix-a-3": {"trainings": 25, "samples": 128, "training": {**CLIPPED, "epochs": 50}},
    }

    trainings: int = penchant.option(16, "networks trained", at_least=3)
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS, at_least=0)
    samples: int = penchant.option(
        32, "training samples of a network at which Hessians are taken", at_least=1
    )
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
