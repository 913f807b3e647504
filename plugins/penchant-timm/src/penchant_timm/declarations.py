"""The architecture as data; imports penchant and attrs only."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class Timm(penchant.Architecture):
    """Any model of timm by its name, with input size, channels and outputs adapted.

    Networks have timm's initialisation: some models start residual branches at zero, unless
    `arguments` has "zero_init_last=false". Fused attention, in-place activations and cached
    parameters are switched off, so second derivatives exist; outputs are the same up to rounding.
    With `pretrained`, networks differ only in layers that timm replaces, such as the last one.

    Reference: Wightman, "PyTorch Image Models",
    https://github.com/huggingface/pytorch-image-models
    """

    name = "timm"
    target = "penchant_timm.architectures.timm:build"
    example = "penchant doctor -a timm:model=convnext_atto"

    model: str = penchant.option(
        help="name of the model, such as resnet18 or vit_tiny_patch16_224; a tag after a dot "
        "selects weights"
    )
    pretrained: bool = penchant.option(
        False, "load published weights, from Hugging Face unless they are cached"
    )
    arguments: tuple[str, ...] = penchant.option(
        (),
        'further arguments of timm.create_model, each "name=value" with a TOML value, such as '
        '"zero_init_last=false"',
    )
    head: str = penchant.option(
        "drawn",
        "drawn: a last layer that timm sets to zero, as for mixers, gets PyTorch's initialisation, "
        "because a constant network has no preference; original: it stays zero",
        choices=("drawn", "original"),
    )
