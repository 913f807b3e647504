"""Declarations of the probes on datasets: noise in targets, kernels, manifolds of images."""

from __future__ import annotations

import attrs
import penchant

ADAM = {"optimizer": "adam", "loss": "squared-error"}
# The thesis fits targets on images by full-batch Adam.
FULL = {**ADAM, "batch": 0}

PAIR = "the two classes"
LOOKS = "steps between two looks at the network"


@attrs.frozen
class TargetNoise(penchant.Probe):
    """What noise of low and of high frequency in its targets does to a network's validation loss.

    Two classes of a dataset are regressed as 0 and 1 plus amplitude times sin(2 pi k |x|), a radial
    wave; validation is on clean targets of test samples. A network picks up slow noise at once and
    fast noise late, so that its best validation suffers from the slow one. The null deals the same
    noise values to other samples: then they have no frequency.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 3. The
    paper prints sin(k |x|), with which none of its frequencies is high; k is in cycles here.
    """

    name = "target-noise"
    example = "penchant probe target-noise -a 'mlp:widths=[256,256,256,256,256]' -d mnist"
    question = "Which does more harm: noise of low or of high frequency in the targets?"
    target = "penchant_spectral_bias.probes.target_noise:run"
    figures = "penchant_spectral_bias.figures.target_noise:draw"
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    quantities = {
        "low-minus-high": "best validation loss with the lowest minus that with the highest "
        "frequency, largest amplitude; null: the same noise dealt to other samples",
        "excess-low": "best validation loss with the lowest frequency minus that without noise",
        "excess-high": "best validation loss with the highest frequency minus that without noise",
        "clean-best-loss": "best validation loss without noise; null: the variance of the targets",
    }
    arrays = {
        "frequencies": "of the noise, cycles per unit of length",
        "amplitudes": "of the noise",
        "steps": "at which the network was looked at",
        "validation-loss": "on clean targets of test samples (amplitudes x frequencies x steps), "
        "mean over trainings",
        "training-loss": "on noisy targets (amplitudes x frequencies x steps), mean",
        "clean-validation-loss": "validation loss without noise (steps)",
        "clean-training-loss": "training loss without noise (steps)",
        "best-loss": "smallest validation loss over steps (amplitudes x frequencies), mean",
        "shuffled-best-loss": "the same with noise values dealt to other samples",
    }
    # experiment 3: all samples of two digits
    _CURVES = {
        "noise_frequencies": (0.05, 0.1, 0.2, 0.5),
        "noise_amplitudes": (0.25, 0.5, 0.75, 1.0),
        "samples": None,
        "test_samples": None,
        "trainings": 5,
        "eval_every": 50,
        "training": {**FULL, "learning_rate": 1e-4, "steps": 10000},
    }
    presets = {
        "quick": {"training": {**ADAM, "batch": 128, "learning_rate": 5e-4, "steps": 120}},
        "fig-3-4": _CURVES,
        "fig-a-2": _CURVES,
    }

    chosen_classes: tuple[int, ...] = penchant.option((3, 8), PAIR, at_least=0)
    noise_frequencies: tuple[float, ...] = penchant.option(
        (0.05, 0.5), "of the noise, cycles per unit of length", at_least=0
    )
    noise_amplitudes: tuple[float, ...] = penchant.option((1.0,), "of the noise", above=0)
    samples: int | None = penchant.option(
        500, "training samples, both classes together; nothing: all", at_least=2
    )
    test_samples: int | None = penchant.option(
        500, "test samples, both classes together; nothing: all", at_least=2
    )
    trainings: int = penchant.option(5, "trainings, each on samples of its own", at_least=1)
    eval_every: int = penchant.option(10, LOOKS, at_least=1)

    def __attrs_post_init__(self) -> None:
        if not self.noise_frequencies or not self.noise_amplitudes:
            raise penchant.Error(
                "target-noise needs at least one frequency and one amplitude, found none"
            )


@attrs.frozen
class KernelSpectrum(penchant.Probe):
    """A training seen in the eigenvectors of a Gaussian kernel, the later the faster varying.

    Two classes are regressed as 0 and 1 plus noise that grows with the number of the eigenvector.
    The clean target is learnt first: validation on it dips, and rises when the noise of late
    eigenvectors follows. Noise that grows with the number makes an order in any basis, so that the
    null is the same training in random orthonormal bases. The kernel's width must fit the distances
    between inputs; where the kernel is close to the identity the probe warns.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 4.
    """

    name = "kernel-spectrum"
    example = "penchant probe kernel-spectrum -a 'mlp:widths=[256,256,256,256,256]' -d mnist"
    question = "Does training fit slowly varying parts of its target before fast ones?"
    target = "penchant_spectral_bias.probes.kernel_spectrum:run"
    figures = "penchant_spectral_bias.figures.kernel_spectrum:draw"
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    quantities = {
        "rank-correlation": "of minus the learnt share of the target, averaged over training, with "
        "the eigenvector, mean over trainings; null: the same in random bases",
        "dip": "final minus smallest loss on the clean target; null: in random bases",
        "dip-step": "step of the smallest loss on the clean target",
        "noise-at-dip": "share of the noise that is learnt at that step; null: in random bases",
        "noise-at-end": "share of the noise that is learnt at the end; null: in random bases",
        "grid-slope": "cycles of an eigenvector on 50 equidistant points by its number, about 1/2; "
        "null: in random bases",
        "effective-rank": "of the kernel matrix; close to the number of samples where the kernel "
        "is too narrow, which is the null",
    }
    arrays = {
        "steps": "at which the network was looked at",
        "eigenvectors": "middle of each bin of eigenvectors",
        "coefficients": "root mean square of the network's in a bin (steps x bins), mean",
        "clean-coefficients": "the same of the clean target (bins)",
        "noisy-coefficients": "the same of the noisy target (bins)",
        "learnt-target": "share of the noisy target that is learnt in a bin (steps x bins), mean",
        "random-learnt-target": "learnt-target in random bases (steps x bins), mean",
        "learnt-noise": "share of the whole noise that is learnt (steps), mean",
        "training-loss": "on the noisy target (steps)",
        "validation-loss": "on the clean target (steps)",
        "eigenvalues": "of the kernel matrix, descending",
        "grid-eigenvectors": "on 50 equidistant points (eigenvectors x points)",
        "grid-spectrum": "|DFT| / sqrt(N) of these (eigenvectors x frequencies)",
    }
    # experiment 4: the thesis's kernel is so narrow on pixels that the probe warns of it
    _NOISE = {
        "samples": 2000,
        "kernel_width": 1.8,
        "bins": 50,
        "trainings": 1,
        "eval_every": 50,
        "training": {**FULL, "learning_rate": 1e-4, "steps": 5000},
    }
    # eigenvectors on a line need no training: one step
    _GRID = {
        "samples": 50,
        "trainings": 1,
        "bins": 10,
        "eval_every": 1,
        "training": {**FULL, "learning_rate": 1e-4, "steps": 1},
    }
    presets = {
        "quick": {"training": {**FULL, "learning_rate": 3e-4, "steps": 200}},
        "fig-3-5": _NOISE,
        "fig-3-6": _GRID,
        "fig-a-3": _GRID,
        "fig-a-4": _NOISE,
    }

    chosen_classes: tuple[int, ...] = penchant.option((3, 8), PAIR, at_least=0)
    samples: int = penchant.option(400, "training samples, both classes together", at_least=8)
    kernel_width: float = penchant.option(
        8.0, "sigma of the kernel exp(-|x - y|^2 / sigma^2)", above=0
    )
    noise_scale: float = penchant.option(1.0, "factor of the noise", above=0)
    power: float = penchant.option(2.0, "the noise on eigenvector n is (n / N)^power", at_least=0)
    bins: int = penchant.option(20, "bins of eigenvectors", at_least=3)
    trainings: int = penchant.option(
        3, "trainings, each on samples and with signs of the noise of its own", at_least=1
    )
    random_bases: int = penchant.option(
        4, "trainings of the null, each in a random orthonormal basis of its own", at_least=2
    )
    eval_every: int = penchant.option(10, LOOKS, at_least=1)
    grid_kernel_width: float = penchant.option(
        0.04, "sigma of the kernel on 50 equidistant points of [0, 1]", above=0
    )


@attrs.frozen
class NoiseOnManifold(penchant.Probe):
    """Is white noise easier to learn on a manifold of images than on a plane of its dimension?

    Targets are independent uniform numbers. Inputs are the reconstructions of a denoising
    autoencoder with so many features, or uniform vectors with as many values that are not zero.
    Inputs that are shorter, or nearer to each other, are another task: the plane has the mean
    square norm and the total variance of the images, and a normal cloud has their mean and
    covariance too. The plane as the paper has it is trained beside them.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 8.
    """

    name = "noise-on-manifold"
    example = "penchant probe noise-on-manifold -a 'mlp:widths=[256,256,256]' -d mnist"
    question = (
        "Is white noise easier to learn on a manifold of images than on a plane of its dimension?"
    )
    target = "penchant_spectral_bias.probes.noise_on_manifold:run"
    figures = "penchant_spectral_bias.figures.noise_on_manifold:draw"
    needs = ("architecture", "dataset", "training", "continuous-inputs")
    quantities = {
        "manifold-minus-plane": "final loss on the images' manifold minus that on the plane with "
        "the images' mean square norm and total variance",
        "manifold-minus-normal": "the same for normal inputs with the images' mean and covariance",
        "manifold-minus-unscaled-plane": "the same for the plane as the paper has it",
        "manifold-loss": "final loss on the images' manifold; null: the variance of the targets",
        "plane-loss": "final loss on the plane; null: the variance of the targets",
        "normal-loss": "final loss on the normal cloud; null: the variance of the targets",
        "unscaled-plane-loss": "final loss on the plane as the paper has it; null as above",
        "norm-ratio": "length of the images over that of inputs on the unscaled plane; null: 1",
        "reconstruction-error": "mean squared error of the autoencoder; null: the images' variance",
    }
    arrays = {
        "steps": "at which the network was looked at",
        "manifold-loss": "on the images' manifold (steps), mean over trainings",
        "plane-loss": "on the plane, inputs as long and spread as the images (steps), mean",
        "normal-loss": "on the normal cloud with the images' mean and covariance (steps), mean",
        "unscaled-plane-loss": "on the plane as the paper has it (steps), mean",
        "reconstruction-error": "of the autoencoder, by training",
    }
    presets = {
        "quick": {"training": {**FULL, "learning_rate": 3e-4, "steps": 250}},
        # experiment 8
        "fig-a-10": {
            "samples": 10000,
            "trainings": 10,
            "encoder_width": 512,
            "encoder_steps": 20000,
            "eval_every": 100,
            "training": {**FULL, "learning_rate": 3e-4, "steps": 50000},
        },
    }

    samples: int = penchant.option(300, "training samples", at_least=2)
    features: int = penchant.option(
        64, "features of the autoencoder, and dimensions of the plane", at_least=1
    )
    trainings: int = penchant.option(
        3, "trainings, each with samples, targets and an autoencoder of its own", at_least=1
    )
    eval_every: int = penchant.option(10, LOOKS, at_least=1)
    # The autoencoder, which is trained by a loop of its own.
    encoder_width: int = penchant.option(256, "hidden units of encoder and decoder", at_least=1)
    encoder_noise: float = penchant.option(
        0.2, "standard deviation of the noise that the autoencoder takes off", at_least=0
    )
    encoder_steps: int = penchant.option(300, "training steps of the autoencoder", at_least=1)
    encoder_batch: int = penchant.option(128, "samples a step of the autoencoder", at_least=1)
    encoder_learning_rate: float = penchant.option(
        1e-3, "learning rate of the autoencoder (Adam)", above=0
    )
