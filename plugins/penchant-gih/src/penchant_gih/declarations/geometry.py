"""Probes of the geometry itself."""

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
EVAL_STEPS = "training steps at which to evaluate; None: 0, 1, 2, 4, ... and the last"
PROBING_SCALE = "standard deviation of normal inputs; None: that of the estimator of G"


@attrs.frozen
class AverageGeometry(penchant.Probe):
    r"""Average geometry of fresh networks: second moment of gradients at random inputs.

    $G = \mathbb{E}[g g^\top]$, where $g$ is the gradient of the output with respect to the input.
    The mean is over fresh networks and over inputs: normal ones, zero, or those of a dataset
    (options of the estimator). Null: gradients with the same norms in random directions.

    For a trained network of your own it is E_x[g g^T] over samples of its dataset; g is the
    gradient of the output, of the difference of two logits, or of the logit of the sample's class.
    Standard errors are over samples. Nulls are then gradients with their pixels in random order,
    and with the phases of their waves in random order, which keeps amplitudes of frequencies.

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.1 and figure 9.
    """

    name = "average-geometry"
    example = "penchant probe average-geometry -a lenet --shape 1,16,16"
    question = "To which input directions is a network most sensitive?"
    needs = ("architecture", "continuous-inputs")
    takes = ("fresh", "trained")
    accepts = ("dataset",)
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.average_geometry.probe:run"
    figures = "penchant_gih.average_geometry.figures:draw"
    quantities = {
        "trace": "mean squared norm of the gradient",
        "effective-rank": "number of directions that count (exponential of the spectral entropy)",
        "condition": "largest over smallest eigenvalue; missing if G does not have full rank",
        "rank": "number of eigenvalues above rounding",
        "corr-isotropic": "Corr(G, I), the norm of G from independent groups of networks",
        "beyond-null": "number of eigenvalues outside null-edges",
        "low-frequencies": "share of the trace in waves of eight pixels or longer; null: isotropic "
        "gradients; for a trained network, gradients with shuffled pixels",
        "rank-over-scrambled": "for a trained network: effective rank over that of the same "
        "gradients with scrambled phases; null: another scrambling",
    }
    headline = penchant.Headline(
        "low-frequencies",
        above="The network is more sensitive to low input frequencies than an isotropic one, "
        "share of the trace in waves of eight pixels or longer",
        below="The network is less sensitive to low input frequencies than an isotropic one, "
        "share of the trace in waves of eight pixels or longer",
        neither="No significant preference for low or high frequencies, share of the trace in "
        "waves of eight pixels or longer",
    )
    arrays = {
        "geometry": "G; not stored for more than 4096 inputs and fewer networks than inputs",
        "eigenvalues": "of G, descending",
        "directions": "orthonormal rows, in the order of eigenvalues",
        "null-edges": "smallest and largest eigenvalue under the null",
        "null-eigenvalues": "mean spectrum under the null",
        "null-eigenvalues-spread": "its standard deviation under the null",
        "frequency-shares": "share of the trace by frequency, in the order of torch.fft",
        "radii": "of a trained network: lengths of frequencies, in waves across the input",
    }
    tables = {
        "radial-shares[radius]": "of a trained network: share of the trace at frequencies of each "
        "length; null: shuffled pixels"
    }
    card = penchant.Card(
        20,
        ("low-frequencies", "corr-isotropic", "rank-over-scrambled"),
        {
            "networks": 16,
            "samples": 500,
            "estimators": {"directions": {"name": "average-geometry", "inputs": 8}},
        },
        family="frequencies",
    )
    presets = {"quick": {"networks": 500}, "fig-9": {"networks": 10000, "estimators": SMALL_SCALE}}

    networks: int = penchant.option(500, "fresh networks", at_least=12)
    store_directions: int | None = penchant.option(
        None, "leading directions stored; None: all", at_least=1
    )
    null_draws: int = penchant.option(8, "simulations of the null", at_least=2)
    samples: int = penchant.option(
        1000, "samples at which gradients of one trained network are taken", at_least=16
    )
    split: str = penchant.option("train", "which samples of the dataset", choices=("train", "test"))


@attrs.frozen
class GeometryEvolution(penchant.Probe):
    r"""Time derivative of the average geometry under gradient flow, compared with the data.

    $\Delta = dG/dt$ is computed from the mixed derivative, at initialisation or at given training
    steps, for one output; $S = \sum x x^\top$. The estimator gives G, from the same networks if it
    is `average-geometry`, else from other ones. The null of every Corr is a random rotation.
    `containment` is $|P \Delta P| / |\Delta|$, where $P$ projects on the leading eigenvectors of $G
    S G$ (conjecture 2). `label-effect` is the squared norm of the change of $\Delta$ when labels
    are permuted, over $|\Delta|^2$ (proposition A.1: 0 if the last layer has mean zero).

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.2, theorems 3.1, 3.2 and
    figure 7. The paper's Delta for linear regression misses a factor of two: it is -2 s^2 S.
    """

    name = "geometry-evolution"
    example = (
        "penchant probe geometry-evolution "
        "-a 'mlp:widths=[32],bias=false,initialization=gaussian,weight_std=0.3' "
        "-d 'gaussian:input_shape=[1,4,4],train=64,test=2'"
    )
    question = "How does the input geometry of a network change at the start of training?"
    needs = ("architecture", "dataset", "second-derivatives", "continuous-inputs")
    roles = {"directions": "average-geometry"}
    target = "penchant_gih.geometry_evolution.probe:run"
    figures = "penchant_gih.geometry_evolution.figures:draw"
    quantities = {
        "corr-s": "Corr(Delta, S), at the last width or step",
        "corr-gsg": "Corr(Delta, G S G), at the last width or step",
        "containment": "|P Delta P| / |Delta|, P on the leading eigenvectors of G S G; "
        "null: a random subspace",
        "leading": "dimension of that subspace",
        "label-effect": "|Delta - Delta with permuted labels|^2 / |Delta|^2",
    }
    headline = penchant.Headline(
        "corr-gsg",
        above="At the start of training the geometry changes along G S G",
        below="At the start of training the geometry changes against G S G",
        neither="The change of the geometry is not significantly aligned with G S G",
    )
    tables = {
        "corr-s[sweep]": "Corr(Delta, S), by width or step",
        "corr-gsg[sweep]": "Corr(Delta, G S G), by width or step",
        "containment[dimension]": "by dimension of the subspace, at the last width or step",
    }
    arrays = {
        "evolution": "Delta, at the last width or step",
        "label-difference": "Delta minus Delta with permuted labels, the same networks",
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

    networks: int = penchant.option(2000, "fresh networks", at_least=12)
    widths: tuple[int, ...] | None = penchant.option(
        None, "widths to sweep: each hidden layer of an MLP, channels of a convolution", at_least=1
    )
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "training steps at which Delta is computed; None: initialisation", at_least=0
    )
    samples: int | None = penchant.option(
        None, "number of training samples in the loss, the first ones; None: all", at_least=1
    )
    residual: str = penchant.option(
        "squared-error", "loss of the gradient flow", choices=("squared-error", "cross-entropy")
    )
    probing_scale: float | None = penchant.option(None, PROBING_SCALE, above=0)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
    leading: int | None = penchant.option(
        None, "dimension of the subspace; None: 90 % of the trace of G S G", at_least=1
    )

    def __attrs_post_init__(self) -> None:
        if self.widths is not None and self.eval_steps is not None:
            widths = list(self.widths)
            actual = f"{widths} and {list(self.eval_steps)}"
            raise penchant.Error(
                f"geometry-evolution takes widths or eval_steps, found both ({actual})"
            )
        if self.widths is not None and len(set(self.widths)) < len(self.widths):
            raise penchant.Error(f"widths must differ, found {list(self.widths)}")
        steps = list(self.eval_steps or ())
        if steps != sorted(set(steps)):
            raise penchant.Error(f"eval_steps must ascend, found {steps}")


@attrs.frozen
class GeometryTraining(penchant.Probe):
    r"""Average geometry during training: its correlation with the data, and its velocity.

    $G_t$ is compared with $S$ and with $G S G$. Networks are trained on a dataset of two classes,
    or with random labels on $N(0, G)$ (`data = geometry`) or $N(0, \operatorname{flip} G)$ (`data =
    flipped`: eigenvalues in reverse order).
    Along your own trajectory (`data = dataset`), $G_t$ is that of one network, and standard errors
    are over its inputs.

    Reference: Geometric Inductive Biases of Deep Networks, figures 2, 3, 8, 12, 13.
    """

    name = "geometry-training"
    example = "penchant probe geometry-training -a lenet --shape 1,16,16"
    question = "Does the input geometry of a network align with the data during training?"
    needs = ("architecture", "training", "continuous-inputs")
    takes = ("fresh", "trajectory")
    accepts = ("dataset",)
    roles = {"directions": "average-geometry"}
    uses = ("gaussian",)
    target = "penchant_gih.geometry_training.probe:run"
    figures = "penchant_gih.geometry_training.figures:draw"
    quantities = {
        "peak-corr-s": "largest Corr(G_t, S) over steps; missing if G_t is only noise",
        "peak-corr-gsg": "largest Corr(G_t, G S G) over steps; missing if G_t is only noise",
        "train-accuracy": "accuracy on training samples at the last step",
        "test-accuracy": "accuracy on test samples at the last step",
        "path-length": "sum of velocities; missing if one of them is",
    }
    headline = penchant.Headline(
        "peak-corr-gsg",
        above="The geometry aligns with G S G during training",
        below="The geometry turns away from G S G during training",
        neither="The geometry does not align with G S G significantly",
    )
    tables = {
        "corr-s[step]": "Corr(G_t, S); null: after a random rotation",
        "corr-gsg[step]": "Corr(G_t, G S G); null: after a random rotation",
        "velocity[later-step]": "1 - Corr of consecutive steps, one fewer than steps",
        "train-accuracy[step]": "accuracy on training samples, mean over trainings",
        "test-accuracy[step]": "accuracy on test samples, mean over trainings",
    }
    arrays = {"steps": "steps of training"}
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
    networks: int = penchant.option(1000, "additional fresh networks for G", at_least=12)
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS, at_least=0)
    eval_every: int | None = penchant.option(
        None, "steps between evaluations, as in figure 3; None: see eval_steps", at_least=1
    )
    inputs: int = penchant.option(
        16, "inputs per trained network at which gradients are taken", at_least=1
    )
    probing_scale: float | None = penchant.option(None, PROBING_SCALE, above=0)
    batch_norm: str = penchant.option(
        "running", BATCH_NORM, choices=("running", "batch", "calibrated")
    )
    data: str = penchant.option(
        "geometry", "training data", choices=("dataset", "geometry", "flipped")
    )
    train: int = penchant.option(10000, "training samples, unless data = dataset", at_least=2)
    test: int = penchant.option(2000, "test samples, unless data = dataset", at_least=2)

    def __attrs_post_init__(self) -> None:
        if self.eval_steps is not None and self.eval_every is not None:
            raise penchant.Error(
                f"geometry-training takes eval_steps or eval_every, found {list(self.eval_steps)} "
                f"and {self.eval_every}"
            )


@attrs.frozen
class InputCurvature(penchant.Probe):
    r"""Correlation of the input Hessian of the loss with the geometry, during training.

    The mean Hessian is $\mathbb{E}[\ell'' g g^\top] + \mathbb{E}[\ell' \nabla_x^2 f]$. The paper
    drops the second term; `second-share` measures it. The probe needs two classes, one output and
    small inputs.
    For your own network, or checkpoints of its training, standard errors are over samples.

    Reference: Geometric Inductive Biases of Deep Networks, appendix A.3.
    """

    name = "input-curvature"
    example = (
        "penchant probe input-curvature -a 'mlp:widths=[32],activation=gelu' "
        "-d 'two-circles:input_shape=[16],train=400,test=100'"
    )
    question = "Is the loss curved along the input directions to which the network is sensitive?"
    needs = ("architecture", "dataset", "classes", "second-derivatives", "continuous-inputs")
    takes = ("fresh", "trained", "trajectory")
    target = "penchant_gih.input_curvature.probe:run"
    figures = "penchant_gih.input_curvature.figures:draw"
    quantities = {
        "corr-g": "Corr of the mean Hessian with G_t at the last step",
        "second-share": "norm of E[l' Hess_x f] over that of the whole, at the last step",
    }
    headline = penchant.Headline(
        "corr-g",
        above="The curvature of the loss in the input follows the geometry of the network",
        below="The curvature of the loss in the input turns against the geometry of the network",
        neither="The curvature of the loss in the input does not follow the geometry significantly",
    )
    tables = {
        "corr-g[step]": "Corr of the mean Hessian with G_t, inner products of different networks "
        "only; null: after a random rotation",
        "second-share[step]": "norm of E[l' Hess_x f] over that of the whole",
        "weight[step]": "mean l''",
    }
    arrays = {"steps": "steps of training"}
    presets = {
        "quick": {"trainings": 16, "samples": 32, "training": {**MOMENTUM, "steps": 100}},
        "appendix-a-3": {"trainings": 25, "samples": 128, "training": {**CLIPPED, "epochs": 50}},
    }

    trainings: int = penchant.option(16, "networks trained", at_least=3)
    eval_steps: tuple[int, ...] | None = penchant.option(None, EVAL_STEPS, at_least=0)
    samples: int = penchant.option(
        32, "training samples per network at which Hessians are computed", at_least=1
    )
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
