"""Declarations of the probes on curves: waves on a line or a flower, in any network's input."""

from typing import Any

import attrs
import penchant

# Full-batch Adam at 3e-4 is the recipe of all of the thesis's experiments on curves.
RECIPE = {"batch": 0, "optimizer": "adam", "learning_rate": 3e-4, "loss": "squared-error"}
FAST = {**RECIPE, "learning_rate": 1e-3}
CLASSES = {**RECIPE, "loss": "cross-entropy"}

# Frequencies of experiments 1 and 5, and the amplitudes that make fast waves the larger ones.
FIRST = tuple(range(5, 51, 5))
AROUND = tuple(range(20, 201, 20))
RISING = tuple(round(0.1 * number, 1) for number in range(1, 11))

EMBEDDING = "embedding of the curve in a larger input: random directions, or the first values"
EMBEDDINGS = ("random", "coordinates")
EVAL_EVERY = "training steps between evaluations"


@attrs.frozen
class _OnCurve(penchant.Probe):
    """Options that probes of a regressed wave share."""

    frequencies: tuple[int, ...] = penchant.option(
        (1, 2, 3, 4, 5, 6, 7, 8), "frequencies of the target, in cycles along the curve", at_least=1
    )
    amplitudes: tuple[float, ...] | None = penchant.option(
        None, "amplitudes of the target, one per frequency; None: all 1", above=0
    )
    samples: int = penchant.option(64, "training samples along the curve", at_least=3)
    trainings: int = penchant.option(5, "trainings, each with its own phases", at_least=1)
    petals: int | None = penchant.option(
        None, "petals of the flower that carries the wave; None: a straight line", at_least=0
    )
    embedding: str = penchant.option("random", EMBEDDING, choices=EMBEDDINGS)


@attrs.frozen
class _OfOwn(_OnCurve):
    """Options that say where a network of the user's own is measured, as a function on R^d."""

    corners: Any = penchant.option(
        None,
        "own network: lowest and highest value of every input (2, inputs); None: 0 and 1",
        array=True,
    )
    wave_inputs: tuple[int, ...] | None = penchant.option(
        None,
        "own network: inputs along which waves are, one for lines, two for planes; None: all of "
        "at most two, else the first",
        at_least=0,
    )
    coordinates: Any = penchant.option(
        None, "own network: points (N, inputs) or (N_1, N_2, inputs) of one's own", array=True
    )
    grid_points: int = penchant.option(64, "own network: points along each axis", at_least=8)
    slices: int = penchant.option(
        20, "own network: lines or planes at random values of the other inputs", at_least=2
    )
    window: str = penchant.option(
        "hann", "own network: none takes functions to be periodic", choices=("hann", "none")
    )
    target_function: Any = penchant.option(
        None,
        "own network: its target, a function of points (n, inputs), or package.module:function",
        target=True,
    )
    target_values: Any = penchant.option(
        None, "own network: values of its target at its coordinates", array=True
    )


@attrs.frozen
class FrequencyLearning(_OfOwn):
    r"""Spectrum of a network during training on a sum of sinusoids.

    The sinusoids lie along a line or a flower, which is embedded in the architecture's input of any
    shape. The learnt share of a frequency is the projection on the target's wave,
    $\operatorname{Re}(f_k \overline{t_k}) / |t_k|^2$. Dividing by the target's amplitude would also
    count leakage from other frequencies, most where that amplitude is small. The control is the
    same training with targets randomly permuted among samples, so that no frequency is smoother
    than another; its rank correlation is about 0, also for rising amplitudes.

    A network of your own, or the states of its training (`weights`), is measured as it is: a
    function on $\mathbb{R}^d$ along lines, in planes or on a grid of yours, with one output or
    several. It is compared with its target if you give one, else with its last state. Frequencies
    are then cycles along the domain, or, in planes, bands of their length.

    The shares of frequencies in which the target is weak are uncertain. One training is one sample:
    its rank correlation has the error of a correlation over frequencies, not over trainings. With
    Hann's window neighbouring frequencies mix. The probe warns of functions that vary faster than
    the points resolve. A share says nothing about waves that the target lacks.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiments 1, 5.
    """

    name = "frequency-learning"
    example = "penchant probe frequency-learning -a 'mlp:widths=[256,256,256,256,256]' --shape 1"
    question = "Which frequencies of its target does a network learn first?"
    target = "penchant_spectral_bias.frequency_learning.probe:run"
    figures = "penchant_spectral_bias.frequency_learning.figures:draw"
    needs = ("architecture", "training", "continuous-inputs")
    takes = ("fresh", "trained", "trajectory")
    uses = ("sinusoids", "flower")
    quantities = {
        "rank-correlation": "of the frequency with how late it is learnt, mean over trainings; "
        "how late: minus the learnt share, averaged over training",
        "first-fit-rank-correlation": "of the frequency with the first step at which it is "
        "learnt, mean over trainings; frequencies never learnt rank last",
        "shuffled-rank-correlation": "rank-correlation with permuted targets: about 0",
        "above-control": "rank-correlation minus shuffled-rank-correlation",
        "learnt-frequencies": "number of frequencies that were learnt, mean over trainings; null: "
        "permuted targets",
        "final-loss": "mean squared error at the end; null: loss of the best constant prediction",
        "petal-loss-gain": "final loss with fewest petals minus that with most, on the same waves",
        "mean-frequency": "own network: mean of the frequencies of its last state, weighted by "
        "energy; null: the entries of every weight in random order",
    }
    headline = penchant.Headline(
        "rank-correlation",
        above="Lower frequencies are learnt first, rank correlation",
        below="Higher frequencies are learnt first, rank correlation",
        neither="No order of frequencies is significant, rank correlation",
    )
    tables = {
        "amplitude[step, frequency]": "of the learnt function over the target's, mean",
        "learnt-share[step, frequency]": "projection on the target's wave over its square, mean "
        "over trainings",
        "shuffled-learnt-share[step, frequency]": "the same with permuted targets",
        "first-fit[frequency]": "first step at which the mean learnt share is large enough; "
        "missing if never",
        "loss[step]": "mean squared error, mean over trainings",
        "spectral-norms[step, layer]": "largest singular value of every weight, mean",
        "petal-losses[petals, step]": "mean squared error on each flower, mean over trainings",
        "spectrum[band]": "own network: share of the last state's energy at each frequency; null: "
        "the entries of every weight in random order, mean",
    }
    arrays = {
        "frequencies": "of the target",
        "steps": "training steps of the evaluations",
        "prediction": "of the first training (steps x samples); of an own network in its first "
        "slice (steps x points)",
        "target": "of the first training (samples), or in the first slice (points)",
        "petals": "petals of the compared flowers",
        "bands": "own network: all frequencies that the points resolve",
    }
    # experiment 1: ten waves on a line
    _LINE = {
        "frequencies": FIRST,
        "samples": 200,
        "trainings": 10,
        "eval_every": 100,
        "training": {**RECIPE, "steps": 80000},
    }
    # experiment 5: the same on flowers; the number of petals is the example's
    _FLOWER = {
        "frequencies": AROUND,
        "petals": 0,
        "samples": 1000,
        "trainings": 10,
        "eval_every": 100,
        "training": {**RECIPE, "steps": 50000},
    }
    presets = {
        "quick": {"eval_every": 25, "training": {**FAST, "steps": 1000}},
        "rising": {
            "eval_every": 25,
            "amplitudes": (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9, 1.0),
            "training": {**FAST, "steps": 1000},
        },
        # equal and rising amplitudes, one training drawn, flowers, the loss
        "fig-3-1a": _LINE,
        "fig-3-1b": {**_LINE, "amplitudes": RISING},
        "fig-3-2": {**_LINE, "trainings": 1},
        "fig-3-8": _FLOWER,
        "fig-3-8e": {**_FLOWER, "compared_petals": (4, 10, 16), "shuffled_trainings": 0},
        "fig-a-1": _LINE,
    }

    eval_every: int = penchant.option(25, EVAL_EVERY, at_least=1)
    learnt_at: float = penchant.option(
        0.8, "learnt share from which on a frequency counts as learnt", above=0
    )
    # The rank correlation of one control training has a standard deviation of 0.5.
    shuffled_trainings: int = penchant.option(
        5, "trainings of the control with permuted targets", at_least=0
    )
    shuffles: int = penchant.option(
        199,
        "own network: random orders of the entries of its weights, for the null, which is skewed: "
        "with fewer, networks at initialisation are called significant too often",
        at_least=2,
    )
    compared_petals: tuple[int, ...] | None = penchant.option(
        None, "other flowers on which the same waves are learnt, for their loss", at_least=0
    )

    def __attrs_post_init__(self) -> None:
        if self.compared_petals and self.petals is None:
            raise penchant.Error(
                "compared_petals need a flower to be compared with, found no petals"
            )


@attrs.frozen
class FrequencyRobustness(_OfOwn):
    """Spectrum of trained networks after random perturbations of their parameters.

    Parameters are moved by delta times random unit vectors. The spectrum is that of the mean
    perturbed function, relative to the unperturbed one, averaged over trainings. `noise-floor` is
    the amplitude expected by chance for this number of perturbations.

    A network of your own is measured as it is, as `frequency-learning` does: each line or plane
    (`slices`) has random directions of its own, over which errors are.

    When not to trust it: parameters are moved by one length in all layers together, so that a
    network whose first layer has small weights (a SIREN is one with large frequencies in it) loses
    its input frequencies first, whatever it has learnt. Where all amplitudes have reached the
    noise floor, their order is that of the floor.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 2.
    """

    name = "frequency-robustness"
    example = "penchant probe frequency-robustness -a 'mlp:widths=[256,256,256,256,256]' --shape 1"
    question = "Which frequencies survive random changes of the parameters?"
    target = "penchant_spectral_bias.frequency_robustness.probe:run"
    figures = "penchant_spectral_bias.frequency_robustness.figures:draw"
    needs = ("architecture", "training", "continuous-inputs")
    takes = ("fresh", "trained")
    uses = ("sinusoids", "flower")
    quantities = {
        "robustness-gap": "relative amplitude of the lowest minus that of the highest frequency, "
        "at the middle perturbation",
        "rank-correlation": "of minus the relative amplitude, averaged over perturbations, with "
        "the frequency, mean over trainings; null: the same networks before training; of an own "
        "network: the entries of its weights in random order",
        "final-loss": "mean squared error of the unperturbed networks; null: loss of the best "
        "constant prediction",
    }
    headline = penchant.Headline(
        "robustness-gap",
        above="The lowest frequency survives changes of the parameters better than the highest,"
        " relative amplitudes",
        below="The highest frequency survives changes of the parameters better than the lowest,"
        " relative amplitudes",
        neither="No significant difference between the lowest and the highest frequency, relative"
        " amplitudes",
    )
    tables = {
        "relative-amplitude[delta, frequency]": "of the mean perturbed function over the "
        "unperturbed one, mean over trainings",
        "single-amplitude[delta, frequency]": "mean of single perturbed functions over the "
        "unperturbed one",
        "noise-floor[delta, frequency]": "relative amplitude of the mean perturbed function "
        "expected by chance",
        "amplitude[frequency]": "of the unperturbed function over the target's, mean; of an own "
        "network its amplitude",
    }
    arrays = {"frequencies": "of the target", "deltas": "lengths of the moves"}
    presets = {
        "quick": {"training": {**FAST, "steps": 1000}},
        # experiment 2, after the training of experiment 1
        "fig-3-3": {
            "frequencies": tuple(range(10, 51, 5)),
            "samples": 200,
            "trainings": 10,
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
    r"""Accuracy on a binarised wave around a flower, by frequency and number of petals.

    On a flower with more petals, a wave of the same frequency is smoother in the plane. The probe
    tests whether networks learn it more easily; nearest neighbours are the comparison. It also
    measures the radial spectra $\zeta(k)$ of the learnt functions in the plane of the curve.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 6 and
    appendix A.5.
    """

    name = "manifold-accuracy"
    example = "penchant probe manifold-accuracy -a 'mlp:widths=[256,256,256,256,256]' --shape 2"
    question = "Does a bent manifold make high frequencies easier to learn?"
    target = "penchant_spectral_bias.manifold_accuracy.probe:run"
    figures = "penchant_spectral_bias.manifold_accuracy.figures:draw"
    needs = ("architecture", "training", "continuous-inputs")
    uses = ("flower",)
    quantities = {
        "train-accuracy": "on training samples, over all frequencies and petals; null: the "
        "most frequent class",
        "petal-gain": "training accuracy with most petals minus that with fewest, all frequencies",
        "frequency-loss": "training accuracy at the lowest minus that at the highest frequency, "
        "all petals; null: 0, equally right at all frequencies",
        "neighbour-petal-gain": "petal-gain of K nearest neighbours, for the first K above 1",
        "network-decay": "exponent of the radial spectrum of the network's probability, upper "
        "three quarters of the frequencies; null: the same networks before training",
        "neighbour-decay": "the same for K nearest neighbours, for the smallest K",
    }
    headline = penchant.Headline(
        "petal-gain",
        above="A bent manifold makes high frequencies easier to learn, gain in training accuracy",
        below="A bent manifold makes high frequencies harder to learn, gain in training accuracy",
        neither="Bending the manifold makes no significant difference in training accuracy",
    )
    arrays = {
        "frequencies": "of the wave",
        "petals": "of the flower",
        "neighbours": "numbers K of nearest neighbours",
        "plane": "logits of networks on the plane of the curve (networks x rows x columns)",
        "plane-axis": "coordinates of rows and columns",
        "plane-points": "training samples in the plane (samples x 2)",
        "plane-labels": "their classes",
        "radial-frequencies": "cycles per unit of length",
    }
    tables = {
        "train-accuracy[petals, frequency]": "on training samples, mean over trainings",
        "test-accuracy[petals, frequency]": "half-way between training samples, mean",
        "commonest-share[petals, frequency]": "share of training samples in the most frequent "
        "class, mean",
        "neighbour-train-accuracy[neighbours, petals, frequency]": "of K nearest neighbours on "
        "training samples",
        "neighbour-test-accuracy[neighbours, petals, frequency]": "of K nearest neighbours half-way"
        " between them",
        "radial-spectrum[radial-frequency]": "zeta of the network's probability, mean over "
        "networks",
        "neighbour-radial-spectrum[neighbours, radial-frequency]": "zeta of K nearest neighbours, "
        "mean over phases",
    }
    # experiment 6: one training per cell and a threshold of 0.5, as in the thesis
    _GRID = {
        "threshold": 0.5,
        "frequencies": tuple(range(50, 401, 50)),
        "petal_counts": tuple(range(0, 21, 2)),
        "samples": 1000,
        "trainings": 1,
        "training": {**CLASSES, "steps": 50000},
    }
    presets = {
        "quick": {"training": {**CLASSES, "learning_rate": 1e-3, "steps": 300}},
        "fig-3-7": {
            **_GRID,
            "frequencies": (200,),
            "petal_counts": (20,),
            "trainings": 2,
            "grid_points": 256,
        },
        "fig-3-9": _GRID,
        "fig-a-13": {
            **_GRID,
            "neighbour_counts": (1, 5, 10, 20),
            "plane_frequency": 150,
            "plane_petals": 20,
            "grid_points": 256,
        },
    }

    frequencies: tuple[int, ...] = penchant.option(
        (20, 40), "frequencies of the wave, one after another", at_least=1
    )
    petal_counts: tuple[int, ...] = penchant.option((0, 8), "petals of the flowers", at_least=0)
    samples: int = penchant.option(200, "training samples around the flower", at_least=4)
    trainings: int = penchant.option(3, "trainings per cell, each with its own phase", at_least=1)
    threshold: float = penchant.option(0.0, "samples with a wave above it are class 1")
    neighbour_counts: tuple[int, ...] = penchant.option(
        (1, 5), "numbers K of nearest neighbours; empty list: no comparison", at_least=1
    )
    # The cell whose learnt functions are drawn in the plane.
    plane_frequency: int | None = penchant.option(
        None, "frequency of the learnt functions in the plane; None: the highest", at_least=1
    )
    plane_petals: int | None = penchant.option(
        None, "petals of the learnt functions in the plane; None: the most", at_least=0
    )
    plane_networks: int = penchant.option(2, "networks shown in the plane", at_least=1)
    grid_points: int = penchant.option(96, "grid points of the plane along each side", at_least=16)
    embedding: str = penchant.option("random", EMBEDDING, choices=EMBEDDINGS)
