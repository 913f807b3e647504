"""Class structure layer by layer, as data."""

import attrs
import penchant

from penchant_class_structure.declarations.recipes import (
    BATCH_NORM,
    LOSS,
    PER_CLASS,
    PERCEPTRON,
    QUICK,
)


@attrs.frozen
class LayerStructure(penchant.Probe):
    """Class structure of the inputs (features), backpropagated errors and weights of each layer.

    The probe reports the eigenvalues of each second moment, of its class (and cross-class)
    component, and of the rest after the class component is projected out. Separation measures how
    far the class component lies above the rest; whitening measures how equal its eigenvalues are.
    Linear layers and convolutions (each position is a sample) are measured; a warning names other
    layers. Null: permuted classes.

    All numbers are exact for this network and these samples; only the null is random.

    Reference: Papyan, JMLR 2020, section 7, figures 7 to 10 and 13.
    """

    name = "layer-structure"
    example = (
        "penchant probe layer-structure -a 'mlp:widths=[128,128,128],normalization=batch' "
        "-d digits:per_class=100"
    )
    question = "In which layers do features and backpropagated errors separate the classes?"
    target = "penchant_class_structure.layer_structure.probe:run"
    figures = "penchant_class_structure.layer_structure.figures:draw"
    needs = ("architecture", "dataset", "classes")
    takes = ("fresh", "trained")
    quantities = {
        "separation-features": "last layer with a value: smallest eigenvalue of the class "
        "component of these samples over the largest left by its knockout; null: permuted classes",
        "separation-errors": "the same of backpropagated errors",
        "whitening-features": "last layer with a value: second largest over smallest eigenvalue "
        "of the class component of these samples; null: permuted classes",
        "whitening-errors": "the same of backpropagated errors",
        "separated-layers-features": "layers whose separation, on these samples, is above 1; null: "
        "permuted classes",
        "separated-layers-errors": "the same of backpropagated errors",
        "stationarity": "largest relative difference of W and -(1 / weight decay) Ave delta h^T "
        "over layers, on these samples; 0 at a stationary point",
        "loss": "mean loss on these samples; null: the best constant outputs",
    }
    headline = penchant.Headline(
        "separation-features",
        above="Class means stand out from the features of the last layer, ratio of eigenvalues",
        below="Class means stand out from the features of the last layer less than permuted "
        "ones, ratio of eigenvalues",
        neither="Class means do not stand out significantly from the features of the last layer, "
        "ratio of eigenvalues",
    )
    arrays = {
        "features": "eigenvalues of Ave h h^T, one row per layer, descending, padded with zeros",
        "features-class": "of its class component (layers, C)",
        "features-without-class": "with the class means projected out",
        "features-without-mean": "with the global mean projected out",
        "errors": "eigenvalues of the weighted second moment of backpropagated errors",
        "errors-class": "of its class component (layers, C)",
        "errors-means": "of its class and cross-class components together (layers, C (C - 1))",
        "errors-without-class": "with the class means projected out",
        "errors-without-class-cross": "with class and cross-class means projected out",
        "errors-without-mean": "with the global mean projected out",
        "weights": "singular values of the weights",
        "weights-class": "of -(1 / weight decay) Ave_c delta_c h_c^T (layers, C); without weight "
        "decay without that factor",
        "weights-without-class": "with the singular vectors of the class component projected out "
        "on both sides",
    }
    tables = {
        "separation-features-by-layer[layer]": "smallest eigenvalue of the class component over "
        "the largest left by its knockout; missing if nothing is left",
        "separation-errors-by-layer[layer]": "the same of backpropagated errors",
        "separation-features-null[layer]": "the same for permuted classes, mean over permutations",
        "separation-errors-null[layer]": "the same for permuted classes, mean over permutations",
        "whitening-features-by-layer[layer]": "second largest over smallest eigenvalue of the "
        "class component; missing if that is zero",
        "whitening-errors-by-layer[layer]": "the same of backpropagated errors",
        "whitening-features-null[layer]": "the same for permuted classes, mean over permutations",
        "whitening-errors-null[layer]": "the same for permuted classes, mean over permutations",
        "stationarity-by-layer[layer]": "relative difference of W and -(1 / weight decay) Ave "
        "delta h^T",
    }
    card = penchant.Card(
        30,
        ("separation-features", "separation-errors"),
        {"per_class": 20, "eigenvalues": 20, "singular_values": 20},
        family="class structure",
    )
    presets = {
        "quick": {"eigenvalues": 100, "singular_values": 64, "training": QUICK},
        "fig-7": {"eigenvalues": 750, "training": PERCEPTRON},
        "fig-8": {"eigenvalues": 750, "training": PERCEPTRON},
        "fig-9": {"eigenvalues": 750, "training": PERCEPTRON},
        "fig-10": {"eigenvalues": 750, "training": PERCEPTRON},
        "fig-13": {"singular_values": 150, "training": PERCEPTRON},
    }

    split: str = penchant.option("train", "which samples", choices=("train", "test"))
    per_class: int | None = penchant.option(None, PER_CLASS, at_least=1)
    loss: str = penchant.option(
        "training",
        f"{LOSS}, which must be cross-entropy; cross-entropy: whatever the training loss",
        choices=("training", "cross-entropy"),
    )
    eigenvalues: int = penchant.option(
        750, "leading eigenvalues of features and errors that are stored", at_least=2
    )
    singular_values: int = penchant.option(
        150, "leading singular values of weights that are stored", at_least=2
    )
    largest: int = penchant.option(
        8192,
        "largest number of inputs or outputs of a layer; larger layers are skipped with a warning",
        at_least=1,
    )
    permutations: int = penchant.option(3, "permutations of the labels for the null", at_least=0)
    batch_norm: str = penchant.option("running", BATCH_NORM, choices=("running", "calibrated"))
