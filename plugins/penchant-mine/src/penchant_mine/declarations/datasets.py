"""Datasets: pairs with known information, and the targets of the generative experiments."""

import attrs
import penchant


@attrs.frozen
class CorrelatedGaussians(penchant.Dataset):
    r"""Normal pairs x (input) and z (label) with correlated components.

    Their mutual information is $-\frac{d}{2} \log(1 - \rho^2)$ nats in $d$ dimensions.
    """

    name = "correlated-gaussians"
    target = "penchant_mine.datasets.correlated_gaussians:load"

    inputs: int = penchant.option(1, "components of each variable", at_least=1)
    rho: float = penchant.option(0.5, "correlation", above=-1, below=1)
    train: int = penchant.option(10000, "training pairs", at_least=4)
    test: int | None = penchant.option(
        None, "test pairs; None: a quarter of the training", at_least=1
    )


@attrs.frozen
class NonlinearPair(penchant.Dataset):
    """x uniform on [-1, 1] in every component (input), z = f(x) + noise (label).

    The information depends on f, also for equal noise; exact values are numerical integrals.
    """

    name = "nonlinear-pair"
    target = "penchant_mine.datasets.nonlinear_pair:load"

    map: str = penchant.option("identity", "the function f", choices=("identity", "cube", "sine"))
    noise_std: float = penchant.option(0.5, "standard deviation of the normal noise", above=0)
    inputs: int = penchant.option(2, "components of each variable", at_least=1)
    train: int = penchant.option(10000, "training pairs", at_least=4)
    test: int | None = penchant.option(
        None, "test pairs; None: a quarter of the training", at_least=1
    )


@attrs.frozen
class Spiral(penchant.Dataset):
    """Points along a spiral arm in the plane, with noise; the label is the position, 0 to 1."""

    name = "spiral"
    target = "penchant_mine.datasets.spiral:load"

    turns: float = penchant.option(1.5, "turns of the arm", above=0)
    noise_std: float = penchant.option(
        0.05, "standard deviation of the noise; the arm ends at distance 2", at_least=0
    )
    train: int = penchant.option(100000, "training points", at_least=4)
    test: int | None = penchant.option(
        None, "test points; None: a quarter of the training", at_least=1
    )


@attrs.frozen
class TwentyFiveGaussians(penchant.Dataset):
    """A 5 x 5 grid of normal blobs in the plane, equally likely; the label is the blob."""

    name = "twenty-five-gaussians"
    target = "penchant_mine.datasets.twenty_five_gaussians:load"

    noise_std: float = penchant.option(0.05, "standard deviation of a blob", above=0)
    spacing: float = penchant.option(1.0, "distance of neighbouring blobs", above=0)
    train: int = penchant.option(100000, "training points", at_least=100)
    test: int | None = penchant.option(
        None, "test points; None: a quarter of the training", at_least=25
    )


# Images of digits and faces are penchant-vision's.
DATASETS = [CorrelatedGaussians, NonlinearPair, Spiral, TwentyFiveGaussians]
