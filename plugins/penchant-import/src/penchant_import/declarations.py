"""The components of this plugin, as data: the user's own networks and data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from penchant import Architecture, Dataset, Error, option
from penchant.components.targets import resolve


@attrs.frozen
class ImportedArchitecture(Architecture):
    """Your own network: a module class, any callable that returns a `torch.nn.Module`, or a module.

    `shape` and `outputs` are passed to a class or callable if its signature has them; it returns a
    fresh network at every call. A module is one given network, so only probes that measure one
    network take it. It is measured without training, unless `training` is set for that probe. If it
    returns a dict, a tuple or an object, `output` selects the entry that is its output. An
    experiment file can name any importable function here, and running the experiment calls it: run
    only files you trust.
    """

    name = "import"
    target = "penchant_import.imported:build"
    example = "penchant doctor -a import:factory=penchant_testing.tiny:tiny_network"

    factory: Any = option(
        help="package.module:name of a class, function or module, or in Python the object itself",
        target=True,
    )
    output: str | None = option(
        None, 'entry of the returned value that is the output, such as logits or "0"; None: all'
    )
    unit: int | tuple[int, ...] | None = option(
        None,
        "index of the only output to measure, from 0; its position along each axis where "
        "outputs have several, such as [0, 2, 2]; none: all",
        at_least=0,
    )
    output_position: int | None = option(
        None,
        "the only position of a sequence whose outputs are measured, such as -1, the last, for a "
        "language model whose next token is the class; none: all",
    )
    input_names: tuple[str, ...] = option(
        (),
        "names by which it takes an input of several tensors, such as "
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
        factory = self.factory
        if isinstance(factory, str):
            factory = resolve(factory, "the architecture 'import'")
        if hasattr(factory, "state_dict") and not isinstance(factory, type):
            object.__setattr__(self, "factory", _measurable(factory))


def _measurable(network: Any) -> Any:
    """A module without wrappers such as `DataParallel`; kinds that nothing measures are refused."""
    from penchant_numerics.device import UnsuitableNetworkError, check_kind, unwrapped

    network = unwrapped(network)
    try:
        check_kind(network)
    except UnsuitableNetworkError as error:
        raise Error(f"your network cannot be measured: {error}") from None
    return network


@attrs.frozen
class ImportedDataset(Dataset):
    """Your own data: (inputs, labels), train and test pairs of these, or torch datasets.

    Also columns or rows with names, such as Hugging Face's: one called image (or x, inputs,
    pixel_values, input_ids, ...) and one called label (or y, labels, target, ...). A callable that
    returns one of these also works. Without test data, a random fifth of the samples (per class if
    labels are classes) is the test set; the seed selects it. Integer labels are classes, which
    count from 0; one-hot rows and strings are numbered; one label per token is one for each
    position, -100 for none. Bytes and pictures are divided by 255; other integers stay integers.
    Memory-mapped inputs, a torch `DataLoader` and any other iterable of batches are not loaded at
    once: probes read them in batches, with the same results, unless they need all inputs at once.
    An experiment file can name any importable function here, and running the experiment calls it:
    run only files you trust.
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


@attrs.frozen
class FileDataset(Dataset):
    """Your own data in a file `.npz`, or pictures in a folder with one folder for each class.

    A file has an array of inputs (x, inputs, images, data, ...) and one of labels (y, labels,
    target, ...); or train and test: x_train, y_train, x_test, y_test. Folders `train` and `test`
    with classes inside are the two splits. Without test data, a random fifth is the test set, as
    for `import`. Nothing in a file is run: arrays of objects are refused.
    """

    name = "file"
    target = "penchant_import.stored_data:load"
    example = "penchant doctor -d file:path=data.npz"

    path: str = option(help="a file .npz, or a folder with a folder of pictures for each class")
    classes: int | None = option(
        None, "how many classes there are, where labels do not show all; none: those", at_least=1
    )

    def files(self) -> tuple[str, ...]:
        """The file, or all files of the folder."""
        path = Path(self.path)
        if path.is_dir():
            return tuple(map(str, sorted(each for each in path.rglob("*") if each.is_file())))
        return (self.path,) if path.is_file() else ()
