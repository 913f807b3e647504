"""Declaration of the exact Fourier analysis of networks at initialisation."""

import attrs
import penchant


@attrs.frozen
class ExactSpectrum(penchant.Probe):
    r"""Exact Fourier transform of fresh ReLU networks, from their linear pieces.

    Along a segment, theory predicts that the spectrum decays like $k^{-2}$, its gradient with
    respect to the parameters like $k^{-1}$, and the initial learning rate of a single frequency at
    least as fast as $k^{-1}$. In the plane (`--shape 2`, `regions`) the spectrum decays like
    $k^{-3}$ along generic directions and like $k^{-2}$ along the normal of the face with the
    strongest bend. The probe also reports the number of pieces, the exact Lipschitz constant with
    two bounds, and the share of parameters in a box that have high frequencies. A network that is
    not a chain of linear layers and ReLUs is approximated as linear between close samples.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, lemma 3.1 (whose
    sign is wrong), theorem 3.3, appendices A.3 (propositions A.2 and A.3) and A.4.
    """

    name = "exact-spectrum"
    example = "penchant probe exact-spectrum -a 'mlp:widths=[32,32]' --shape 1"
    question = "How fast does the spectrum of a ReLU network decay before training?"
    target = "penchant_spectral_bias.exact_spectrum.probe:run"
    figures = "penchant_spectral_bias.exact_spectrum.figures:draw"
    needs = ("architecture", "continuous-inputs")
    quantities = {
        "pieces": "linear pieces along the segment",
        "lipschitz": "largest slope along the segment",
        "lipschitz-bound": "product of the spectral norms of all layers",
        "max-norm-bound": "largest weight to the power of the layers, times the root of the "
        "product of their sizes",
        "decay": "exponent of the spectrum along the segment, upper frequencies; -2 in the limit",
        "gradient-decay": "exponent of the parameter gradient of the spectrum; -1 in the limit",
        "rate-decay": "exponent of the rate at which gradient descent begins to learn a single "
        "frequency; at most -1 in the limit",
        "regions": "linear regions in [-1, 1]^2",
        "plane-lipschitz": "largest gradient in [-1, 1]^2",
        "generic-decay": "exponent of the spectrum along a generic direction of the plane, from "
        "|k| = 1e4 to 1e7; -3 in the limit",
        "face-decay": "exponent along the normal of the face with the strongest bend, in the same "
        "range; -2 in the limit",
        "high-frequency-share": "share of parameters with an amplitude above epsilon at the "
        "cut-off or beyond",
    }
    arrays = {
        "frequencies": "whole cycles on the segment",
        "gradient-frequencies": "whole cycles at which the gradient was taken",
        "plane-frequencies": "|k| in the plane: the middle of windows of its logarithm",
    }
    tables = {
        "amplitude[frequency]": "absolute value of the transform, mean over networks",
        "gradient-norm[gradient-frequency]": "length of the transform's gradient with respect to "
        "all parameters, mean",
        "learning-rate[gradient-frequency]": "at which gradient descent begins to learn this "
        "frequency alone, mean",
        "generic-amplitude[plane-frequency]": "root mean square of the transform in a window, along"
        " a generic direction, mean over networks",
        "face-amplitude[plane-frequency]": "the same along the normal of the face with the "
        "strongest bend",
        "share[frequency]": "of parameters with an amplitude above epsilon at a frequency or "
        "beyond",
    }
    presets = {
        "quick": {"networks": 16, "box_networks": 64},
        "theorem-3-3": {"networks": 100, "cycles": 2000, "regions": True, "box_networks": 0},
        "appendix-a-4": {"networks": 16, "box_networks": 2000, "gradients": 0},
    }

    # Fresh networks.
    networks: int = penchant.option(16, "fresh networks", at_least=1)
    cycles: int = penchant.option(400, "largest frequency, cycles on the segment", at_least=16)
    gradients: int = penchant.option(
        24, "frequencies at which the parameter gradient is taken", at_least=0
    )
    regions: bool = penchant.option(
        False, "split the plane into linear regions (two inputs, small networks)"
    )
    # Parameters from a box (appendix A.4).
    box_networks: int = penchant.option(
        64, "networks with random parameters in the box", at_least=0
    )
    clip: float = penchant.option(1.0, "the box: every parameter uniform in [-clip, clip]", above=0)
    epsilon: float = penchant.option(
        0.01, "amplitude that counts, relative to the median largest one", above=0
    )
