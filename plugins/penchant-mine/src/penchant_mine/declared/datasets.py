"""Datasets: pairs with known information, and the targets of the generative experiments."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class CorrelatedGaussians(penchant.Dataset):
    """Normal pairs: x (input) and z (label) of `dimension` components with correlation rho, one with one.

    Their mutual information is -dimension / 2 log(1 - rho^2) nats.
    """

    name = "correlated-gaussians"
    target = "penchant_mine.datasets:load_correlated_gaussians"

    dimension: int = penchant.option(1, "components of each variable", at_least=1)
    rho: float = penchant.option(0.5, "correlation", above=-1, below=1)
    samples: int = penchant.option(
        10000, "training pairs; there are a quarter as many test pairs", at_least=4
    )


@attrs.frozen
class NonlinearPair(penchant.Dataset):
    """x uniform on [-1, 1]^dimension (input), z = f(x) + sigma e (label), e standard normal.

    The information does not depend on the noise alone: f = x, x^3 and sin x differ; exact values are integrals.
    """

    name = "nonlinear-pair"
    target = "penchant_mine.datasets:load_nonlinear_pair"

    map: str = penchant.option("identity", "the function f", choices=("identity", "cube", "sine"))
    sigma: float = penchant.option(0.5, "standard deviation of the noise", above=0)
    dimension: int = penchant.option(2, "components of each variable", at_least=1)
    samples: int = penchant.option(
        10000, "training pairs; there are a quarter as many test pairs", at_least=4
    )


@attrs.frozen
class Spiral(penchant.Dataset):
    """Points along a spiral arm in the plane, with noise; the label is how far along the arm, from 0 to 1."""

    name = "spiral"
    target = "penchant_mine.datasets:load_spiral"

    turns: float = penchant.option(1.5, "turns of the arm", above=0)
    sigma: float = penchant.option(
        0.05, "standard deviation of the noise; the arm ends at distance 2", at_least=0
    )
    samples: int = penchant.option(
        100000, "training points; there are a quarter as many test points", at_least=4
    )


@attrs.frozen
class TwentyFiveGaussians(penchant.Dataset):
    """A 5 x 5 grid of normal blobs in the plane, equally likely; the label is the blob."""

    name = "twenty-five-gaussians"
    target = "penchant_mine.datasets:load_twenty_five_gaussians"

    sigma: float = penchant.option(0.05, "standard deviation of a blob", above=0)
    spacing: float = penchant.option(1.0, "distance of neighbouring blobs", above=0)
    samples: int = penchant.option(
        100000, "training points; there are a quarter as many test points", at_least=100
    )


@attrs.frozen
class StackedMnist(penchant.Dataset):
    """Three MNIST digits as the channels of one image: 1000 modes, the label is the three digits read as a number.

    Files: MNIST as IDX, gzipped or plain, in `mnist/` or `MNIST/raw/`. Test images are stacked from MNIST's test digits.
    """

    name = "stacked-mnist"
    target = "penchant_mine.stacked_mnist:load"

    root: str | None = penchant.option(
        None, "folder with the folder of MNIST; nothing: PENCHANT_DATA"
    )
    samples: int = penchant.option(128000, "training images", at_least=1)
    test: int = penchant.option(26000, "test images", at_least=1)


@attrs.frozen
class CelebA(penchant.Dataset):
    """Aligned faces, 3 x side x side; the label is one attribute. Official split; validation pictures are left out.

    Files, in `celeba/`: the folder `img_align_celeba`, `list_attr_celeba.txt` and `list_eval_partition.txt`.

    Reference: Liu, Luo, Wang, Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    name = "celeba"
    target = "penchant_mine.celeba:load"

    root: str | None = penchant.option(
        None, "folder with the folder celeba; nothing: PENCHANT_DATA"
    )
    attribute: str = penchant.option("Male", "attribute that is the label, as its file names it")
    side: int = penchant.option(64, "side length", at_least=8)
    samples: int = penchant.option(162770, "training pictures, at most", at_least=1)
    test: int = penchant.option(19962, "test pictures, at most", at_least=1)


DATASETS = [CorrelatedGaussians, NonlinearPair, Spiral, TwentyFiveGaussians, StackedMnist, CelebA]
