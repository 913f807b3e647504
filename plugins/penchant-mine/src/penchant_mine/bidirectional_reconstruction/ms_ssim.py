"""Multi-scale structural similarity of two batches of images.

At every scale contrast and structure are compared in Gaussian windows, at the last one luminance
too; images are then halved. Five scales need sides above 160: smaller images get as many as leave a
full window, with the published weights of those, made to sum to 1.

Reference: Wang, Simoncelli, Bovik, "Multi-scale structural similarity for image quality
assessment", 2003.
"""

import torch
from penchant_numerics import Refusal
from torch import Tensor
from torch.nn import functional

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
WINDOW, SIGMA = 11, 1.5


def scales_for(side: int) -> int:
    """How many scales leave at least one full window at the smallest; 0 for smaller images."""
    scales = 0
    for scale in range(len(WEIGHTS)):
        if side // 2**scale >= WINDOW:
            scales += 1
    return scales


def ms_ssim(first: Tensor, second: Tensor, *, span: float) -> tuple[Tensor, int]:
    """Similarity of images, one by one.

    Args:
        first: Images (images, channels, height, width).
        second: As many.
        span: Of their values.

    Returns:
        Similarities (images,), and the number of scales.
    """
    height, width = first.shape[2:]
    scales = scales_for(min(height, width))
    if not scales:
        raise Refusal(f"expected images of at least {WINDOW} x {WINDOW}, found {height} x {width}")
    weights = torch.tensor(WEIGHTS[:scales], device=first.device, dtype=first.dtype)
    # Weights of the scales that fit, made to sum to 1.
    weights = weights / weights.sum()
    result = torch.ones(len(first), device=first.device, dtype=first.dtype)
    for scale in range(scales):
        luminance, structure = _ssim_factors(first, second, span)
        # Luminance is compared at the coarsest scale only.
        factor = luminance * structure if scale == scales - 1 else structure
        similarity = factor.flatten(1).mean(1).clamp(min=0)
        result = result * similarity ** weights[scale]
        first = functional.avg_pool2d(first, 2)
        second = functional.avg_pool2d(second, 2)
    return result, scales


def _ssim_factors(a: Tensor, b: Tensor, span: float) -> tuple[Tensor, Tensor]:
    # Constants that keep flat windows from dividing by 0.
    c1 = (0.01 * span) ** 2
    c2 = (0.03 * span) ** 2
    mean_a, mean_b = _blurred(a), _blurred(b)
    square_a, square_b = mean_a**2, mean_b**2
    # Moments within every window.
    var_a = _blurred(a * a) - square_a
    var_b = _blurred(b * b) - square_b
    covariance = _blurred(a * b) - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + c1) / (square_a + square_b + c1)
    structure = (2 * covariance + c2) / (var_a + var_b + c2)
    return luminance, structure


def _blurred(images: Tensor) -> Tensor:
    """Gaussian windows that lie inside the image, channel by channel."""
    channels = images.shape[1]
    positions = torch.arange(WINDOW, device=images.device, dtype=images.dtype)
    offsets = positions - (WINDOW - 1) / 2
    line = torch.exp(-offsets.square() / (2 * SIGMA**2))
    window = line[:, None] * line / line.sum() ** 2
    kernel = window.expand(channels, 1, -1, -1)
    return functional.conv2d(images, kernel, groups=channels)
