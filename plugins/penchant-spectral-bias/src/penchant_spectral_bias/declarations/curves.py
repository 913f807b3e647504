"""Declarations of the probes on curves: waves on a line or a flower, in the input of any architecture."""

from __future__ import annotations

import attrs
import penchant

# Full-batch Adam at 3e-4 is the recipe of all of the thesis's experiments on curves.
RECIPE = {"batch": 0, "optimizer": "adam", "learning_rate": 3e-4, "loss": "squared-error"}
FAST = {**RECIPE, "learning_rate": 1e-3}
FIRST = tuple(range(5, 51, 5))
RISING = tuple(round(0.1 * number, 1) for number in range(1, 11))
AROUND = tuple(range(20, 201, 20))


@attrs.frozen
class _OnCurve(penchant.Probe):
    """What probes of a regressed wave share."""

    frequencies: tuple[int, ...] = penchant.option(
        (1, 2, 3, 4, 5, 6, 7, 8), "of the target: cycles along the curve", at_least=1
    )
    amplitudes: tuple[float, ...] = penchant.option(
        (), "of the target, one a frequency; none: all 1", above=0
    )
    points: int = penchant.option(64, "training points along the curve", at_least=3)
    draws: int = penchant.option(5, "networks, each with phases of its own", at_least=1)
    petals: int | None = penchant.option(
        None, "petals of the flower that the wave lies on; nothing: a straight line", at_least=0
    )
    embedding: str = penchant.option(
        "random",
        "where the curve lies in a larger input: in random directions, or its first values",
        choices=("random", "coordinates"),
    )


@attrs.frozen
class FrequencyLearning(_OnCurve):
    """Which frequencies of its target a network learns first.

    A network regresses a sum of sinusoids along a line or a flower, placed in the architecture's input whatever its shape;
    the amplitude of the learnt function at each frequency is followed over training and averaged over phase draws. The null
    of the order is a permutation of the frequencies; the same training with points dealt at random (`shuffled_draws`), where
    no frequency is smoother than another, should show none. Quick: `-a 'mlp:widths=[256,256,256,256,256]' --shape 1`.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiments 1 and 5.
    """

    name = "frequency-learning"
    needs = ("architecture", "training")
    uses = ("sinusoids", "flower")
    target = "penchant_spectral_bias.probes.frequency_learning:run"
    figures = "penchant_spectral_bias.figures.frequency_learning:draw"
    quantities = {
        "order-correlation": "Spearman correlation of minus the area under a frequency's amplitude curve with the frequency",
        "first-fit-correlation": "Spearman correlation of the first step at which a frequency is reached with the frequency",
        "reached": "frequencies that reached their share of the amplitude",
        "final-loss": "mean squared error at the end",
        "shuffled-correlation": "order-correlation where points are dealt at random: no order is to be expected",
    }
    arrays = {
        "frequencies": "of the target",
        "steps": "at which the network was looked at",
        "amplitude": "of the learnt function over that of the target (steps x frequencies), mean over draws",
        "prediction": "of the first draw (steps x points)",
        "target": "of the first draw (points)",
        "spectral-norms": "largest singular value of every weight (steps x layers), mean over draws",
        "loss": "mean squared error (steps), mean over draws",
        "first-fit": "first recorded step at which the mean amplitude reached its share (frequencies); missing where it never did",
        "shuffled-amplitude": "amplitude where points are dealt at random (steps x frequencies)",
    }
    _LINE = {
        "frequencies": FIRST,
        "points": 200,
        "draws": 10,
        "every": 100,
        "training": {**RECIPE, "steps": 80000},
    }
    presets = {
        "quick": {"every": 25, "training": {**FAST, "steps": 1000}},
        "rising": {
            "every": 25,
            "amplitudes": (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9, 1.0),
            "training": {**FAST, "steps": 1000},
        },
        "fig-3-1a": _LINE,
        "fig-3-1b": {**_LINE, "amplitudes": RISING},
        "fig-3-2": {**_LINE, "draws": 1},
        "fig-a-1": _LINE,
        "fig-3-8": {
            "frequencies": AROUND,
            "petals": 0,
            "points": 1000,
            "draws": 10,
            "every": 100,
            "training": {**RECIPE, "steps": 50000},
        },
    }

    every: int = penchant.option(25, "steps between two looks at the network", at_least=1)
    reach: float = penchant.option(
        0.8, "share of its amplitude at which a frequency counts as learnt", above=0
    )
    shuffled_draws: int = penchant.option(
        1, "draws of the null with points dealt at random", at_least=0
    )


@attrs.frozen
class FrequencyRobustness(_OnCurve):
    """Which frequencies of a trained network survive random changes of its parameters.

    Parameters are moved by delta times random unit vectors; the spectrum is that of the mean perturbed function, relative to
    the unperturbed one, averaged over phase draws. `noise-floor` is what is left of the mean by chance, with so many
    perturbations. Quick: `-a 'mlp:widths=[256,256,256,256,256]' --shape 1`.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 2.
    """

    name = "frequency-robustness"
    needs = ("architecture", "training")
    uses = ("sinusoids", "flower")
    target = "penchant_spectral_bias.probes.frequency_robustness:run"
    figures = "penchant_spectral_bias.figures.frequency_robustness:draw"
    quantities = {
        "robustness-gap": "relative amplitude of the lowest minus that of the highest frequency, at the middle perturbation",
        "order-correlation": "Spearman correlation of minus the relative amplitude, averaged over perturbations, with frequency",
        "final-loss": "mean squared error of the unperturbed networks",
    }
    arrays = {
        "frequencies": "of the target",
        "perturbation": "lengths delta of the moves",
        "relative-amplitude": "of the mean perturbed function over the unperturbed (delta x frequencies), mean over draws",
        "single-amplitude": "mean amplitude of single perturbed functions over the unperturbed (delta x frequencies)",
        "noise-floor": "relative amplitude of the mean of so many perturbed functions by chance (delta x frequencies)",
        "amplitude": "of the unperturbed function over that of the target (frequencies), mean over draws",
    }
    presets = {
        "quick": {"training": {**FAST, "steps": 1000}},
        "fig-3-3": {
            "frequencies": tuple(range(10, 51, 5)),
            "points": 200,
            "draws": 10,
            "perturbations": 100,
            "deltas": tuple(0.25 * number for number in range(21)),
            "training": {**RECIPE, "steps": 80000},
        },
    }

    deltas: tuple[float, ...] = penchant.option(
        (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), "lengths of the moves in parameter space", at_least=0
    )
    perturbations: int = penchant.option(30, "random unit vectors", at_least=2)


@attrs.frozen
class ManifoldAccuracy(penchant.Probe):
    """Accuracy on a binarised wave around a flower, by frequency and number of petals; nearest neighbours beside it.

    On a flower with more petals a wave of the same frequency is smoother in the plane, so that a network learns it more
    easily; nearest neighbours need not. The learnt functions in the plane of the curve have the radial spectra zeta(k).
    Quick: `-a 'mlp:widths=[256,256,256,256,256]' --shape 2`.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 6 and appendix A.5.
    """

    name = "manifold-accuracy"
    needs = ("architecture", "training")
    uses = ("flower",)
    target = "penchant_spectral_bias.probes.manifold_accuracy:run"
    figures = "penchant_spectral_bias.figures.manifold_accuracy:draw"
    quantities = {
        "petal-gain": "training accuracy with most petals minus that with fewest, over all frequencies",
        "frequency-loss": "training accuracy at the lowest minus that at the highest frequency, over all petals",
        "mean-accuracy": "training accuracy over all cells",
        "neighbour-petal-gain": "petal-gain of nearest neighbours, the first of their numbers above 1",
        "network-decay": "exponent of the radial spectrum of the network's probability, upper three quarters of the frequencies",
        "neighbour-decay": "the same of nearest neighbours, the smallest number",
    }
    arrays = {
        "frequencies": "of the wave",
        "petals": "of the flower",
        "accuracy": "on training points (petals x frequencies), mean over draws",
        "test-accuracy": "half-way between training points (petals x frequencies), mean over draws",
        "neighbours": "numbers K of nearest neighbours",
        "neighbour-accuracy": "of K nearest neighbours on training points (K x petals x frequencies)",
        "neighbour-test-accuracy": "of K nearest neighbours half-way between (K x petals x frequencies)",
        "plane": "logits of networks on the plane of the curve (networks x rows x columns)",
        "plane-axis": "coordinates of rows and columns",
        "plane-points": "training points in the plane (points x 2)",
        "plane-labels": "their classes",
        "radial-frequency": "cycles per unit of length",
        "radial-spectrum": "zeta of the probability: the mean over networks, then K nearest neighbours (1 + K x frequencies)",
    }
    _TRAINING = {"batch": 0, "optimizer": "adam", "learning_rate": 3e-4, "loss": "cross-entropy"}
    _GRID = {
        "frequencies": tuple(range(50, 401, 50)),
        "petal_counts": tuple(range(0, 21, 2)),
        "points": 1000,
        "draws": 1,
        "training": {**_TRAINING, "steps": 50000},
    }
    presets = {
        "quick": {"training": {**_TRAINING, "learning_rate": 1e-3, "steps": 300}},
        "fig-3-7": {**_GRID, "frequencies": (200,), "petal_counts": (20,), "draws": 2, "grid": 256},
        "fig-3-9": _GRID,
        "fig-a-13": {
            **_GRID,
            "neighbours": (1, 5, 10, 20),
            "plane_frequency": 150,
            "plane_petals": 20,
            "grid": 256,
        },
    }

    frequencies: tuple[int, ...] = penchant.option(
        (20, 40), "of the wave, each on its own", at_least=1
    )
    petal_counts: tuple[int, ...] = penchant.option((0, 8), "petals of the flowers", at_least=0)
    points: int = penchant.option(200, "training points around the flower", at_least=4)
    draws: int = penchant.option(3, "networks a cell, each with a phase of its own", at_least=1)
    threshold: float = penchant.option(0.0, "what the wave of class 1 is above")
    neighbours: tuple[int, ...] = penchant.option(
        (1, 5), "numbers K of nearest neighbours; none: no comparison", at_least=1
    )
    plane_frequency: int | None = penchant.option(
        None, "frequency of the learnt functions in the plane; nothing: the highest", at_least=1
    )
    plane_petals: int | None = penchant.option(None, "their petals; nothing: the most", at_least=0)
    plane_networks: int = penchant.option(2, "networks drawn in the plane", at_least=1)
    grid: int = penchant.option(96, "rows and columns of the plane", at_least=16)
    embedding: str = penchant.option(
        "random",
        "where the curve lies in a larger input: in random directions, or its first values",
        choices=("random", "coordinates"),
    )


@attrs.frozen
class PeakAblation(penchant.Probe):
    """Which frequencies of a delta peak a network can fit, for several bounds on its parameters.

    A peak has the same amplitude at every frequency. `weight_clips` are the bounds: after every step each parameter is clamped.
    Depth and width are the architecture's: list one architecture for each, and compare `reach`. The exact Lipschitz constant and
    number of linear pieces are given where the network is a chain of linear layers and ReLUs.
    Quick: `-a 'mlp:widths=[32,32,32]' --shape 1`.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 7.
    """

    name = "peak-ablation"
    needs = ("architecture", "training")
    uses = ("peak",)
    target = "penchant_spectral_bias.probes.peak_ablation:run"
    figures = "penchant_spectral_bias.figures.peak_ablation:draw"
    quantities = {
        "reach": "share of all frequencies with at least half of the target's amplitude at the end, at the loosest clip",
        "clip-gain": "reach at the loosest clip minus that at the tightest",
        "lipschitz": "largest slope along the line at the end, at the loosest clip",
    }
    arrays = {
        "weight-clips": "bounds on every parameter; 0 is none",
        "steps": "at which the network was looked at",
        "frequencies": "0 to half the points",
        "spectrum": "|DFT| / N of the learnt function (clips x steps x frequencies), mean over draws",
        "prediction": "of the first draw (clips x steps x points)",
        "loss": "mean squared error (clips x steps), mean over draws",
        "reach": "share of frequencies with half of the target's amplitude at the end (clips), mean over draws",
        "lipschitz": "largest slope along the line at the end (clips), mean over draws",
        "lipschitz-bound": "product of spectral norms at the end (clips), mean over draws; chains of linear layers only",
        "pieces": "linear pieces on the line at the end (clips), mean over draws; chains of linear layers and ReLUs only",
    }
    _PEAK = {"points": 200, "draws": 1, "every": 500, "training": {**RECIPE, "steps": 60000}}
    presets = {
        "quick": {"training": {**FAST, "steps": 1500}},
        "fig-a-6": {**_PEAK, "weight_clips": (10.0,)},
        "fig-a-7": {**_PEAK, "weight_clips": (10.0,)},
        "fig-a-8": {**_PEAK, "weight_clips": (0.1, 0.15, 0.2, 2.0)},
        "fig-a-9": {**_PEAK, "weight_clips": (0.1, 0.15, 0.2, 2.0)},
    }

    points: int = penchant.option(64, "training points on the line", at_least=4)
    weight_clips: tuple[float, ...] = penchant.option(
        (0.2, 2.0), "bounds on every parameter; 0: none", at_least=0
    )
    draws: int = penchant.option(3, "networks for every clip", at_least=1)
    every: int = penchant.option(50, "steps between two looks at the network", at_least=1)
    embedding: str = penchant.option(
        "random",
        "where the line lies in a larger input: in a random direction, or its first value",
        choices=("random", "coordinates"),
    )
