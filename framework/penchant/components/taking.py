"""Which networks and data a probe takes: the words of `takes`, `needs` and `accepts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penchant.components.component import Probe

# Kinds of networks, as an experiment gives them.
KINDS = {
    "fresh": "networks that the probe builds, trained if the job has a training",
    "trained": "your network as it is: a module, or `weights` from a file",
    "trajectory": "checkpoints of your training, in order",
}
# What a probe requires.
NEEDS = {
    "architecture": "networks",
    "dataset": "samples",
    "training": "a recipe by which networks are trained",
    "classes": "labels that are classes",
    "images": "inputs of channels x height x width",
    "scalar-output": "one output, or two logits",
    "second-derivatives": "second derivatives of the network, which `penchant doctor` checks",
    "continuous-inputs": "inputs that can be moved a little: no tokens",
}
AXES = ("architecture", "dataset")
# What a probe takes only if it is given: an axis, or a label for every position of a sequence.
ACCEPTS = (*AXES, "sequences")


def how_taken(cls: type[Probe], kind: str) -> str:
    """How a probe takes networks of a kind: "yes", "by state", or "no".

    A trajectory that a probe does not follow itself is measured state by state, where the probe
    measures one trained network.
    """
    if kind in cls.takes:
        return "yes"
    return "by state" if kind == "trajectory" and "trained" in cls.takes else "no"


def taken(cls: type[Probe]) -> dict[str, str]:
    """How a probe takes each kind of network and data: "yes", "by state", "if given" or "no"."""
    networks = cls.has_axis("architecture")
    return {
        **{kind: how_taken(cls, kind) if networks else "no" for kind in KINDS},
        "tokens": "yes" if takes_tokens(cls) else "no",
        "sequences": "yes" if takes_sequences(cls) else "no",
        "data": takes_data(cls),
    }


def takes_tokens(cls: type[Probe]) -> bool:
    """Can its dataset hold whole numbers, such as tokens?"""
    return cls.has_axis("dataset") and not {"continuous-inputs", "images"} & set(cls.needs)


def takes_sequences(cls: type[Probe]) -> bool:
    """Can its dataset have a label for every position of a sequence?"""
    return "sequences" in cls.accepts


def takes_data(cls: type[Probe]) -> str:
    """Whether it is given samples: "yes", "if given", or "no"."""
    if "dataset" in cls.needs:
        return "yes"
    return "if given" if cls.has_axis("dataset") else "no"
