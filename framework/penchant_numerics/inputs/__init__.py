"""Derivatives in the inputs: moments, mixed derivatives, frequencies, noise."""

from penchant_numerics.inputs.correlation import (
    Corr,
    RotatedCorr,
    corr_of_sampled,
    corr_with_fixed,
    distinct_mean,
    jackknifed,
    rotated,
    rotated_corr_of_means,
    unbiased_square,
)
from penchant_numerics.inputs.derivatives import (
    chunk_size,
    finite_differences,
    first_output,
    impulse_responses,
    input_gradients,
)
from penchant_numerics.inputs.equal_groups import left_out_spectra
from penchant_numerics.inputs.fourier import cosine_family, layout, sine_family
from penchant_numerics.inputs.mixed import MixedDerivative
from penchant_numerics.inputs.mixed_factors import State
from penchant_numerics.inputs.moments import (
    GroupedMoment,
    SecondMoment,
    directions_of,
    effective_rank,
    isotropic_spectra,
)
from penchant_numerics.inputs.noise import normal
from penchant_numerics.inputs.row_moments import (
    by_rows,
    directions_of_rows,
    eigenpairs,
    gram,
    group_products,
    spectrum,
)
from penchant_numerics.inputs.sample_input_gradients import (
    differentiated,
    directions_of_gradients,
    scrambled_phases,
    shuffled_pixels,
)

__all__ = [
    "Corr",
    "GroupedMoment",
    "MixedDerivative",
    "RotatedCorr",
    "SecondMoment",
    "State",
    "by_rows",
    "chunk_size",
    "corr_of_sampled",
    "corr_with_fixed",
    "cosine_family",
    "differentiated",
    "directions_of",
    "directions_of_gradients",
    "directions_of_rows",
    "distinct_mean",
    "effective_rank",
    "eigenpairs",
    "finite_differences",
    "first_output",
    "gram",
    "group_products",
    "impulse_responses",
    "input_gradients",
    "isotropic_spectra",
    "jackknifed",
    "layout",
    "left_out_spectra",
    "normal",
    "rotated",
    "rotated_corr_of_means",
    "scrambled_phases",
    "shuffled_pixels",
    "sine_family",
    "spectrum",
    "unbiased_square",
]
