"""What a card is of: the tables of a network and of its data, from what a user typed or gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.api import component_table
from penchant.errors import Error
from penchant.experiments.typed_text import parse_component
from penchant.plugins.discovery import Plugins

FORMS = "a component such as lenet or timm:resnet18, or your own as package.module:Class"
LENGTH = 64  # tokens of a sequence, unless the model takes fewer
_LIMITS = ("n_positions", "max_position_embeddings")  # what configurations call their longest input
_TASKS = {"ForMaskedLM": "masked-token", "ForSequenceClassification": "classes"}
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


def network_table(
    network: Any, plugins: Plugins, *, weights: str | Path | None = None, label: str | None = None
) -> dict[str, Any]:
    """The table of an architecture.

    Args:
        network: A component's name with options, `timm:resnet18`, `huggingface:folder`,
            `package.module:Class`, or in Python a module, class or function.
        plugins: Where components are found.
        weights: A file for it.
        label: Its name on the card.

    Returns:
        The table, with `weights` where there are any.
    """
    if network is None:
        raise Error(f"a card needs a network: {FORMS}")
    if isinstance(network, str):
        table = _typed(network, plugins)
    else:
        table = component_table(network)
    if weights is not None:
        table["weights"] = str(weights)
    table = _with_own_weights(table, plugins)
    table.setdefault("label", label or _label(network, table))
    if label:
        table["label"] = label
    return table


def _typed(text: str, plugins: Plugins) -> dict[str, Any]:
    name, colon, rest = text.partition(":")
    if plugins.has("architecture", name):
        component: Any = plugins.find("architecture", name).component
        inside = {field.name for field in attrs.fields(component)} & {"model"}
        # `timm:resnet18`: the name of a model, where a component has many.
        if rest and "=" not in rest.partition(",")[0] and inside:
            model, _, options = rest.partition(",")
            return {**parse_component(f"{name}:{options}"), "model": model}
        return parse_component(text)
    if colon:
        return {"name": "import", "factory": text}
    try:
        plugins.find("architecture", name, "card")
    except Error as error:
        raise Error(f"{error}; a network is {FORMS}") from None
    return {"name": name}


def _with_own_weights(table: dict[str, Any], plugins: Plugins) -> dict[str, Any]:
    """A folder of a model counts as its weights: networks drawn from its configuration differ."""
    model = table.get("model")
    component: Any = plugins.find("architecture", str(table["name"]), "card").component
    takes_weights = "pretrained" in {field.name for field in attrs.fields(component)}
    if not isinstance(model, str) or not takes_weights or not Path(model).is_dir():
        return table
    table = {**table, "pretrained": False}
    if "weights" not in table and any((Path(model) / name).is_file() for name in _WEIGHTS):
        table["weights"] = model
    return table


def _label(network: Any, table: Mapping[str, Any]) -> str:
    """What a network is called: by its model, its class or its component."""
    source = table.get("factory", network)
    if isinstance(source, str) and table["name"] == "import":
        return source.rpartition(":")[2]
    if not isinstance(source, (str, Mapping)):
        return getattr(source, "__name__", type(source).__name__)
    model = table.get("model") or table.get("model_type")
    return Path(str(model)).name if model else str(table["name"])


def data_table(data: Any, plugins: Plugins, network: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of a dataset; None without data.

    Args:
        data: A dataset's name with options, a file `.npz`, a folder of classes, texts; in Python
            also a pair of inputs and labels, a loader, and so on.
        plugins: Where components are found.
        network: The table of the network, whose tokenizer texts are given.

    Returns:
        The table.
    """
    if data is None:
        return None
    if not isinstance(data, (str, Path)):
        if isinstance(data, Mapping) and not isinstance(data.get("name"), str):
            return {"name": "import", "factory": data}
        return component_table(data)
    text = str(data)
    name, _, _ = text.partition(":")
    if plugins.has("dataset", name):
        return parse_component(text)
    path = Path(text)
    if not path.exists():
        try:
            plugins.find("dataset", name, "card")
        except Error as error:
            hint = "data are a dataset's name, a file .npz, a folder of classes, or texts"
            raise Error(f"{error}; {hint}") from None
    if path.suffix == ".npz" or (path.is_dir() and _has_classes(path)):
        return {"name": "file", "path": text, "label": path.stem}
    return _texts(path, network)


def _has_classes(folder: Path) -> bool:
    """Does a folder hold folders of pictures, one for each class?"""
    endings = {".png", ".jpg", ".jpeg", ".bmp", ".gif"}
    inside = [path for path in folder.iterdir() if path.is_dir()]
    return any(each.suffix.lower() in endings for path in inside for each in path.rglob("*"))


def _texts(path: Path, network: Mapping[str, Any]) -> dict[str, Any]:
    """The table of texts: as tokens, and with labels, as the model of a folder has them."""
    table: dict[str, Any] = {"name": "huggingface", "path": str(path), "label": path.stem}
    model = Path(str(network.get("model", "")))
    if not network.get("model") or not model.is_dir():
        return table
    if (model / "tokenizer.json").is_file():
        table["tokenizer"] = str(model)
    config = model / "config.json"
    known = json.loads(config.read_text()) if config.is_file() else {}
    limits = [known[name] for name in _LIMITS if isinstance(known.get(name), int)]
    tasks = [
        task
        for ending, task in _TASKS.items()
        if any(str(each).endswith(ending) for each in known.get("architectures") or ())
    ]
    if tasks:
        table["task"] = tasks[0]
    if isinstance(known.get("vocab_size"), int) and "classes" not in tasks:
        table["vocabulary"] = known["vocab_size"]
    return {**table, "length": min([LENGTH, *limits])}
