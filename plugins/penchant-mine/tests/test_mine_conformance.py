"""The conformance kit over everything the plugin offers."""

import penchant_testing as testing
import torch
from penchant_mine.declarations.generative import ROWS


def small_images(generator):
    """Sixty images, 1 x 12 x 12, labelled by how bright they are."""
    inputs = torch.rand(60, 1, 12, 12, generator=generator, device="cpu")
    return inputs, inputs.mean((1, 2, 3))


TINY = {
    "name": "mine",
    "network": "statistics-perceptron:widths=[16]",
    "steps": 10,
    "batch": 64,
    "trainings": 2,
    "null_trainings": 1,
    "check_every": 5,
}
# Few launches: on an emulated device each takes longer than what it computes.
BRIEF = {**TINY, "steps": 3, "batch": 16, "marginals": 4, "check_every": 2}
PAIRS = {"name": "correlated-gaussians", "rho": 0.8, "train": 80}
BLOBS = {"name": "twenty-five-gaussians", "train": 200}
GAN = {"steps": 6, "generator": [16], "discriminator": [16], "trainings": 2, "samples": 50}
FEW_STEPS = {name: value for name, value in BRIEF.items() if name != "name"}
SMALL = {
    "statistics-perceptron": {"shape": (9,), "outputs": 1},
    "statistics-conv": {"shape": (3 * 28 * 28 + 5,), "outputs": 1},
    "correlated-gaussians": {"train": 40},
    "nonlinear-pair": {"train": 40, "map": "cube"},
    "spiral": {"train": 40},
    "twenty-five-gaussians": {"train": 100},
    **{name: {"options": FEW_STEPS} for name in ("mine", "mine-f", "nwj", "info-nce", "smile")},
}


def probes(
    tiny, gan, *, steps, classifier_steps, image_steps=2, gaussian=None, ksg=None, bottleneck=None
):
    """Runs that show everything a probe declares, with networks trained for longer or shorter."""
    gaussian = {"name": "gaussian", **(gaussian or {})}
    ksg = {"name": "ksg", **(ksg or {})}
    return {
        "mutual-information": [
            {
                "dataset": PAIRS,
                "estimators": {"mutual-information": [ksg, tiny]},
                "calibrate": True,
            },
            {
                "architecture": {"name": "import", "factory": "penchant_testing:tiny_network"},
                "estimators": {
                    "mutual-information": ["gaussian", {"name": "gaussian", "shuffles": 2}]
                },
                "first": "layer:1",
                "second": "label",
                "eval_steps": [0, steps],
                "calibrate": True,
                "training": {"steps": steps, "batch": 30},
            },
        ],
        "information-benchmark": [
            # Where both coverage and warnings are in doubt, so that their errors can be compared.
            {
                "estimators": {"mutual-information": gaussian},
                "family": "student",
                "grid": [4.0],
                "samples": 110,
                "repeats": 4,
            },
            {
                "estimators": {"mutual-information": [gaussian, ksg, tiny]},
                "grid": [0.9],
                "samples": 100,
                "repeats": 2,
            },
            {
                "estimators": {"mutual-information": ksg},
                "family": "nonlinear",
                "maps": ["identity", "sine"],
                "grid": [0.3, 0.6],
                "samples": 100,
                "repeats": 2,
            },
        ],
        "gan-modes": {"dataset": {**BLOBS, "train": 600}, **gan},
        "bidirectional-reconstruction": [
            {"dataset": BLOBS, **gan, "classifier_steps": classifier_steps},
            {
                "dataset": {"name": "import", "factory": small_images},
                "variants": ["ali", "alice-adversarial"],
                "channels": [4, 4],
                "statistics_channels": [4, 4],
                "hidden": 4,
                "latent": 3,
                "steps": image_steps,
                "batch": 8,
                "trainings": 2,
            },
        ],
        "information-bottleneck": {
            "dataset": BLOBS,
            "widths": [16],
            "code": 4,
            "statistics_width": 16,
            "epochs": 1,
            "trainings": 2,
            "betas": [1.0],
            "code_draws": 2,
            "estimators": {"mutual-information": gaussian},
            **(bottleneck or {}),
        },
    }


SMALL |= probes(
    BRIEF,
    {**GAN, "steps": 2},
    steps=2,
    classifier_steps=2,
    image_steps=1,
    gaussian={"shuffles": 2},
    ksg={"subsets": 2},
    bottleneck={"batch": 200},
)
# Errors are compared where more was learnt.
CLAIMS = probes(TINY, GAN, steps=6, classifier_steps=5)
# A bias is found from pairs for which the estimator gives the value: it must have learnt, and not
# by heart. With 80 pairs the error is 2.1 times the spread: it allows for the gap to training pairs.
TAUGHT = {**TINY, "steps": 60, "learning_rate": 1e-2}
CLAIMS["mutual-information"][0]["estimators"]["mutual-information"][1] = TAUGHT
CLAIMS["mutual-information"][0]["dataset"] = {**PAIRS, "train": 240}
BENCHMARKS = CLAIMS["information-benchmark"]
# Of both grids for ksg the one where coverage and warnings are in doubt comes first.
CLAIMS["information-benchmark"] = [BENCHMARKS[0], BENCHMARKS[2], BENCHMARKS[1]]
CLAIMS["bidirectional-reconstruction"][0]["steps"] = 4
# Every mode needs samples enough for a normal, with every seed.
CLAIMS["bidirectional-reconstruction"][0]["dataset"] = {**BLOBS, "train": 600}
UNTAUGHT = "networks of ten steps miss the truth, and are warned of, in all runs"
PLAIN = ("baseline", "dropout", "confidence-penalty", "label-smoothing")
NOT_GAUSSIAN = [
    f"{kind}-{encoder}" for kind in ("noise", "mine") for encoder in ("propagated", "additive")
]
NO_DENSITY = ("variational-noise", *NOT_GAUSSIAN)
# Rows that are compared with noise alone: the same encoder with beta = 0.
ALONE = ("variational", "mine-gaussian", "mine-propagated", "mine-additive")
CONDITIONAL = {
    # stacked MNIST, and images of as many modes
    "gan-modes": [
        "quoted",
        *(f"sure-{name}" for name in ("gan", "mine")),
        *(f"{key}-{n}" for key in ("modes", "sure") for n in ("noise", "permuted", "mean-of-two")),
    ],
    # structural similarity is of images
    "bidirectional-reconstruction": ["ms-ssim-alice-l2", "ms-ssim-mine"],
    # encoders without noise have no finite information, and only Gaussian ones a density
    "information-bottleneck": [
        *(f"information-{row}" for row in (*PLAIN, *NOT_GAUSSIAN)),
        *(f"information-density-{row}" for row in (*PLAIN, *NO_DENSITY)),
        *(f"information-lower-{row}" for row in PLAIN),
        "error-against-baseline-baseline",
        "error-against-variational-variational",
        *(f"error-against-noise-{row}" for row in ROWS if row not in ALONE),
        *(f"information-against-noise-{row}" for row in ROWS if row not in ALONE[:2]),
    ],
}


# Independent pairs, and networks that have learnt nothing.
PLAIN_GAUSSIAN = {"name": "gaussian", "shuffles": 3}
UNTRAINED_GAN = {**GAN, "steps": 1, "learning_rate": 1e-8}
NO_EFFECT = {
    "mutual-information": {
        "dataset": {**PAIRS, "rho": 0.0},
        "estimators": {
            "mutual-information": [{"name": "ksg", "subsets": 4}, PLAIN_GAUSSIAN, BRIEF]
        },
    },
    "information-benchmark": {
        "grid": [0.0],
        "samples": 100,
        "repeats": 3,
        "estimators": {"mutual-information": [{"name": "ksg", "subsets": 4}, PLAIN_GAUSSIAN]},
    },
    "gan-modes": {"dataset": {**BLOBS, "train": 600}, **UNTRAINED_GAN},
    "bidirectional-reconstruction": {
        "dataset": BLOBS,
        **UNTRAINED_GAN,
        "variants": ["ali", "mine"],
        "classifier_steps": 2,
    },
    "information-bottleneck": {
        "dataset": BLOBS,
        "widths": [16],
        "code": 4,
        "statistics_width": 16,
        "epochs": 0,
        "trainings": 2,
        "rows": ["baseline", "noise-gaussian", "mine-gaussian"],
        "code_draws": 2,
        "estimators": {"mutual-information": PLAIN_GAUSSIAN},
    },
}
OF_THE_DATA = "the null is the data, which an untrained generator is far from"
EFFECTS = {
    "gan-modes": dict.fromkeys(
        [f"{key}-{name}" for key in ("modes", "modes-seen") for name in ("gan", "mine")],
        OF_THE_DATA,
    ),
    "information-bottleneck": dict.fromkeys(
        [f"information-lower-{row}" for row in ("noise-gaussian", "mine-gaussian")],
        "an untrained encoder passes on its input, and shuffled pairs do not",
    ),
}

test_conforms = testing.conformance(
    "penchant-mine",
    small=SMALL,
    own={
        "mutual-information": {
            "architecture": {"name": "import", "factory": "penchant_testing:tiny_network"},
            "estimators": {"mutual-information": "gaussian"},
            "first": "layer:1",
            "second": "label",
        }
    },
    conditional=CONDITIONAL,
    no_effect=NO_EFFECT,
    effects=EFFECTS,
    claims=CLAIMS,
    unclaimed={"information-benchmark": {"coverage-mine": UNTAUGHT, "warned-mine": UNTAUGHT}},
    without_null={
        "information-benchmark": {"warned-*": "a warning is right or wrong, not a chance"},
        "gan-modes": {"*-uniform": "it is itself what no GAN at all gives"},
    },
)
