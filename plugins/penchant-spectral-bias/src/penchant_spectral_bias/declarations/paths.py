"""Declaration of the probe of paths within a class."""

import attrs
import penchant


@attrs.frozen
class ClassPaths(penchant.Probe):
    """Share of pairs of inputs that a path of constant predicted class connects.

    The ends are training images, and inputs of other classes that were moved until the network
    predicts the class. Paths are nudged elastic bands without springs: they climb the logit of the
    class perpendicular to themselves. Null: the straight line. If straight lines also keep the
    class, bending shows nothing, and the probe warns. Every connected path is checked again at
    three times the resolution.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 9.
    """

    name = "class-paths"
    example = "penchant probe class-paths -a lenet -d fashion-mnist:per_class=200"
    question = (
        "Are inputs of one class connected by paths on which the predicted class is constant?"
    )
    target = "penchant_spectral_bias.class_paths.probe:run"
    figures = "penchant_spectral_bias.class_paths.figures:draw"
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    takes = ("fresh", "trained")
    quantities = {
        "connected": "share of pairs whose bent path keeps the class; null: straight lines",
        "connected-image-image": "the same between training images",
        "connected-image-adversarial": "the same between an image and an adversarial input",
        "connected-adversarial-adversarial": "the same between adversarial inputs",
        "bent-minus-straight": "share of pairs that the bent path connects minus that of straight "
        "lines",
        "length-ratio": "length of connected paths over the straight line",
        "confirmed": "share of connected paths that keep the class at three times the resolution",
        "test-accuracy": "of the trained network",
    }
    headline = penchant.Headline(
        "bent-minus-straight",
        above="Bent paths connect inputs of one class more often than straight lines",
        below="Bent paths connect inputs of one class less often than straight lines",
        neither="Bent paths do not connect inputs of one class significantly more often than "
        "straight lines",
    )
    arrays = {
        "classes": "of every pair",
        "kinds": "of every pair: how many of its ends are adversarial",
        "connected": "does the bent path keep the class?",
        "straight": "does the straight line?",
        "length-ratios": "length of every path over the straight line",
        "certainties": "smallest softmax probability of the class on every path",
        "paths": "pivots of the first pairs of every class (paths x pivots x input)",
        "path-classes": "their classes",
        "path-connected": "which of them keep it",
    }
    # experiment 9: all pairs of a hundred ends per class
    _PATHS = {
        "images": 50,
        "adversarials": 50,
        "pairs": 4950,
        "training": {
            "learning_rate": 0.1,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "batch": 128,
            "epochs": 160,
            "schedule": "thirds",
        },
    }
    card = penchant.Card(
        90,
        ("connected", "bent-minus-straight"),
        {"images": 4, "adversarials": 4, "pairs": 6, "refinements": 2},
        family="class regions",
    )
    presets = {
        "quick": {
            "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch": 64, "epochs": 5}
        },
        "fig-a-11": _PATHS,
        "fig-a-12": _PATHS,
    }

    chosen_classes: tuple[int, ...] | None = penchant.option(
        None, "classes whose inputs are connected; None: all", at_least=0
    )
    images: int = penchant.option(6, "training images per class", at_least=1)
    adversarials: int = penchant.option(6, "inputs of other classes moved into a class", at_least=0)
    pairs: int = penchant.option(12, "random pairs per class", at_least=1)
    # How paths are bent.
    refinements: int = penchant.option(
        4, "times the path is bent; its pieces double in between", at_least=1
    )
    bends: int = penchant.option(10, "steps per refinement", at_least=0)
    learning_rate: float = penchant.option(
        0.001, "learning rate of a step along the logit's gradient", above=0
    )
    momentum: float = penchant.option(0.9, "momentum of the steps", at_least=0, below=1)
    pivots: int = penchant.option(3, "inner pivots of the path to begin with", at_least=1)
    resolution: int = penchant.option(
        4, "points per piece at which the class is evaluated", at_least=1
    )
    # How inputs of other classes are moved.
    attack_step: float = penchant.option(0.05, "length of a step of an adversarial input", above=0)
    attack_steps: int = penchant.option(200, "largest number of these steps", at_least=1)
    attack_certainty: float = penchant.option(
        0.95, "softmax probability at which an adversarial input stops", at_least=0, below=1
    )
    stored_paths: int = penchant.option(1, "paths stored per class", at_least=0)
