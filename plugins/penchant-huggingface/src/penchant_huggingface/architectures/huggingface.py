"""Builds models of transformers for the data at hand."""

from __future__ import annotations

import difflib
import types
from types import ModuleType
from typing import Any

import penchant
from penchant_numerics.data import written
from torch import Tensor, nn

from penchant_huggingface.declarations import HuggingFace
from penchant_huggingface.importing import import_transformers, without_bars
from penchant_huggingface.settings import parse_settings
from penchant_huggingface.tokens import BESIDE_TOKENS

CLASSES = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "token-classification": "AutoModelForTokenClassification",
    "sequence-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
}
# From a folder or the cache; code that a model brings along is never run.
ONLY_READ: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
IMAGE = 3  # axes of an image
# Modules that have an entry for each position; others continue beyond those of their training.
POSITIONS = ("wpe", "position_embeddings", "position_embedding", "embed_positions")
WITH_MASK = 2  # axes of tokens with what stands beside them


class Logits:
    """A model that takes one tensor and gives its logits."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits of a batch; tokens may come as floating-point numbers.

        Args:
            inputs: Images, tokens (samples, positions), or tokens with their mask and types
                (samples, 2 or 3, positions).
        """
        if self.main_input_name != "input_ids":  # type: ignore[attr-defined]
            given = {self.main_input_name: inputs}  # type: ignore[attr-defined]
        elif inputs.dim() > WITH_MASK:
            given = dict(zip(BESIDE_TOKENS, inputs.long().unbind(1)))
        else:
            given = {"input_ids": inputs.long()}
        logits: Tensor = super().forward(**given).logits  # type: ignore[misc]
        return logits


def build(options: HuggingFace, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `huggingface`."""
    transformers = import_transformers()
    config = _config(transformers, options)
    kind = _kind(transformers, options, config, shape)
    _fit(config, options, shape, outputs)
    try:
        network: nn.Module
        if options.model is None or not options.pretrained:
            network = kind.from_config(config, attn_implementation="eager")
        else:
            network = _pretrained(kind, options.model, config)
    except OSError as error:
        raise _missing(options.model, error) from error
    except (TypeError, ValueError) as error:
        name = options.model or options.model_type
        raise penchant.Error(
            f"transformers cannot make {name!r} for inputs of {written(shape)}: {error}"
        ) from error
    _check_length(network, config, shape)
    _give_logits(network)
    return network


def _check_length(network: nn.Module, config: Any, shape: tuple[int, ...]) -> None:
    """Refuse sequences that are longer than there are positions."""
    longest = getattr(config, "max_position_embeddings", None)
    if len(shape) == IMAGE or longest is None or shape[-1] <= longest:
        return
    for name, module in network.named_modules():
        *_, own = name.split(".")
        if own in POSITIONS and isinstance(module, nn.Embedding):
            raise penchant.Error(
                f"{config.model_type} has {longest} positions, found sequences of {shape[-1]}: "
                f"give the data length = {longest}"
            )


def _config(transformers: ModuleType, options: HuggingFace) -> Any:
    """The configuration, with the user's fields."""
    settings = parse_settings(options.config)
    kinds = transformers.AutoConfig
    if options.model is not None:
        try:
            config = kinds.from_pretrained(options.model, **ONLY_READ)
            _check_fields(config, settings)
            return kinds.from_pretrained(options.model, **ONLY_READ, **settings)
        except ValueError as error:  # a folder with code of its own
            problem, _, _ = str(error).partition("\n")
            raise penchant.Error(f"the model {options.model!r} is not read: {problem}") from None
        except OSError as error:
            raise _missing(options.model, error) from error
    known = transformers.CONFIG_MAPPING
    if options.model_type not in known:
        close = difflib.get_close_matches(options.model_type, list(known.keys()), n=3)
        names = " or ".join(map(repr, close))
        hint = f"did you mean {names}?" if close else "transformers.CONFIG_MAPPING names all"
        raise penchant.Error(f"transformers has no model_type {options.model_type!r}; {hint}")
    _check_fields(kinds.for_model(options.model_type), settings)
    return kinds.for_model(options.model_type, **settings)


def _check_fields(config: Any, settings: dict[str, Any]) -> None:
    """Refuse fields that a configuration has not; transformers would take them for anything."""
    for name in settings:
        if not hasattr(config, name):
            raise penchant.Error(
                f"the configuration of {config.model_type} has no {name!r}; its fields are "
                f"{', '.join(sorted(config.to_dict()))}"
            )


def _kind(
    transformers: ModuleType, options: HuggingFace, config: Any, shape: tuple[int, ...]
) -> Any:
    """The class that makes models for the task."""
    task = options.task
    if task == "auto":
        task = "image-classification"
        if len(shape) != IMAGE:
            masked = transformers.AutoModelForMaskedLM._model_mapping
            task = "masked-lm" if type(config) in masked else "causal-lm"
    kind = getattr(transformers, CLASSES[task])
    if type(config) not in kind._model_mapping:
        tasks = []
        for name, each in CLASSES.items():
            if type(config) in getattr(transformers, each)._model_mapping:
                tasks.append(name)
        if options.task == "auto" and len(shape) == IMAGE and tasks:
            raise penchant.Error(
                f"{config.model_type} takes tokens, found inputs of {written(shape)}: give it "
                "texts, such as -d huggingface:path=FILE; weight-spectra, which needs none, takes "
                "the model's folder as file=FOLDER without an architecture"
            )
        listed = ", ".join(tasks) or "none"
        raise penchant.Error(f"{config.model_type} has no model for {task}, found {listed}")
    return kind


def _fit(config: Any, options: HuggingFace, shape: tuple[int, ...], outputs: int) -> None:
    """Sizes from the data, and plain passes: no caches."""
    if hasattr(config, "use_cache"):
        config.use_cache = False
    if len(shape) == IMAGE:
        channels, height, width = shape
        config.num_channels = channels
        config.image_size = height if height == width else (height, width)
    elif len(shape) != 1 and not (len(shape) == WITH_MASK and shape[0] <= len(BESIDE_TOKENS)):
        raise penchant.Error(
            "models of transformers take images (channels x height x width), sequences of tokens, "
            f"or these with {' and '.join(BESIDE_TOKENS[1:])}, found the shape {written(shape)}"
        )
    classifies = options.task.endswith("classification") or len(shape) == IMAGE
    if classifies:
        config.num_labels = outputs
    elif options.model is None or not options.pretrained:
        config.vocab_size = outputs
        _forget_tokens_beyond(config, outputs)
    elif config.vocab_size != outputs:
        raise penchant.Error(
            f"{options.model} has a vocabulary of {config.vocab_size} tokens, found {outputs} "
            "outputs: give the data the tokenizer of the model, or without data outputs = "
            f"{config.vocab_size}"
        )


def _forget_tokens_beyond(config: Any, vocabulary: int) -> None:
    """Special tokens that a small vocabulary does not have."""
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id"):
        token = getattr(config, name, None)
        if isinstance(token, int) and token >= vocabulary:
            setattr(config, name, None)


def _pretrained(kind: Any, model: str, config: Any) -> nn.Module:
    """The model with its weights, from the cache or a folder; nothing is fetched."""
    with without_bars():
        network: nn.Module = kind.from_pretrained(
            model,
            config=config,
            **ONLY_READ,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,  # the head, where classes are other ones
        )
    return network


def _missing(model: str | None, error: OSError) -> penchant.Error:
    """Names what is missing, where it should be, and how to get it."""
    from huggingface_hub.constants import HF_HUB_CACHE

    line, _, _ = str(error).strip().partition("\n")
    return penchant.Error(
        f"{model} is neither a folder nor in the cache of Hugging Face ({HF_HUB_CACHE}), and "
        "nothing is fetched; fetch it once where there is a network, with `hf download "
        f"{model}`, and let HF_HOME name a folder that both machines see "
        f"({type(error).__name__}: {line})"
    )


def _give_logits(network: nn.Module) -> None:
    """Let the model take one tensor and give one; names of modules stay as they are."""
    kind = type(network)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    bases = (Logits, kind)
    made = types.new_class(kind.__name__, bases, exec_body=lambda body: body.update(names))
    network.__class__ = made
