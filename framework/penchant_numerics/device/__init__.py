"""What a device and torch can do: memory, precision, determinism, isolation, safe networks."""

from penchant_numerics.device.compilation import compiled, compiling
from penchant_numerics.device.derivative_trials import (
    KINK,
    SAMPLES,
    SECOND,
    TRIALS,
    problem_of,
    random_points,
    shortened,
    why_not,
)
from penchant_numerics.device.determinism import check_deterministic
from penchant_numerics.device.isolation import limited_threads, without_torchs_own_warnings
from penchant_numerics.device.peak_memory import LiveBytes
from penchant_numerics.device.precision import (
    HOST,
    TensorOptions,
    accumulation_dtype,
    agreement,
    training_cast,
)
from penchant_numerics.device.safety import calibrate, plain_kernels, safe
from penchant_numerics.device.sample_bytes import batch_size, fitting_batch
from penchant_numerics.device.suitability import (
    UnsuitableNetworkError,
    check_evaluated,
    check_function,
    check_kind,
    check_values,
    unwrapped,
    use_dense_gradients,
)
from penchant_numerics.device.vectorisation import lacks_batching, warn_not_vectorised

__all__ = [
    "HOST",
    "KINK",
    "LiveBytes",
    "SAMPLES",
    "SECOND",
    "TRIALS",
    "TensorOptions",
    "UnsuitableNetworkError",
    "accumulation_dtype",
    "agreement",
    "batch_size",
    "calibrate",
    "check_deterministic",
    "check_evaluated",
    "check_function",
    "check_kind",
    "check_values",
    "compiled",
    "compiling",
    "fitting_batch",
    "lacks_batching",
    "limited_threads",
    "plain_kernels",
    "problem_of",
    "random_points",
    "safe",
    "shortened",
    "training_cast",
    "unwrapped",
    "use_dense_gradients",
    "warn_not_vectorised",
    "why_not",
    "without_torchs_own_warnings",
]
