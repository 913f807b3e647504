"""Probes of the geometry itself; no code behind them is imported here."""

from __future__ import annotations

import attrs
import penchant

_SCALE = "standard deviation s of the probing distribution N(0, s^2 I); small, 1e-3, with GELU"
_MOMENTUM = {"batch": 128, "learning_rate": 0.1, "momentum": 0.9}
_FULL_BATCH = {"batch": 0, "learning_rate": 0.1, "momentum": 0.9, "steps": 100}
_HUNDRED = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 100)


@attrs.frozen
class AverageGeometry(penchant.Probe):
    """Average geometry G = E[g g^T] of an architecture before training, g the input gradient of its output.

    Expectation over fresh networks and over probing inputs: normal ones, zero, or the inputs of a dataset. The null is an isotropic
    architecture with the same gradient norms. Quick: `-a lenet --shape 1,16,16`.

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.1 and figure 9.
    """

    name = "average-geometry"
    needs = ("architecture",)
    accepts = ("dataset",)
    target = "penchant_gih.average_geometry:run"
    quantities = {
        "trace": "mean squared norm of the gradient",
        "effective-rank": "exp of the entropy of the eigenvalues",
        "condition": "largest over smallest eigenvalue; missing where G has not full rank",
        "rank": "eigenvalues above the rounding of gradients",
        "corr-isotropic": "Corr(G, I), the norm of G from two independent halves of the networks",
        "beyond-null": "eigenvalues outside null-edges",
    }
    arrays = {
        "geometry": "G",
        "eigenvalues": "of G, descending",
        "directions": "orthonormal rows, in the order of eigenvalues",
        "null-edges": "smallest and largest eigenvalue in null_draws isotropic architectures with the same gradient norms",
    }
    presets = {"quick": {"samples": 500}, "fig-9": {"samples": 10000, "scale": 1e-3}}

    samples: int = penchant.option(500, "networks drawn", at_least=4)
    inputs: int = penchant.option(1, "probing inputs a network", at_least=1)
    probing: str = penchant.option(
        "gaussian", "where gradients are taken", choices=("gaussian", "zero", "data")
    )
    scale: float = penchant.option(1.0, _SCALE, above=0)
    null_draws: int = penchant.option(
        8, "isotropic architectures simulated for the null", at_least=2
    )


@attrs.frozen
class GeometryEvolution(penchant.Probe):
    """Average geometry evolution Delta = dG/dt under gradient flow, and its alignment with S and G S G.

    From the mixed derivative, at initialisation or at given steps of training; one output, S = sum x x^T. Beside every Corr
    stands what a random rotation would give. `containment` is |P Delta P| / |Delta|, P on the leading eigenvectors of G S G
    (conjecture 2); `label-effect` is the squared norm of what permuting labels changes, in units of |Delta|^2 (proposition A.1: 0
    if the last layer has mean zero).
    Quick: `-a mlp:widths=[32],bias=false,initialization=gaussian,weight_std=0.3 -d gaussian:size=[1,4,4],train=64,test=2`.

    Reference: Geometric Inductive Biases of Deep Networks, definition 2.2, theorems 3.1, 3.2 and figure 7. The paper's Delta for linear
    regression misses a factor of two: it is -2 s^2 S.
    """

    name = "geometry-evolution"
    needs = ("architecture", "dataset")
    target = "penchant_gih.geometry_evolution:run"
    quantities = {
        "corr-s": "Corr(Delta, S), at the last width or step",
        "corr-gsg": "Corr(Delta, G S G), at the last width or step",
        "containment": "|P Delta P| / |Delta|, P on the leading eigenvectors of G S G; null: a random subspace",
        "leading": "dimension of that subspace",
        "label-effect": "|Delta - Delta with permuted labels|^2 / |Delta|^2",
    }
    arrays = {
        "evolution": "Delta, at the last width or step",
        "label-difference": "Delta minus Delta with permuted labels, the same networks",
        "corr-s": "Corr(Delta, S), by width or step",
        "corr-s-null": "mean after a random rotation; its -stderr is the standard deviation over rotations",
        "corr-gsg": "Corr(Delta, G S G), by width or step",
        "corr-gsg-null": "mean after a random rotation; its -stderr is the standard deviation over rotations",
        "containment": "by dimension of the subspace, at the last width or step",
        "containment-null": "for a random subspace",
        "leading": "dimensions of the subspaces",
        "widths": "widths of the sweep",
        "steps": "steps of training",
    }
    presets = {
        "quick": {"samples": 2000},
        "fig-7": {"samples": 10000, "widths": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)},
    }

    samples: int = penchant.option(2000, "networks drawn", at_least=12)
    widths: tuple[int, ...] = penchant.option(
        (), "widths to sweep: each hidden layer of an MLP, channels of a convolution", at_least=1
    )
    steps: tuple[int, ...] = penchant.option(
        (), "steps of training at which Delta is taken; nothing: initialisation", at_least=0
    )
    train: int = penchant.option(
        0, "first training samples that drive the evolution; 0: all", at_least=0
    )
    residual: str = penchant.option(
        "squared-error",
        "loss whose gradient flow it is",
        choices=("squared-error", "cross-entropy"),
    )
    scale: float = penchant.option(1.0, _SCALE, above=0)
    leading: int = penchant.option(
        0, "dimension of the subspace of conjecture 2; 0: 90 % of the trace of G S G", at_least=0
    )

    def __attrs_post_init__(self) -> None:
        if self.widths and self.steps:
            raise penchant.Error(
                f"geometry-evolution takes widths or steps, found both ({list(self.widths)} and {list(self.steps)})"
            )
        if list(self.steps) != sorted(set(self.steps)):
            raise penchant.Error(f"steps must ascend, found {list(self.steps)}")


@attrs.frozen
class GeometryTraining(penchant.Probe):
    """Geometry G_t of networks along their training: Corr(G_t, S), Corr(G_t, G S G), velocity, accuracies.

    On a dataset of two classes, or on N(0, G) (`data = geometry`) or N(0, flip G) (`data = flipped`, eigenvalues in reverse order) with
    random labels. Quick: `-a lenet --shape 1,16,16` for `-o data=geometry`; for `-o data=dataset`, any dataset of two classes.

    Reference: Geometric Inductive Biases of Deep Networks, figures 2, 3, 8, 12, 13.
    """

    name = "geometry-training"
    needs = ("architecture", "training")
    accepts = ("dataset",)
    uses = ("gaussian",)
    target = "penchant_gih.geometry_training:run"
    quantities = {
        "peak-corr-s": "largest Corr(G_t, S) over steps",
        "peak-corr-gsg": "largest Corr(G_t, G S G) over steps",
        "train-accuracy": "at the last step",
        "test-accuracy": "at the last step",
        "path-length": "sum of velocities",
    }
    arrays = {
        "steps": "steps of training",
        "corr-s": "Corr(G_t, S)",
        "corr-s-null": "mean after a random rotation; its -stderr is the standard deviation over rotations",
        "corr-gsg": "Corr(G_t, G S G)",
        "corr-gsg-null": "mean after a random rotation; its -stderr is the standard deviation over rotations",
        "velocity": "1 - Corr of consecutive steps, one fewer than steps",
        "train-accuracy": "mean over networks",
        "test-accuracy": "mean over networks",
    }
    presets = {
        "quick": {
            "networks": 6,
            "samples": 1000,
            "train": 1000,
            "test": 200,
            "training": {**_MOMENTUM, "steps": 64},
        },
        "fig-2": {
            "data": "dataset",
            "networks": 25,
            "samples": 10000,
            "steps": _HUNDRED,
            "training": _FULL_BATCH,
        },
        "fig-3": {
            "data": "geometry",
            "networks": 25,
            "samples": 10000,
            "training": {**_MOMENTUM, "epochs": 100},
        },
        "fig-3-flipped": {
            "data": "flipped",
            "networks": 25,
            "samples": 10000,
            "training": {**_MOMENTUM, "epochs": 100},
        },
        "fig-8": {
            "data": "dataset",
            "networks": 25,
            "samples": 10000,
            "steps": _HUNDRED,
            "training": {"batch": 0, "optimizer": "adam", "learning_rate": 0.001, "steps": 100},
        },
        "fig-12": {
            "data": "geometry",
            "networks": 25,
            "samples": 10000,
            "train": 100000,
            "training": {**_MOMENTUM, "epochs": 50},
        },
        "fig-13": {
            "data": "geometry",
            "networks": 25,
            "samples": 10000,
            "train": 100000,
            "training": {**_MOMENTUM, "batch": 1280, "epochs": 50},
        },
    }

    networks: int = penchant.option(6, "networks trained", at_least=3)
    steps: tuple[int, ...] = penchant.option(
        (),
        "steps at which the geometry is taken; nothing: 0, 1, 2, 4, ... and the last",
        at_least=0,
    )
    samples: int = penchant.option(1000, "other networks, drawn for G", at_least=12)
    inputs: int = penchant.option(16, "probing inputs a trained network", at_least=1)
    scale: float = penchant.option(1.0, _SCALE, above=0)
    data: str = penchant.option(
        "geometry", "what networks are trained on", choices=("dataset", "geometry", "flipped")
    )
    train: int = penchant.option(10000, "training samples where data is not a dataset", at_least=2)
    test: int = penchant.option(2000, "test samples where data is not a dataset", at_least=2)


@attrs.frozen
class InputCurvature(penchant.Probe):
    """Input Hessian of the loss against the geometry, along training.

    The mean Hessian is E[l''] g g^T + E[l' Hess_x f]. The paper drops the second term; here it is measured (`second-share`). Two
    classes, one output, small inputs. Quick: `-a mlp:widths=[32],activation=gelu -d two-circles:size=[16],train=400,test=100`.

    Reference: Geometric Inductive Biases of Deep Networks, appendix A.3.
    """

    name = "input-curvature"
    needs = ("architecture", "dataset")
    target = "penchant_gih.input_curvature:run"
    quantities = {
        "corr-g": "Corr of the mean Hessian with G_t at the last step",
        "second-share": "norm of E[l' Hess_x f] over that of the whole, at the last step",
    }
    arrays = {
        "steps": "steps of training",
        "corr-g": "Corr of the mean Hessian with G_t, inner products of different networks only",
        "corr-g-null": "mean after a random rotation; its -stderr is the standard deviation over rotations",
        "second-share": "norm of E[l' Hess_x f] over that of the whole",
        "weight": "mean l''",
    }
    presets = {
        "quick": {"networks": 16, "points": 32, "training": {**_MOMENTUM, "steps": 100}},
        "appendix-3": {"networks": 25, "points": 128, "training": {**_MOMENTUM, "epochs": 50}},
    }

    networks: int = penchant.option(16, "networks trained", at_least=3)
    steps: tuple[int, ...] = penchant.option(
        (), "steps at which curvature is taken; nothing: 0, 1, 2, 4, ... and the last", at_least=0
    )
    points: int = penchant.option(
        32, "training samples a network at which Hessians are taken", at_least=1
    )
