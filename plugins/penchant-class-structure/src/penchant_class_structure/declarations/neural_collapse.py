"""Neural collapse along training, as data."""

from typing import Any

import attrs
import penchant

from penchant_class_structure.declarations.recipes import CIFAR, PER_CLASS, QUICK


@attrs.frozen
class NeuralCollapse(penchant.Probe):
    r"""Neural collapse by layer: scatter within classes, and norms and angles of class means.

    For the inputs of every linear layer and convolution the probe reports NC1, the scatter within
    classes over that of class means, $\operatorname{tr}(\Sigma_W \Sigma_B^+) / C$; NC2, the
    deviation of the class means from the equal norms and equal angles of a simplex; and NC4, how
    often the nearest class mean and the network disagree. For the last layer it also reports NC3,
    the distance of the classifier from the class means. All are 0 for a collapsed network. Nulls:
    permuted labels, and isotropic features of the same dimension and numbers of samples.

    Features of a convolution are means over positions. Two forward passes over the samples give all
    layers and nulls. Standard errors are over samples (a jackknife over groups with as many samples
    of each class), for this one network. Where class means are all but a simplex, NC2 is the length
    of what is left of the noise, which spreads less than its error says, by a factor of about 1.5.

    Arrays can stand for the network: `features` of one layer or of several by name, and `labels`.
    The last of them counts as the last layer. NC1 and NC2 need no more; NC3 and the numbers of the
    classifier need its weights, `classifier_weights`. NC4 and the accuracy need a network.

    When not to trust it: in many dimensions class means are close to a simplex whatever they are
    (compare with `nc2-simplex-isotropic`). NC1 is small also where few samples of a class are
    fitted by many features. Features of training samples say nothing about test samples.

    Reference: Papyan, Han, Donoho, "Prevalence of neural collapse during the terminal phase of
    deep learning training", PNAS 2020, figures 2 to 7.
    """

    name = "neural-collapse"
    example = (
        "penchant probe neural-collapse -a 'mlp:widths=[128,128],normalization=batch' "
        "-d digits:per_class=100"
    )
    question = "Do samples fall onto their class means, and these onto a simplex?"
    target = "penchant_class_structure.neural_collapse.probe:run"
    figures = "penchant_class_structure.neural_collapse.figures:draw"
    needs = ("architecture", "dataset", "classes")
    instead = ("features", "labels")
    takes = ("fresh", "trained", "trajectory")
    quantities = {
        "nc1": "last layer: scatter within classes over that of class means, "
        "tr(Sigma_W Sigma_B^+) / C; null: permuted labels",
        "nc2-simplex": "last layer: mean over pairs of classes of |cos + 1/(C - 1)|, the cosine of "
        "centred class means; null: permuted labels",
        "nc2-norms": "last layer: standard deviation over mean of the norms of centred class "
        "means; null: permuted labels",
        "nc2-angles": "last layer: standard deviation of the cosines of pairs; null: permuted "
        "labels",
        "nc3": "squared distance of classifier and centred class means, each of norm 1; null: "
        "permuted labels",
        "nc4": "last layer: share of samples whose nearest class mean is not the class the network "
        "gives; null: permuted labels",
        "nc2-simplex-classifier": "nc2-simplex of the classifier's rows, not centred; null: in "
        "random order",
        "nc2-norms-classifier": "nc2-norms of the classifier's rows, not centred; null: in "
        "random order",
        "nc2-angles-classifier": "nc2-angles of the classifier's rows, not centred; null: in "
        "random order",
        "{split}-accuracy": "accuracy on these samples; null: the most frequent class",
    }
    arrays = {"steps": "steps of training"}
    tables = {
        **{
            table: about
            for name in ("nc1", "nc2-simplex", "nc2-norms", "nc2-angles")
            for table, about in {
                f"{name}-by-layer[step, layer]": f"{name} of what each layer is given",
                f"{name}-null[step, layer]": "the same with permuted labels, mean over "
                "permutations",
                f"{name}-isotropic[layer]": "the same of isotropic features of this dimension",
            }.items()
        },
        "nc3-by-step[step]": "nc3 of the last layer",
        "nc3-null[step]": "the same with permuted labels",
        "nc4-by-layer[step, layer]": "nc4 of each layer",
        "nc4-null[step, layer]": "the same with permuted labels",
        "nc2-simplex-classifier-by-step[step]": "nc2-simplex of the classifier",
        "nc2-norms-classifier-by-step[step]": "nc2-norms of the classifier",
        "nc2-angles-classifier-by-step[step]": "nc2-angles of the classifier",
        "accuracies[step]": "accuracy on these samples",
    }
    card = penchant.Card(
        61, ("nc1", "nc2-simplex"), {"per_class": 20}, family="representation and collapse"
    )
    presets = {
        "quick": {"eval_every": 60, "training": QUICK},
        "collapse-fig-6": {"eval_every": 3910, "training": CIFAR},
    }

    features: Any = penchant.option(
        None,
        "features (samples, ...) of layers by name, instead of a network and data",
        arrays=True,
    )
    labels: Any = penchant.option(None, "classes 0, 1, ... of the rows of features", array=True)
    classifier_weights: Any = penchant.option(
        None, "weights (classes, features) of the last layer, beside features", array=True
    )
    sample_ids: Any = penchant.option(
        None, "numbers that identify the rows of each array, `labels` among them", arrays=True
    )
    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(None, PER_CLASS, at_least=1)
    eval_steps: tuple[int, ...] | None = penchant.option(
        None, "training steps at which to measure; None: see eval_every"
    )
    eval_every: int | None = penchant.option(
        None,
        "steps of training between measurements, its end among them; None: the end",
        at_least=1,
    )
    groups: int = penchant.option(10, "groups of samples that the jackknife leaves out", at_least=2)
    permutations: int = penchant.option(20, "permutations of the labels for the null", at_least=2)
    largest: int = penchant.option(
        2048, "features of a layer at most; larger layers are left out, with a warning", at_least=1
    )

    def __attrs_post_init__(self) -> None:
        if (self.features is None) != (self.labels is None):
            given = "features alone" if self.labels is None else "labels alone"
            raise penchant.Error(f"features and labels go together, found {given}")
        beside = {"classifier_weights": self.classifier_weights, "sample_ids": self.sample_ids}
        for name, value in beside.items():
            if value is not None and self.features is None:
                raise penchant.Error(f"{name} goes with features, found none")
