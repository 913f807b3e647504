r"""Differences that are stored as factors: LoRA's, as peft writes them.

The difference of a linear layer is $s B A$ with $s = \alpha / r$, or $\alpha / \sqrt r$ in the
rank-stabilised variant; r is the number of rows of A. Of a convolution A has the window, and B is
1 x 1; of an embedding the product is transposed.

References: Hu et al., LoRA, ICLR 2022; Kalajdzievski, A rank stabilization scaling factor for
fine-tuning with LoRA, 2023.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from penchant_numerics import Refusal
from torch import Tensor

from penchant_weights.weight_spectra.stored_tensors import StoredTensor

_PREFIX = "base_model.model."  # what peft puts before the names of the base
# module.lora_A.weight, or module.lora_A.default.weight with the name of the adapter
_FACTOR = re.compile(r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<which>[AB])(\..+)?")
_SAVED_WHOLE = re.compile(r"\.modules_to_save(\.[^.]+)?\.")
_BIAS = ".bias"
_MAGNITUDE = "lora_magnitude_vector"
_PLAIN = re.compile(r"[\w.-]+")


def multiplied_out(
    stored: Mapping[str, StoredTensor], config: Mapping[str, Any] | None
) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """Products of factors by the names of the base, and what a file has besides factors.

    Args:
        stored: What a file has.
        config: The table of `adapter_config.json`; without it, factors are not scaled.

    Returns:
        Differences by the names of the base, and whole tensors by the names of the base.

    Raises:
        Refusal: Where a factor lacks the other, or their shapes do not fit.
    """
    pairs: dict[tuple[str, bool], dict[str, StoredTensor]] = {}
    whole = {}
    for name, tensor in stored.items():
        if _MAGNITUDE in name:
            raise Refusal(
                f"{name} belongs to a variant of LoRA whose difference is not a product of two "
                "factors: merge the adapter into the network, and give the merged file"
            )
        factor = _FACTOR.fullmatch(name)
        if factor is None:
            own = _SAVED_WHOLE.sub(".", name)
            whole[own.removeprefix(_PREFIX)] = tensor
        elif not name.endswith(_BIAS):
            key = factor["module"].removeprefix(_PREFIX), bool(factor["embedding"])
            if factor["which"] in pairs.setdefault(key, {}):
                raise Refusal(f"{key[0]} has several adapters, expected one: keep one in a file")
            pairs[key][factor["which"]] = tensor
    products = {}
    for (module, of_embedding), factors in pairs.items():
        if len(factors) != 2:
            raise Refusal(f"{module} has lora_{next(iter(factors))}, but not the other factor")
        scale = _scale(module, factors["A"].shape[0], config or {})
        products[f"{module}.weight"] = _product(
            module,
            factors["A"],
            factors["B"],
            scale,
            transposed=of_embedding or bool((config or {}).get("fan_in_fan_out")),
        )
    return products, whole


def _scale(module: str, rank: int, config: Mapping[str, Any]) -> float:
    """By how much the product is scaled; 1 where no configuration says so."""
    alpha = config.get("lora_alpha")
    for pattern, own in (config.get("alpha_pattern") or {}).items():
        # A name, or its end. Expressions of strangers are not run: some never end.
        if not _PLAIN.fullmatch(pattern):
            raise Refusal(
                f"alpha_pattern has the expression {pattern!r}, expected names of modules: merge "
                "the adapter into the network, and give the merged file"
            )
        if module == pattern or module.endswith(f".{pattern}"):
            alpha = own
            break
    if alpha is None:
        return 1.0
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _product(
    module: str, A: StoredTensor, B: StoredTensor, scale: float, *, transposed: bool
) -> StoredTensor:
    """The product of two factors, made when it is read."""
    fits = len(A.shape) >= 2 and len(B.shape) >= 2 and B.shape[1] == A.shape[0]
    if not fits or any(side != 1 for side in B.shape[2:]):
        raise Refusal(
            f"the factors of {module} must be (rank, inputs) and (outputs, rank), found "
            f"{A.shape} and {B.shape}"
        )
    shape = (B.shape[0], *A.shape[1:])
    if transposed:
        shape = (A.shape[1], B.shape[0])
    read = functools.partial(_multiplied, A, B, scale, shape, transposed)
    return StoredTensor(shape, A.is_floating_point and B.is_floating_point, read)


def _multiplied(
    A: StoredTensor, B: StoredTensor, scale: float, shape: tuple[int, ...], transposed: bool
) -> Tensor:
    first, second = A.read().double().flatten(1), B.read().double().flatten(1)
    product = scale * (second @ first)
    return product.T if transposed else product.reshape(shape)
