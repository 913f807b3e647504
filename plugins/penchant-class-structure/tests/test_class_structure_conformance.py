"""Every probe, small, by the kit; all of a probe's runs together show everything it declares."""

import penchant_testing as testing
import torch

# Networks at initialisation: trainings are what the other tests are about.
DRAWN = {"steps": 0, "weight_decay": 1e-3}
FEW = {"lanczos_steps": 8, "grid_points": 16, "per_class": 4, "training": DRAWN}
PRODUCTS = {**FEW, "exact_limit": 0}
FEWER = {"per_class": 2, "lanczos_steps": 3}  # of products, each of many operations
LAYERS = {"eigenvalues": 8, "singular_values": 5, "per_class": 4, "training": DRAWN}
COLLAPSE = {"groups": 5, "permutations": 3, "training": DRAWN}
LOGISTIC = {"train": 40, "test": 20, "separations": [1.0], "training": {"steps": 0}}


def one_network(shape, outputs):
    """The same network for every seed: errors are over samples, so only these are drawn again.

    A logit rises along the axis of its class, so that outliers stand out: the largest gap is at one
    place in all runs.
    """
    network = testing.tiny_network(shape, outputs)
    _, first, _, second = network
    for layer, weight in ((first, 0.3), (second, 2.0)):
        layer.weight.data = weight * torch.eye(*layer.weight.shape, device="cpu")
        layer.bias.data.zero_()
    return network


def uneven_network(shape, outputs):
    """The same network for every seed, whose class means are far from a simplex."""
    network = testing.tiny_network(shape, outputs)
    generator = torch.Generator("cpu").manual_seed(2)
    for value in network.parameters():
        value.data = 0.4 * torch.randn(value.shape, generator=generator, device="cpu")
    return network


def same_samples(generator):
    """The same samples for every seed, where errors are over random vectors."""
    return testing.tiny_samples(torch.Generator("cpu").manual_seed(3))


def shuffled_samples(generator):
    """The kit's samples with labels that know nothing of them."""
    (inputs, labels), (test_inputs, test_labels) = testing.tiny_samples(generator)
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    test_order = torch.randperm(len(test_labels), generator=generator, device="cpu")
    return (inputs, labels[order]), (test_inputs, test_labels[test_order])


ONE = {"architecture": {"name": "import", "factory": one_network}, "per_class": 10}
UNEVEN = {"name": "import", "factory": uneven_network}
VECTORS = {"starts": 2, "iterations": 2, "trace_samples": 2}
SAME_SAMPLES = {"name": "import", "factory": same_samples}
STARTS = {**PRODUCTS, **VECTORS, **ONE, "dataset": SAME_SAMPLES}

TRACE = "a trace has no value by chance"
SAME = "classes in another order leave G and its spectrum as they are"
SIGNS = "0 for a convex loss, half for symmetric noise: neither is chance"
WITHOUT_NULL = {
    "cross-class": {
        "trace-total": TRACE,
        "outliers": SAME,
        "outliers-cross": SAME,
        "outliers-cross-gap": SAME,
        "gap": SAME,
        "gap-margin": SAME,
        "outliers-runner-up": SAME,
        "largest-gauss-newton": SAME,
    },
    "hessian-spectrum": {
        "*trace-*": TRACE,
        "*largest*": "an eigenvalue has the scale of the loss: none is expected by chance",
        "*negative-mass": SIGNS,
        "*negative-mass-*": "a bound of negative-mass",
        "*resolution": "a limit of the method, not a measurement",
        "*tail-fit*": "tells how far tail-exponent may be trusted",
    },
    "layer-structure": {"stationarity": "0 is a limit that no training reaches"},
    "logistic-theory": {"critical-deviation": "a threshold, not a measurement"},
}

# Networks at initialisation, and labels that are independent of the samples.
UNTRAINED = {
    "dataset": {"name": "import", "factory": shuffled_samples},
    "training": DRAWN,
    "per_class": 10,
}
NO_EFFECT = {
    "cross-class": {**UNTRAINED, "lanczos_steps": 8, "grid_points": 16},
    "hessian-spectrum": {**UNTRAINED, "lanczos_steps": 8, "grid_points": 16},
    "layer-structure": {**UNTRAINED, "eigenvalues": 8, "singular_values": 5},
    "neural-collapse": {**UNTRAINED, "per_class": None},
    "logistic-theory": {"train": 200, "test": 100, "separations": [1.0], "training": {"steps": 0}},
}
BULK = "the null is a semicircle, not an untrained network, whose E has a tail, too"
EFFECTS = {"hessian-spectrum": {"tail-exponent": BULK, "test-tail-exponent": BULK}}

test_conforms = testing.conformance(
    "penchant-class-structure",
    small={
        "cross-class": [
            {**FEW, "fractions": [0.5], "sizes": [2], "permutations": 2, "parameters": ["*"]},
            {**PRODUCTS, **FEWER, "split": "test", "permutations": 1, "products": 40},
        ],
        "hessian-spectrum": [
            {**FEW, "undeflated": True, "parameters": ["*"]},
            {**PRODUCTS, **FEWER, **VECTORS, "iterations": 1, "leading": 1, "split": "train"},
        ],
        "layer-structure": LAYERS,
        "logistic-theory": LOGISTIC,
        "neural-collapse": [COLLAPSE, {**COLLAPSE, "split": "test"}],
    },
    claims={
        "cross-class": [
            {**FEW, **ONE, "permutations": 2},
            {**FEW, **ONE, "permutations": 1, "split": "test"},
        ],
        "hessian-spectrum": [
            {**FEW, **ONE},
            {**STARTS, "lanczos_steps": 16},
            {**STARTS, "lanczos_steps": 24, "starts": 6},
        ],
        "layer-structure": {**LAYERS, **ONE},
        "logistic-theory": {**LOGISTIC, "test": 40, "training": {"steps": 30}},
        "neural-collapse": [
            {**COLLAPSE, "architecture": UNEVEN, "groups": 10},
            {**COLLAPSE, "architecture": UNEVEN, "groups": 10, "split": "test"},
        ],
    },
    without_null=WITHOUT_NULL,
    no_effect=NO_EFFECT,
    effects=EFFECTS,
)
