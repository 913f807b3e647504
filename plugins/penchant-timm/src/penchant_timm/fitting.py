"""Does a model take images of this size? If not, which size would do?

Tried with tensors that have shapes and no numbers, which costs little.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import penchant
import torch
from penchant_numerics.data import written

from penchant_timm.arguments import parse_arguments
from penchant_timm.creation import create
from penchant_timm.importing import import_timm

SIDES = (16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 299, 384, 512)


@functools.cache
def check_fit(model: str, shape: tuple[int, int, int], arguments: tuple[str, ...] = ()) -> None:
    """Refuse images that the model cannot take, naming a size that it can; once per process."""
    timm = import_timm()
    reason = _refusal(timm, model, shape, arguments)
    if reason is None:
        return
    channels = shape[0]
    published = _published_side(timm, model)
    if _refusal(timm, model, (channels, published, published), arguments) is not None:
        # Nothing can be learnt without numbers; the kernel tries the network itself.
        return
    # The first larger size that it takes.
    larger = (side for side in SIDES if min(shape[1:]) < side < published)
    side = next(
        (
            side
            for side in larger
            if _refusal(timm, model, (channels, side, side), arguments) is None
        ),
        published,
    )
    raise penchant.Error(
        f"timm's {model} does not take images of {written(shape)}: {reason}; it takes "
        f"{side} x {side}, and was published for {published} x {published}"
    )


def _published_side(timm: ModuleType, model: str) -> int:
    configuration = timm.get_pretrained_cfg(model)
    if configuration is None:
        return SIDES[-1]
    side: int = max(configuration.input_size[1:])
    return side


def _refusal(
    timm: ModuleType, model: str, shape: tuple[int, int, int], arguments: tuple[str, ...] = ()
) -> str | None:
    """Why the model does not take one image of this shape, or None.

    In a thread of its own: modes that record or move tensors of the caller belong to its thread.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_tried, timm, model, shape, arguments).result()


def _tried(
    timm: ModuleType, model: str, shape: tuple[int, int, int], arguments: tuple[str, ...] = ()
) -> str | None:
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"), torch.no_grad():
            network = create(timm, model, shape, 1, arguments=parse_arguments(arguments)).eval()
            network(torch.zeros(1, *shape, device="meta"))
    except Exception as error:  # whatever a network raises, it does not fit
        first_line, _, _ = str(error).partition("\n")
        return first_line or type(error).__name__
    return None
