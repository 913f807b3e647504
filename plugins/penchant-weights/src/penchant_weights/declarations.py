"""The probe `weight-spectra` as data; imports penchant and attrs only."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class WeightSpectra(penchant.Probe):
    """Singular values of the weights of every layer, compared with random matrices.

    Of a file on disk (safetensors with shards and index, torch files), read one tensor at a time;
    or of an architecture: trained if a dataset is given, else at initialisation. Eigenvalues
    sigma^2 / N are compared with the law of Marchenko and Pastur for entries of this variance, and
    with the spectrum of the same entries in random order, which is the null of every number. The
    tail exponent has a window, a standard error by bootstrap, and is refused where an exponential
    fits as well.

    All numbers but the exponent's error and the nulls are exact for these weights.

    Reference: Martin, Mahoney, "Implicit Self-Regularization in Deep Neural Networks", JMLR 2021;
    Clauset, Shalizi, Newman, "Power-Law Distributions in Empirical Data", SIAM Review 2009.
    """

    name = "weight-spectra"
    example = (
        "penchant probe weight-spectra -a 'mlp:widths=[256,256]' --shape 1,16,16 --outputs 100"
    )
    question = "Are weights random, do they have spikes, or heavy tails?"
    target = "penchant_weights.probes.weight_spectra:run"
    figures = "penchant_weights.figures.weight_spectra:draw"
    accepts = ("architecture", "dataset", "sequences")
    takes = ("fresh", "trained")
    quantities = {
        "mp-distance": "mean over layers of the Kolmogorov distance of eigenvalues from the law of "
        "Marchenko and Pastur; null: entries in random order",
        "spikes": "mean over layers of the eigenvalues above the 99 % point of the largest one of "
        "random entries; null: entries in random order",
        "stable-rank": "mean over layers of |W|_F^2 / |W|^2; null: entries in random order",
        "power-law-layers": "share of layers whose tail is a power law rather than an exponential; "
        "null: entries in random order",
        "tail-exponent": "mean over these layers of the exponent of the density of eigenvalues",
    }
    arrays = {
        "singular-values": "of every layer, descending, filled up with zeros",
        "shapes": "rows and columns of every layer's matrix (layers, 2)",
        "edges": "largest singular value by the law of Marchenko and Pastur",
        "mp-distances": "distance from the law of Marchenko and Pastur, by layer",
        "mp-distances-null": "the same of entries in random order, mean over shuffles",
        "spikes-by-layer": "eigenvalues above chance, by layer",
        "spikes-by-layer-null": "the same of entries in random order",
        "stable-ranks": "stable rank, by layer",
        "stable-ranks-null": "the same of entries in random order",
        "power-laws": "1 where the tail is a power law, by layer",
        "power-laws-null": "the same of entries in random order",
        "tail-exponents": "exponent of the tail; missing where a power law is refused",
        "tail-windows": "eigenvalue from which the tail is fitted; missing with too few values",
        "tail-counts": "eigenvalues in that window; missing with too few values",
        "tail-against-exponential": "Vuong's z, positive where the power law is better; missing "
        "with too few values",
    }
    card = penchant.Card(
        70, ("mp-distance", "spikes", "stable-rank"), {"shuffles": 10}, family="weights"
    )
    presets = {"quick": {"shuffles": 10, "training": {"epochs": 20, "learning_rate": 0.05}}}

    file: str | None = penchant.option(
        None, "file or folder of weights: safetensors, its index, or a torch file"
    )
    layer_names: tuple[str, ...] | None = penchant.option(
        None, "names of tensors, with * and ?; None: all with at least two axes"
    )
    smallest: int = penchant.option(
        20, "shorter side of a matrix at least; smaller ones are left out", at_least=2
    )
    shuffles: int = penchant.option(10, "random orders of the entries for the null", at_least=2)

    def files(self) -> tuple[str, ...]:
        """Paths of the files it reads; their content is part of a job's key."""
        if self.file is None:
            return ()
        from pathlib import Path

        from penchant_weights.shared.stored_files import stored_files

        try:
            return tuple(str(path) for path in stored_files(Path(self.file)))
        except ValueError as error:
            raise penchant.Error(str(error)) from None
