"""What the paper proves, beside what is measured."""

from __future__ import annotations

from typing import Any

import attrs
import penchant

from penchant_nad.declarations.learning import BASES


@attrs.frozen
class Dipole(penchant.Probe):
    """How fast a network learns to tell x from x + v: measured, and as bounded by its derivatives.

    E|grad_theta q(v)| for q(v) = g(|v.grad f|), g(t) = alpha t^2/2 + beta t, beside
    alpha sqrt(v^T C v) sqrt(v^T E[M^T M] v) + beta E|M v| (the paper's lemma 2 prints alpha^2,
    which is wrong), and P((v.grad f)^2 >= eta) beside v^T C v / eta (6). Measured side and bound
    come from different networks. The null of an excess is what the largest of so many directions
    would be if every bound were reached.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 3.
    """

    name = "dipole"
    example = "penchant probe dipole -a lenet:activation=gelu --shape 1,32,32"
    question = "How fast does a network learn to tell inputs apart along each direction?"
    target = "penchant_nad.probes.dipole:run"
    figures = "penchant_nad.figures.dipole:draw"
    needs = ("architecture", "scalar-output", "continuous-inputs")
    roles = {"directions": "gradient-covariance"}
    quantities = {
        "largest-excess": "of the measured side over the bound, over directions",
        "largest-markov-excess": "of the share of networks over the Markov bound, over directions",
        "tightness": "measured side over the bound, mean over directions",
        "rank-correlation": "Spearman correlation of the measured side with the bound",
    }
    arrays = {
        "indices": "of the directions in their basis",
        "gradient-norm": "E|grad_theta q(v)|",
        "bound": "right side of lemma 2",
        "exceedance": "share of networks with (v.grad f)^2 >= eta",
        "markov-bound": "v^T C v / eta",
        "eigenvalues": "of each direction, for the basis nad",
    }
    presets = {
        "quick": {"every": 32, "networks": 64},
        "lemma-2": {"basis": "nad", "every": 8, "basis_networks": 10000, "networks": 1000},
    }

    # Which directions.
    basis: str = penchant.option("dft-cosine", "which directions", choices=BASES)
    indices: tuple[int, ...] | None = penchant.option(
        None, "which of the basis; none: every so many", at_least=0
    )
    every: int = penchant.option(32, "take every so manieth direction, from the first", at_least=1)
    basis_networks: int = penchant.option(2000, "networks drawn for the basis nad", at_least=2)
    directions: Any = penchant.option(
        None, "stored directions (rows) instead of drawing networks for the basis nad", array=True
    )
    # The dipole along them, and the networks that see it.
    networks: int = penchant.option(64, "networks measured, half of them for the bound", at_least=8)
    alpha: float = penchant.option(2.0, "alpha of g(t) = alpha t^2/2 + beta t", at_least=0)
    beta: float = penchant.option(0.0, "beta of g", at_least=0)
    eta: float = penchant.option(
        1.0, "threshold of the Markov bound, in means of v^T C v over the directions", above=0
    )
    point_scale: float = penchant.option(1.0, "standard deviation of the Gaussian point x", above=0)


@attrs.frozen
class PoolingTheory(penchant.Probe):
    """What pooling loses and how it bends the loss, frequency by frequency.

    Corrected theory against simulation: the best accuracy behind a filter and subsampling by
    `stride` (theorem 1), the mean curvature of the loss of the linear model of pooling (lemma 1),
    and its training loss. Deviations are in standard errors; their null is what the largest of so
    many frequencies would be if the theory held. The paper's theorem has a factor too much, in its
    text and another in its supplement; both are given beside.

    Reference: Ortiz-Jimenez et al., Neural Anisotropy Directions, NeurIPS 2020, section 2,
    figure 4.
    """

    name = "pooling-theory"
    question = "What does pooling lose, frequency by frequency?"
    target = "penchant_nad.probes.pooling_theory:run"
    figures = "penchant_nad.figures.pooling_theory:draw"
    quantities = {
        "deviation": "largest, of the simulated accuracy from the corrected theorem",
        "text-deviation": "from the theorem as printed in the text",
        "supplement-deviation": "from the theorem as printed in the supplement",
        "curvature-deviation": "largest, of the curvature along phi_l from the corrected lemma",
        "theta-curvature-deviation": "the same along theta_(l mod M)",
        "rank-correlation": "Spearman correlation of the mean loss while training with minus zeta",
    }
    arrays = {
        "frequencies": "l, those with 2 l = 0 mod M left out",
        "theory": "best accuracy by the corrected theorem",
        "theory-text": "as printed in the text",
        "theory-supplement": "as printed in the supplement",
        "simulation": "share of samples that the exact discriminant gets right",
        "response": "prefilter m_l",
        "zeta": "eps^2 m_l^2 / (sigma^2 max m^2)",
        "curvature": "mean second derivative of the loss along phi_l, measured",
        "curvature-theory": "by the corrected lemma",
        "theta-curvature": "along theta_(l mod M), measured",
        "theta-curvature-theory": "by the corrected lemma",
        "curve-frequencies": "frequencies of the loss curves",
        "loss-curves": "training loss, (frequencies, steps)",
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
        1.0, "distance of the classes from the plane between them", above=0
    )
    sigma: float = penchant.option(1.0, "standard deviation of the noise", above=0)
    every: int = penchant.option(1, "take every so manieth frequency", at_least=1)
    simulations: int = penchant.option(
        10000, "samples (and networks) simulated at each frequency", at_least=100
    )
    # Training of the linear model.
    curves: int = penchant.option(5, "frequencies whose training is followed", at_least=1)
    curve_sigma: float = penchant.option(
        0.3, "standard deviation of the noise while training", above=0
    )
    trainings: int = penchant.option(4, "trainings at each of them", at_least=2)
    steps: int = penchant.option(300, "steps of training", at_least=1)
    batch: int = penchant.option(64, "samples a step", at_least=1)
    learning_rate: float = penchant.option(0.1, "of SGD", above=0)
    weight_std: float = penchant.option(
        0.5, "standard deviation of theta and phi before training", above=0
    )
