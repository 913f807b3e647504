"""Declaration of the probe on a delta peak, which has all frequencies."""

import attrs
import penchant

from penchant_spectral_bias.declarations.curves import (
    EMBEDDING,
    EMBEDDINGS,
    EVAL_EVERY,
    FAST,
    RECIPE,
)


@attrs.frozen
class PeakAblation(penchant.Probe):
    """Spectrum learnt from a delta peak, for several bounds on the parameters.

    A peak has the same amplitude at every frequency. `weight_clips` are the bounds: each parameter
    is clamped after every step. To compare depths and widths, list several architectures and
    compare `reach`. If the network is a chain of linear layers and ReLUs, the probe also reports
    the exact Lipschitz constant and the number of linear pieces.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 7.
    """

    name = "peak-ablation"
    example = "penchant probe peak-ablation -a 'mlp:widths=[32,32,32]' --shape 1"
    question = (
        "Do depth, width and the size of weights limit the frequencies that a network can fit?"
    )
    target = "penchant_spectral_bias.peak_ablation.probe:run"
    figures = "penchant_spectral_bias.peak_ablation.figures:draw"
    needs = ("architecture", "training", "continuous-inputs")
    uses = ("peak",)
    quantities = {
        "reach": "share of all frequencies of which at least half of the peak's wave is learnt at "
        "the end, at the loosest clip; null: before training",
        "clip-gain": "reach at the loosest clip minus that at the tightest",
        "lipschitz": "largest slope along the line at the end, at the loosest clip",
    }
    headline = penchant.Headline(
        "clip-gain",
        above="A looser bound on the parameters reaches more frequencies of the peak",
        below="A looser bound on the parameters reaches fewer frequencies of the peak",
        neither="The bound on the parameters makes no significant difference to the frequencies "
        "reached",
    )
    arrays = {
        "weight-clips": "bounds on every parameter; 0 is none",
        "steps": "training steps of the evaluations",
        "frequencies": "0 to half the samples",
        "prediction": "of the first training (clips x steps x samples)",
        "target": "the peak (samples)",
    }
    tables = {
        "amplitude[clip, step, frequency]": "|DFT| / N of the learnt function, mean over trainings",
        "learnt-share[clip, step, frequency]": "projection on the peak's wave over its square, mean"
        " over trainings",
        "loss[clip, step]": "mean squared error, mean over trainings",
        "reach[clip]": "share of frequencies of which half is learnt at the end, mean",
        "lipschitz[clip]": "largest slope along the line at the end, mean",
        "lipschitz-bound[clip]": "product of spectral norms at the end, mean; chains of linear "
        "layers and ReLUs only",
        "pieces[clip]": "linear pieces on the line at the end, mean; chains of linear layers and "
        "ReLUs only",
    }
    # experiment 7: depth and width are those of the example's architectures
    _PEAK = {
        "samples": 200,
        "trainings": 1,
        "eval_every": 500,
        "training": {**RECIPE, "steps": 60000},
    }
    presets = {
        "quick": {"training": {**FAST, "steps": 1500}},
        # the target, depth, width, and the clip: spectrum and prediction
        "fig-a-5": {**_PEAK, "weight_clips": (0.1, 0.15, 0.2, 2.0)},
        "fig-a-6": {**_PEAK, "weight_clips": (10.0,)},
        "fig-a-7": {**_PEAK, "weight_clips": (10.0,)},
        "fig-a-8": {**_PEAK, "weight_clips": (0.1, 0.15, 0.2, 2.0)},
        "fig-a-9": {**_PEAK, "weight_clips": (0.1, 0.15, 0.2, 2.0)},
    }

    samples: int = penchant.option(64, "training samples on the line", at_least=4)
    weight_clips: tuple[float, ...] = penchant.option(
        (0.2, 2.0), "bounds on every parameter, one after another; 0: no bound", at_least=0
    )
    trainings: int = penchant.option(3, "trainings for every clip", at_least=1)
    eval_every: int = penchant.option(50, EVAL_EVERY, at_least=1)
    embedding: str = penchant.option("random", EMBEDDING, choices=EMBEDDINGS)

    def __attrs_post_init__(self) -> None:
        if len(set(self.weight_clips)) < len(self.weight_clips):
            raise penchant.Error(f"weight_clips must differ, found {list(self.weight_clips)}")
        if not self.weight_clips:
            raise penchant.Error(
                "weight_clips must name at least one bound (0 is none), found none"
            )
