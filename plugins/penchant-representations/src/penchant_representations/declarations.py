"""The probe `representation-similarity` as data; imports penchant and attrs only."""

from typing import Any

import attrs
import penchant

MEASURES = ("cka", "procrustes", "neighbours")


@attrs.frozen
class RepresentationSimilarity(penchant.Probe):
    """Similarity of the activations of pairs of layers, within or between networks.

    CKA with unbiased HSIC, Procrustes similarity, and mutual nearest neighbours between all layers
    of a network and all layers of a second one: of itself, of another seed, of another
    architecture, or of the network where its training started. Samples are cut into `groups`
    minibatches: HSIC is averaged over them, which stays unbiased, and a jackknife leaves each out,
    so that memory does not grow with the samples. Nulls: shuffled samples, and both networks at
    initialisation.

    Corresponding layers are those of the same depth; in one network, neighbours. The second network
    is trained by the same recipe on the same data. For sequences with a label at every position,
    positions whose label is -100 are left out, and errors are over sequences; where these are other
    positions in other sequences, as in padded text, `positions = "mean"` is needed.

    Arrays can stand for networks: `features`, or `kernels`, each a layer by its name. Their rows
    must be the same samples, which `sample_ids` checks. Neighbours in the table of arrays
    correspond. Features are taken in the `dtype` of the run, as networks are.

    When not to trust it: rows that are the same samples in another order look unrelated, and only
    `sample_ids` can tell. CKA is dominated by the directions of largest variance, so that one
    outlying feature decides it. The unbiased CKA of few samples can be above 1 or below 0.
    Similarity says nothing about what a layer is used for.

    Reference: Kornblith, Norouzi, Lee, Hinton, "Similarity of Neural Network Representations
    Revisited", ICML 2019, table 2; Nguyen, Raghu, Kornblith, "Do Wide and Deep Networks Learn the
    Same Things?", ICLR 2021 (minibatches); Ding et al., NeurIPS 2021 (Procrustes); Huh et al., "The
    Platonic Representation Hypothesis", ICML 2024 (neighbours).
    """

    name = "representation-similarity"
    example = (
        "penchant probe representation-similarity -a 'mlp:widths=[64,64,64]' "
        "-d digits:per_class=100 -o second=seed"
    )
    question = "How similar are the representations of layers, in one network or in two?"
    target = "penchant_representations.representation_similarity.probe:run"
    figures = "penchant_representations.representation_similarity.figures:draw"
    needs = ("architecture", "dataset")
    instead = ("features", "kernels")
    takes = ("fresh", "trained", "trajectory")
    accepts = ("sequences",)
    uses = ("{other}",)
    quantities = {
        "{measures}": "mean over corresponding layers; null: shuffled samples",
        "{measures}-last": "of the last layers; null: shuffled samples",
        "{measures}-gain": "mean over corresponding layers, minus that at initialisation",
        "{measures}-identified": "share of layers whose most similar layer of the second network "
        "is the corresponding one; null: one of its layers by chance",
    }
    tables = {
        "{measures}-layers[layer, second-layer]": "similarity",
        "{measures}-untrained[layer, second-layer]": "the same of both networks at initialisation",
        "{measures}-null[pair]": "of corresponding layers with shuffled samples, mean over "
        "shuffles",
    }
    arrays = {
        "steps": "steps of the training that are compared: the last, or the first and the last",
        "corresponding": "pairs of layers that correspond, by their numbers (pairs, 2)",
    }
    card = penchant.Card(
        60, ("cka",), {"samples": 300, "measures": ("cka",)}, family="representation and collapse"
    )
    presets = {
        "quick": {
            "samples": 500,
            "training": {"epochs": 20, "batch": 50, "learning_rate": 0.05, "momentum": 0.9},
        },
        "table-2": {
            "second": "seed",
            "samples": 10000,
            "groups": 40,
            "training": {"epochs": 100, "learning_rate": 0.05, "momentum": 0.9},
        },
    }

    features: Any = penchant.option(
        None, "features (samples, ...) by name, instead of a network's layers", arrays=True
    )
    kernels: Any = penchant.option(
        None, "kernels (samples, samples) by name, instead of a network's layers", arrays=True
    )
    sample_ids: Any = penchant.option(
        None, "numbers that identify the rows of each array, by the same names", arrays=True
    )
    second: str = penchant.option(
        "itself",
        "second network: itself, another seed of the architecture, `other`, or the start of the "
        "training (the first state of a trajectory, else the network at initialisation)",
        choices=("itself", "seed", "other", "start"),
    )
    other: str = penchant.option("", 'another architecture, such as "mlp:widths=[64]"')
    measures: tuple[str, ...] = penchant.option(
        MEASURES, "which similarities; Procrustes takes longest", choices=MEASURES
    )
    layer_names: tuple[str, ...] | None = penchant.option(
        None, "names of modules, with * and ?; None: all linear layers and convolutions"
    )
    positions: str = penchant.option(
        "flatten",
        "what a layer gives at several positions, pixels or tokens: one vector, or its mean",
        choices=("flatten", "mean"),
    )
    samples: int = penchant.option(
        2000, "random samples of `split`; all where there are fewer", at_least=8
    )
    split: str = penchant.option("test", "where samples are from", choices=("train", "test"))
    groups: int = penchant.option(
        10, "minibatches of samples, which the jackknife leaves out in turn", at_least=2
    )
    neighbours: int = penchant.option(5, "nearest neighbours in a minibatch", at_least=1)
    shuffles: int = penchant.option(20, "random orders of the samples for the null", at_least=2)

    def __attrs_post_init__(self) -> None:
        if (self.second == "other") != bool(self.other):
            raise penchant.Error(
                'second = "other" and other = "an architecture" go together, found '
                f"second = {self.second!r} and other = {self.other!r}"
            )
        self._check_arrays()
        size = self.samples // self.groups
        least = max(4, self.neighbours + 1)
        if size < least:
            raise penchant.Error(
                f"a minibatch needs at least {least} samples, found {self.samples} samples in "
                f"{self.groups} groups: {size} each"
            )

    def _check_arrays(self) -> None:
        if len(self.arrays_given) == 2:
            raise penchant.Error("arrays are features or kernels, found both")
        if self.arrays_given and (self.second != "itself" or self.layer_names):
            raise penchant.Error(
                "arrays are compared with each other, found "
                f"second = {self.second!r} and layer_names = {self.layer_names!r}: leave them out"
            )
        if self.sample_ids is not None and not self.arrays_given:
            raise penchant.Error("sample_ids are of features or kernels, found neither")
