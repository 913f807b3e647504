"""Every component, small, by the kit."""

import penchant_testing as testing
import torch

CLAIMS = {
    "per_class": 3,
    "grid_points": 16,
    "lanczos_steps": 8,
    "permutations": 2,
    "training": {"steps": 0},  # networks at initialisation
}
SMALL = {**CLAIMS, "per_class": 2, "lanczos_steps": 4}

# What is compared with is called `exact`, not by its estimator's name.
OF_THE_EXACT_ONE = [
    "last-error-ggn",
    "mean-error-ggn",
    "layer-error-ggn",
    "layer-alignment-ggn",
    "layer-trace-ggn",
    "layer-overlap-ggn",
    "layer-shift-ggn",
    "layer-outliers-ggn",
    "layer-gap-ggn",
    "leading-ggn",
    "spectrum-ggn",
]
# Autograd learns of a device before its first backward pass, or never.


def shuffled_samples(generator):
    """The kit's samples with labels that know nothing of them."""
    (inputs, labels), (test_inputs, test_labels) = testing.tiny_samples(generator)
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    test_order = torch.randperm(len(test_labels), generator=generator, device="cpu")
    return (inputs, labels[order]), (test_inputs, test_labels[test_order])


# Networks at initialisation, and labels that are independent of the samples.
NO_EFFECT = {
    "dataset": {"name": "import", "factory": shuffled_samples},
    "training": {"steps": 0},
    "per_class": 8,
    "grid_points": 16,
    "lanczos_steps": 8,
    "permutations": 5,
}
ZEROS = "the null is a proxy of zeros; a proxy of an untrained network is nearer, too"

test_conforms = testing.conformance(
    "penchant-curvature",
    small={"curvature-proxies": SMALL},
    claims={"curvature-proxies": CLAIMS},
    conditional={"curvature-proxies": OF_THE_EXACT_ONE},
    without_null={
        "curvature-proxies": {
            "covered": "how much was looked at, not a measurement",
            "effective-samples": "at most all samples; a limit, not chance",
        }
    },
    no_effect={"curvature-proxies": NO_EFFECT},
    effects={
        "curvature-proxies": {
            f"{which}-error-{name}": ZEROS
            for which in ("last", "mean")
            for name in ("kfac", "empirical-fisher")
        }
    },
)
