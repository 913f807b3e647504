"""Error messages for published weights that cannot be loaded."""

from __future__ import annotations

from types import ModuleType

import penchant
from huggingface_hub.constants import HF_HUB_CACHE


def weights_missing(timm: ModuleType, model: str, error: Exception) -> penchant.Error:
    """Names the weights, where they should be, and how to get them."""
    start = f"timm's {model} cannot be made with published weights"
    configuration = timm.get_pretrained_cfg(model)
    repository = getattr(configuration, "hf_hub_id", None)
    if repository and isinstance(error, OSError):
        # Errors of Hugging Face's library and of the connection are among these.
        return penchant.Error(
            f"{start}: {repository} is neither in the cache ({HF_HUB_CACHE}) nor could it be "
            "fetched from Hugging Face; fetch it once where there is a network, with HF_HOME "
            "naming a folder that both machines see, and set HF_HUB_OFFLINE=1 to send no requests "
            f"({type(error).__name__}: {_first_line(error)})"
        )
    return penchant.Error(f"{start}: {type(error).__name__}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    line, _, _ = str(error).strip().partition("\n")
    return line or "no reason given"
