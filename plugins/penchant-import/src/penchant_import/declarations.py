"""The components of this plugin, as data: the user's own networks and data."""

from __future__ import annotations

from typing import Any

import attrs
from penchant import Architecture, Dataset, Error, option
from penchant.components.targets import resolve


@attrs.frozen
class ImportedArchitecture(Architecture):
    """Your own network: a module class, any callable that returns a `torch.nn.Module`, or a module.

    A class or callable is given `shape` and `outputs` where its signature has them, and draws a
    fresh network at every call. A module is one definite network, so only probes that measure one
    network take it; it is measured as it is, and trained further only where `training` is given to
    that probe itself. Where it returns a dict, a tuple or an object, `output` names the part that
    is its output. An experiment file can name any importable function here, and running the
    experiment calls it: run only files you trust.
    """

    name = "import"
    target = "penchant_import.imported:build"
    example = "penchant doctor -a import:factory=penchant_testing.tiny:tiny_network"

    factory: Any = option(
        help="package.module:name of a class, function or module, or in Python the object itself",
        target=True,
    )
    output: str | None = option(
        None, 'the part of what it returns that is its output, such as logits or "0"; none: all'
    )
    unit: int | tuple[int, ...] | None = option(
        None,
        "the only one of its outputs that is looked at, from 0; its place along each axis where "
        "outputs have several, such as [0, 2, 2]; none: all",
        at_least=0,
    )

    input_names: tuple[str, ...] = option(
        (),
        "names by which it takes the parts of an input of several, such as "
        '["input_ids", "attention_mask"]; none: one input, by position',
    )
    inputs_from: str | None = option(
        None,
        "a layer whose outputs count as the inputs, such as an embedding of tokens: samples are "
        "what it gives for them; none: the inputs themselves",
    )

    def __attrs_post_init__(self) -> None:
        """Replace a text that names a module by the module: every worker is sent its weights."""
        if self.input_names and self.inputs_from is not None:
            raise Error("a network that begins at a layer has one input: leave out input_names")
        if not isinstance(self.factory, str):
            return
        found = resolve(self.factory, "the architecture 'import'")
        if hasattr(found, "state_dict") and not isinstance(found, type):
            object.__setattr__(self, "factory", found)


@attrs.frozen
class ImportedDataset(Dataset):
    """Your own data: (inputs, labels), train and test pairs of these, or torch datasets.

    Also columns or rows with names, such as Hugging Face's: one called image (or x, inputs,
    pixel_values, input_ids, ...) and one called label (or y, labels, target, ...). A callable that
    returns one of these will do as well. Without a test part, a fifth of the samples, of every
    class where labels are classes, is drawn for testing with the seed. Labels that are whole
    numbers are classes, which count from 0; one-hot rows and text are numbered; as many as an input
    has tokens are one for each position, -100 for none. Bytes and pictures are divided by 255;
    other whole numbers stay whole, as tokens. Memory-mapped inputs, a torch `DataLoader` and any
    other iterable of batches stay where they are: what takes batches reads them, with the same
    numbers, and what needs all inputs at once loads them. An experiment file can name any
    importable function here, and running the experiment calls it: run only files you trust.
    """

    name = "import"
    target = "penchant_import.imported:load"
    example = "penchant doctor -d import:factory=penchant_testing.tiny:tiny_samples"

    factory: Any = option(
        help="package.module:function, or in Python the callable or the data itself", target=True
    )
    classes: int | None = option(
        None, "how many classes there are, where labels do not show all; none: those", at_least=1
    )
