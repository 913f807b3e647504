"""Theorems of the paper, compared with measurements."""

from typing import Any

import attrs
import penchant

from penchant_nad.declarations.learning import BASES


@attrs.frozen
class Dipole(penchant.Probe):
    r"""Gradient norm of a dipole loss along each direction, compared with its theoretical bound.

    The measured side is $\mathbb{E}|\nabla_\theta q(v)|$ with $q(v) = g(|v \cdot \nabla f|)$ and
    $g(t) = \alpha t^2 / 2 + \beta t$. The bound is
    $\alpha \sqrt{v^\top C v} \sqrt{v^\top \mathbb{E}[M^\top M] v} + \beta \mathbb{E}|M v|$; lemma 2
    of the paper prints $\alpha^2$, which is wrong. The probe also compares
    $P((v \cdot \nabla f)^2 \ge \eta)$ with the Markov bound $v^\top C v / \eta$ (6). The two sides
    use different networks. The null of an excess is the expected largest excess over the directions
    if every bound were an equality.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 3.
    """

    name = "dipole"
    example = "penchant probe dipole -a lenet:activation=gelu --shape 1,32,32"
    question = "How fast does a network learn to distinguish inputs along each direction?"
    target = "penchant_nad.dipole.probe:run"
    figures = "penchant_nad.dipole.figures:draw"
    needs = ("architecture", "scalar-output", "continuous-inputs")
    roles = {"directions": "gradient-covariance"}
    quantities = {
        "largest-excess": "of the measured side over the bound, over directions",
        "largest-markov-excess": "of the share of networks over the Markov bound, over directions",
        "tightness": "measured side over the bound, mean over directions",
        "rank-correlation": "Spearman correlation of the measured side with the bound",
    }
    headline = penchant.Headline(
        "rank-correlation",
        above="Networks separate dipoles faster along directions where the bound is larger, "
        "rank correlation",
        below="Networks separate dipoles more slowly along directions where the bound is "
        "larger, rank correlation",
        neither="The order of directions does not follow the bound significantly, rank correlation",
    )
    tables = {
        "gradient-norm[index]": "E|grad_theta q(v)|",
        "bound[index]": "right side of lemma 2",
        "exceedance[index]": "share of networks with (v.grad f)^2 >= eta",
        "markov-bound[index]": "v^T C v / eta",
    }
    arrays = {
        "indices": "of the directions in their basis",
        "eigenvalues": "of each direction, for the basis nad",
    }
    presets = {
        "quick": {"every": 32, "networks": 64},
        "lemma-2": {"basis": "nad", "every": 8, "basis_networks": 10000, "networks": 1000},
    }

    # Which directions.
    basis: str = penchant.option("dft-cosine", "which directions", choices=BASES)
    indices: tuple[int, ...] | None = penchant.option(
        None, "indices of the directions in the basis; None: see `every`", at_least=0
    )
    every: int = penchant.option(
        32, "take every n-th direction, starting with the first", at_least=1
    )
    basis_networks: int = penchant.option(2000, "fresh networks for the basis nad", at_least=2)
    directions: Any = penchant.option(
        None, "stored directions (rows) for the basis nad, instead of fresh networks", array=True
    )
    # The dipole and the networks.
    networks: int = penchant.option(64, "networks measured, half of them for the bound", at_least=8)
    alpha: float = penchant.option(2.0, "alpha of g(t) = alpha t^2/2 + beta t", at_least=0)
    beta: float = penchant.option(0.0, "beta of g", at_least=0)
    eta: float = penchant.option(
        1.0, "threshold of the Markov bound, in means of v^T C v over the directions", above=0
    )


@attrs.frozen
class PoolingTheory(penchant.Probe):
    """Accuracy and curvature of a linear model of pooling by frequency: theory and simulation.

    The probe compares the corrected theory with simulations: the best accuracy after a filter and
    subsampling by `stride` (theorem 1), the mean curvature of the loss of the linear model (lemma
    1), and its training loss. Deviations are in standard errors. Their null is the expected largest
    deviation over the frequencies if the theory holds. The theorem of the paper has one wrong
    factor in the text and another in the supplement; the probe reports deviations from both.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 2,
    figure 4.
    """

    name = "pooling-theory"
    question = "Which frequencies does pooling make hard to learn?"
    target = "penchant_nad.pooling_theory.probe:run"
    figures = "penchant_nad.pooling_theory.figures:draw"
    quantities = {
        "deviation": "largest, of the simulated accuracy from the corrected theorem",
        "text-deviation": "from the theorem as printed in the text",
        "supplement-deviation": "from the theorem as printed in the supplement",
        "curvature-deviation": "largest, of the curvature along phi_l from the corrected lemma",
        "theta-curvature-deviation": "the same along theta_(l mod M)",
        "rank-correlation": "Spearman correlation of the mean loss while training with minus zeta",
    }
    headline = penchant.Headline(
        "rank-correlation",
        above="Directions that pooling attenuates are learnt more slowly, rank correlation",
        below="Directions that pooling attenuates are learnt faster, rank correlation",
        neither="The speed of learning does not follow the attenuation of pooling significantly, "
        "rank correlation",
    )
    tables = {
        "theory[signal-frequency]": "best accuracy by the corrected theorem",
        "theory-text[signal-frequency]": "as printed in the text",
        "theory-supplement[signal-frequency]": "as printed in the supplement",
        "simulation[signal-frequency]": "accuracy of the exact discriminant on simulated samples",
        "response[signal-frequency]": "prefilter m_l",
        "zeta[signal-frequency]": "eps^2 m_l^2 / (sigma^2 max m^2)",
        "curvature[signal-frequency]": "mean second derivative of the loss along phi_l, measured",
        "curvature-theory[signal-frequency]": "by the corrected lemma",
        "theta-curvature[signal-frequency]": "along theta_(l mod M), measured",
        "theta-curvature-theory[signal-frequency]": "by the corrected lemma",
        "loss-curves[frequency, step]": "training loss, by the frequency of the signal",
    }
    arrays = {
        "frequencies": "l, those with 2 l = 0 mod M left out",
        "curve-frequencies": "frequencies of the loss curves",
    }
    presets = {
        "quick": {"every": 2},
        "fig-4": {"simulations": 100000, "curves": 12, "steps": 2000, "trainings": 32},
    }

    # Pooling.
    inputs: int = penchant.option(128, "inputs D", at_least=8)
    stride: int = penchant.option(4, "subsampling S", at_least=2)
    prefilter: str = penchant.option(
        "average", "filter before subsampling", choices=("none", "average", "low-pass")
    )
    # The two classes, and how often they are simulated.
    epsilon: float = penchant.option(
        1.0, "distance of each class from the separating plane", above=0
    )
    sigma: float = penchant.option(1.0, "standard deviation of the noise", above=0)
    every: int = penchant.option(1, "take every n-th frequency", at_least=1)
    simulations: int = penchant.option(
        10000, "samples (and networks) simulated at each frequency", at_least=100
    )
    # Training of the linear model.
    curves: int = penchant.option(5, "frequencies whose training is followed", at_least=1)
    trainings: int = penchant.option(4, "trainings at each of them", at_least=2)
    steps: int = penchant.option(300, "steps of training", at_least=1)
    batch: int = penchant.option(64, "samples per step", at_least=1)
    learning_rate: float = penchant.option(0.1, "learning rate of SGD", above=0)
    weight_std: float = penchant.option(
        0.5, "standard deviation of theta and phi before training", above=0
    )
