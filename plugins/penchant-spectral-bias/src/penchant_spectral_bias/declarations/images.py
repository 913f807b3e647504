"""Declarations of the probes on datasets: noise in targets, kernels, manifolds of images."""

import attrs
import penchant

ADAM = {"optimizer": "adam", "loss": "squared-error"}
# The thesis fits targets on images by full-batch Adam.
FULL = {**ADAM, "batch": 0}

PAIR = "the two classes"
EVAL_EVERY = "training steps between evaluations"


@attrs.frozen
class TargetNoise(penchant.Probe):
    r"""Validation loss after training on targets with noise of low or of high frequency.

    Two classes of a dataset are regressed as 0 and 1 plus noise $A \sin(2 \pi k |x|)$, a radial
    wave of amplitude $A$. Validation uses clean targets of test samples. If low frequencies are
    learnt first, low-frequency noise raises the best validation loss more than high-frequency
    noise. In the null, the same noise values are randomly permuted among samples.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 3. The
    paper prints sin(k |x|), with which none of its frequencies is high; k is in cycles here.
    """

    name = "target-noise"
    example = "penchant probe target-noise -a 'mlp:widths=[256,256,256,256,256]' -d mnist"
    question = "Does low-frequency noise in the targets hurt more than high-frequency noise?"
    target = "penchant_spectral_bias.target_noise.probe:run"
    figures = "penchant_spectral_bias.target_noise.figures:draw"
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    quantities = {
        "low-minus-high": "best validation loss with the lowest minus that with the highest "
        "frequency, largest amplitude; null: the same noise, permuted among samples",
        "excess-low": "best validation loss with the lowest frequency minus that without noise",
        "excess-high": "best validation loss with the highest frequency minus that without noise",
        "clean-best-loss": "best validation loss without noise; null: best constant prediction",
    }
    headline = penchant.Headline(
        "low-minus-high",
        above="Low-frequency noise in the targets hurts more",
        below="High-frequency noise in the targets hurts more",
        neither="No significant difference between noise of low and of high frequency",
    )
    tables = {
        "validation-loss[amplitude, frequency, step]": "on clean targets of test samples, mean",
        "training-loss[amplitude, frequency, step]": "on noisy targets, mean",
        "clean-validation-loss[step]": "validation loss without noise",
        "clean-training-loss[step]": "training loss without noise",
        "best-loss[amplitude, frequency]": "smallest validation loss over steps, mean",
        "shuffled-best-loss[amplitude, frequency]": "the same with noise values permuted among "
        "samples",
    }
    arrays = {
        "frequencies": "of the noise, cycles per unit of length",
        "amplitudes": "of the noise",
        "steps": "training steps of the evaluations",
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
        500, "training samples, both classes together; None: all", at_least=2
    )
    test_samples: int | None = penchant.option(
        500, "test samples, both classes together; None: all", at_least=2
    )
    trainings: int = penchant.option(5, "trainings, each on its own samples", at_least=1)
    eval_every: int = penchant.option(10, EVAL_EVERY, at_least=1)

    def __attrs_post_init__(self) -> None:
        if not self.noise_frequencies or not self.noise_amplitudes:
            raise penchant.Error(
                "target-noise needs at least one frequency and one amplitude, found none"
            )


@attrs.frozen
class KernelSpectrum(penchant.Probe):
    """Training in the eigenbasis of a Gaussian kernel, from slowly to rapidly varying.

    Two classes are regressed as 0 and 1 plus noise that grows with the index of the eigenvector. If
    slowly varying components are learnt first, the loss on the clean target has a minimum and rises
    again when the noise is learnt. Noise that grows with the index produces an order in any basis,
    so the null is the same training in random orthonormal bases. The width of the kernel must fit
    the distances between inputs; the probe warns if the kernel is close to the identity.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 4.
    """

    name = "kernel-spectrum"
    example = "penchant probe kernel-spectrum -a 'mlp:widths=[256,256,256,256,256]' -d mnist"
    question = "Does a network learn slowly varying components of its target first?"
    target = "penchant_spectral_bias.kernel_spectrum.probe:run"
    figures = "penchant_spectral_bias.kernel_spectrum.figures:draw"
    needs = ("architecture", "dataset", "training", "classes", "continuous-inputs")
    quantities = {
        "rank-correlation": "of minus the learnt share of the target, averaged over training, with "
        "the eigenvector, mean over trainings; null: the same in random bases",
        "dip": "final minus smallest loss on the clean target; null: in random bases",
        "dip-step": "step of the smallest loss on the clean target",
        "noise-at-dip": "share of the noise that is learnt at that step; null: in random bases",
        "noise-at-end": "share of the noise that is learnt at the end; null: in random bases",
        "grid-slope": "cycles of an eigenvector on 50 equidistant points per index, about 1/2; "
        "null: in random bases",
        "effective-rank": "of the kernel matrix; null: the number of samples, which it "
        "approaches if the kernel is too narrow",
    }
    headline = penchant.Headline(
        "rank-correlation",
        above="Slow components of the target are learnt first, more than in a random basis",
        below="Slow components of the target are learnt first less than in a random basis",
        neither="The order in which components of the target are learnt does not differ "
        "significantly from that of a random basis",
    )
    arrays = {
        "steps": "training steps of the evaluations",
        "eigenvectors": "middle of each bin of eigenvectors",
        "grid-eigenvectors": "on 50 equidistant points (eigenvectors x points)",
        "grid-spectrum": "|DFT| / sqrt(N) of these (eigenvectors x frequencies)",
    }
    tables = {
        "coefficients[step, eigenvector]": "root mean square of the network's in a bin, mean",
        "clean-coefficients[eigenvector]": "the same of the clean target",
        "noisy-coefficients[eigenvector]": "the same of the noisy target",
        "learnt-target[step, eigenvector]": "share of the noisy target that is learnt in a bin, "
        "mean",
        "random-learnt-target[step, eigenvector]": "learnt-target in random bases, mean",
        "learnt-noise[step]": "share of the whole noise that is learnt, mean",
        "training-loss[step]": "on the noisy target",
        "validation-loss[step]": "on the clean target",
        "eigenvalues[number]": "of the kernel matrix, descending",
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
    power: float = penchant.option(2.0, "the noise on eigenvector n is (n / N)^power", at_least=0)
    bins: int = penchant.option(20, "bins of eigenvectors", at_least=3)
    trainings: int = penchant.option(
        3, "trainings, each with its own samples and signs of the noise", at_least=1
    )
    random_bases: int = penchant.option(
        4, "trainings of the null, each in its own random orthonormal basis", at_least=2
    )
    eval_every: int = penchant.option(10, EVAL_EVERY, at_least=1)
    grid_kernel_width: float = penchant.option(
        0.04, "sigma of the kernel on 50 equidistant points of [0, 1]", above=0
    )


@attrs.frozen
class NoiseOnManifold(penchant.Probe):
    """Final loss on random targets, for inputs on a manifold of images and on a plane.

    Targets are independent uniform numbers. Inputs are the reconstructions of a denoising
    autoencoder with `features` features, or uniform vectors with as many non-zero values. Shorter
    inputs, or inputs nearer to each other, would make a different task. So the plane has the mean
    square norm and the total variance of the images, and a normal cloud has their mean and
    covariance. The plane of the paper is trained as well.

    Reference: Rahaman et al., On the Spectral Bias of Neural Networks, ICML 2019, experiment 8.
    """

    name = "noise-on-manifold"
    example = "penchant probe noise-on-manifold -a 'mlp:widths=[256,256,256]' -d mnist"
    question = (
        "Is white noise easier to learn on a manifold of images than on a plane of its dimension?"
    )
    target = "penchant_spectral_bias.noise_on_manifold.probe:run"
    figures = "penchant_spectral_bias.noise_on_manifold.figures:draw"
    needs = ("architecture", "dataset", "training", "continuous-inputs")
    quantities = {
        "manifold-minus-plane": "final loss on the images' manifold minus that on the plane with "
        "the images' mean square norm and total variance",
        "manifold-minus-normal": "the same for normal inputs with the images' mean and covariance",
        "manifold-minus-unscaled-plane": "the same for the plane of the paper",
        "manifold-loss": "final loss on the images' manifold; null: best constant prediction",
        "plane-loss": "final loss on the plane; null: best constant prediction",
        "normal-loss": "final loss on the normal cloud; null: best constant prediction",
        "unscaled-plane-loss": "final loss on the plane of the paper; null: best constant "
        "prediction",
        "norm-ratio": "length of the images over that of inputs on the unscaled plane; null: 1",
        "reconstruction-error": "mean squared error of the autoencoder; null: the images' variance",
    }
    headline = penchant.Headline(
        "manifold-minus-plane",
        above="Noise is harder to learn on the images than on a plane with the same norm and "
        "variance",
        below="Noise is easier to learn on the images than on a plane with the same norm and "
        "variance",
        neither="No significant difference between the images and a plane with the same norm and "
        "spread",
    )
    tables = {
        "manifold-loss[step]": "on the images' manifold, mean over trainings",
        "plane-loss[step]": "on the plane with the images' norm and variance, mean",
        "normal-loss[step]": "on the normal cloud with the images' mean and covariance, mean",
        "unscaled-plane-loss[step]": "on the plane of the paper, mean",
    }
    arrays = {
        "steps": "training steps of the evaluations",
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
        3, "trainings, each with its own samples, targets and autoencoder", at_least=1
    )
    eval_every: int = penchant.option(10, EVAL_EVERY, at_least=1)
    # The autoencoder, which has its own training loop.
    encoder_width: int = penchant.option(256, "hidden units of encoder and decoder", at_least=1)
    encoder_steps: int = penchant.option(300, "training steps of the autoencoder", at_least=1)
