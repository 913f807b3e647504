"""The probe `weight-spectra` as data; imports penchant and attrs only."""

from typing import Any

import attrs
import penchant


@attrs.frozen
class WeightSpectra(penchant.Probe):
    """Singular values of the weights of every layer, compared with random matrices.

    The weights are those of a file (safetensors with shards and index, torch files), which is read
    one tensor at a time, or of an architecture, trained if a dataset is given. Eigenvalues
    sigma^2 / N are compared with the law of Marchenko and Pastur for entries of this variance, and
    with the spectrum of the same entries in random order, which is the null of every number. The
    tail exponent has a window, a standard error by bootstrap, and is refused where an exponential
    fits as well.

    With `base` the matrices are differences: of the file, or the network, minus the base. Factors
    of LoRA are multiplied out, with the scale of the `adapter_config.json` beside them. The null is
    then a difference of the same norm in a random direction. With `matrix` an array is measured.

    All numbers but the exponent's error and the nulls are exact for these weights.

    When not to trust it: a difference of two files of low precision is partly rounding, whose
    entries are random, so that a small difference looks more random than it is. A difference of low
    rank has few singular values, of which none is a power law. `base-overlap` is large also
    without any learning where weight decay shrinks the base.

    Reference: Martin, Mahoney, "Implicit Self-Regularization in Deep Neural Networks", JMLR 2021;
    Clauset, Shalizi, Newman, "Power-Law Distributions in Empirical Data", SIAM Review 2009.
    """

    name = "weight-spectra"
    example = (
        "penchant probe weight-spectra -a 'mlp:widths=[256,256]' --shape 1,16,16 --outputs 100"
    )
    question = "Are weights random, do they have spikes, or heavy tails?"
    target = "penchant_weights.weight_spectra.probe:run"
    figures = "penchant_weights.weight_spectra.figures:draw"
    accepts = ("architecture", "dataset", "sequences")
    takes = ("fresh", "trained")
    quantities = {
        "mp-distance": "mean over layers of the Kolmogorov distance of eigenvalues from the law of "
        "Marchenko and Pastur; null: entries in random order, of a difference random entries",
        "spikes": "mean over layers of the eigenvalues above the 99 % point of the largest one of "
        "random entries; null: entries in random order",
        "stable-rank": "mean over layers of |W|_F^2 / |W|^2; null: entries in random order",
        "power-law-layers": "share of layers whose tail is a power law rather than an exponential; "
        "null: entries in random order",
        "tail-exponent": "mean over these layers of the exponent of the density of eigenvalues",
        "relative-change": "mean over layers of the largest singular value of the difference over "
        "that of the base; null: the same norm in random directions",
        "base-overlap": "mean over layers of the share of the difference's squares between the "
        "leading tenth of the base's left and right singular vectors; null: random directions",
    }
    arrays = {
        "singular-values": "of every layer, descending, filled up with zeros",
        "shapes": "rows and columns of every layer's matrix (layers, 2)",
    }
    tables = {
        "edges[layer]": "largest singular value by the law of Marchenko and Pastur",
        "mp-distances[layer]": "distance from the law of Marchenko and Pastur; null: entries in "
        "random order, mean over shuffles",
        "spikes-by-layer[layer]": "eigenvalues above chance; null: entries in random order",
        "stable-ranks[layer]": "stable rank; null: entries in random order",
        "power-laws[layer]": "1 where the tail is a power law; null: entries in random order",
        "tail-exponents[layer]": "exponent of the tail; missing where a power law is refused",
        "tail-windows[layer]": "eigenvalue from which the tail is fitted; missing with too few "
        "values",
        "tail-counts[layer]": "eigenvalues in that window; missing with too few values",
        "tail-against-exponential[layer]": "Vuong's z, positive where the power law is better; "
        "missing with too few values",
        "relative-norms[layer]": "Frobenius norm of the difference over that of the base",
        "relative-changes[layer]": "largest singular values, of difference over base; null: random "
        "directions, mean over draws",
        "base-overlaps[layer]": "share between leading singular vectors of the base; null: random "
        "directions, mean over draws",
    }
    card = penchant.Card(
        70, ("mp-distance", "spikes", "stable-rank"), {"shuffles": 10}, family="weights"
    )
    presets = {"quick": {"shuffles": 10, "training": {"epochs": 20, "learning_rate": 0.05}}}

    file: str | None = penchant.option(
        None, "file or folder of weights: safetensors, its index, or a torch file"
    )
    base: str | None = penchant.option(
        None, "file or folder of the weights that are subtracted, such as those before fine-tuning"
    )
    matrix: Any = penchant.option(None, "one matrix, instead of a file", array=True)
    layer_names: tuple[str, ...] | None = penchant.option(
        None, "names of tensors, with * and ?; None: all with at least two axes"
    )
    smallest: int = penchant.option(
        20, "shorter side of a matrix at least; smaller ones are left out", at_least=2
    )
    shuffles: int = penchant.option(
        10, "random orders of the entries, or random directions, for the null", at_least=2
    )

    def __attrs_post_init__(self) -> None:
        if self.matrix is not None and (self.file is not None or self.base is not None):
            raise penchant.Error("a matrix has neither a file nor a base, found both")

    def files(self) -> tuple[str, ...]:
        """Paths of the files it reads; their content is part of a job's key."""
        from pathlib import Path

        from penchant_weights.shared.stored_files import config_file, stored_files

        paths = []
        for given in (self.file, self.base):
            if given is None:
                continue
            paths += stored_files(Path(given))
        # The scale of factors enters their difference.
        if self.file is not None and self.base is not None:
            paths += [path for path in [config_file(Path(self.file))] if path.is_file()]
        return tuple(str(path) for path in paths)
