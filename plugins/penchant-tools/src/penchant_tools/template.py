"""`penchant new plugin`: a working plugin to begin with, made from the example that is tested.

The example travels as one text, `template.txt`: each file after a line with its
path. Names are replaced when a plugin is made, so that it can be installed beside the example.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from penchant.errors import Error

_MARK = "=== "
_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
_ENDINGS = (".md", ".py", ".toml")
_NAMES = ("LICENSE", "py.typed")


def packed(folder: Path) -> str:
    """The files of a plugin's folder as one text."""
    parts = []
    for path in sorted(folder.rglob("*")):
        file_name = path.relative_to(folder).as_posix()
        ours = path.suffix in _ENDINGS or path.name in _NAMES
        if not ours or not path.is_file():
            continue

        # What wheels and tests leave behind is no part of the plugin.
        made = file_name.startswith(("build/", ".")) or ".egg-info" in file_name
        if made:
            continue

        text = path.read_text(encoding="utf-8")
        parts.append(f"{_MARK}{file_name}\n{text}")
    return "".join(parts)


def unpacked(text: str) -> dict[str, str]:
    """The files in such a text, by path."""
    files: dict[str, str] = {}
    # Nothing stands before the first mark.
    _, *parts = re.split(rf"^{_MARK}", text, flags=re.MULTILINE)
    for part in parts:
        file_name, _, content = part.partition("\n")
        files[file_name] = content
    return files


def new_plugin(name: str, parent: Path) -> Path:
    """Write a plugin of this name into a new folder.

    Args:
        name: What it is called, such as `sharpness`; `penchant-` before it is left out.
        parent: Where the folder is made.

    Returns:
        The folder.
    """
    name = name.removeprefix("penchant-")
    if not re.fullmatch(_NAME, name):
        expected = "small letters and digits, with hyphens between words"
        raise Error(f"a plugin's name has {expected}, found {name!r}")
    folder = parent / f"penchant-{name}"
    if folder.exists():
        raise Error(f"{folder} exists already; choose another name or remove it")
    # The example, file by file, with other names in it.
    template = resources.files("penchant_tools").joinpath("template.txt")
    example = template.read_text(encoding="utf-8")
    files = unpacked(example)
    for file_name, content in files.items():
        path = folder / _renamed(file_name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _renamed(content, name)
        path.write_text(text, encoding="utf-8")
    return folder


def _renamed(text: str, name: str) -> str:
    """A text or path of the example with this plugin's names in it."""
    module = name.replace("-", "_")
    camel = name.title().replace("-", "")
    # Most particular first. A component that another plugin offers too could not be reached by its
    # name alone, so the probe is called like the plugin, and the others after it.
    for pattern, replacement in (
        (r"penchant-example", f"penchant-{name}"),
        (r"penchant_example", f"penchant_{module}"),
        (r"test_example", f"test_{module}"),
        (r"^example = ", f"{name} = "),
        (r"The Penchant developers", f"The authors of penchant-{name}"),
        (r"The template of a Penchant plugin", "A plugin of Penchant"),
        (r"output-spread", name),
        (r"output_spread", module),
        (r"OutputSpread", camel),
        (r"two-blobs", f"{name}-blobs"),
        (r"two_blobs", f"{module}_blobs"),
        (r"TwoBlobs", f"{camel}Blobs"),
        (r"standard-deviation", f"{name}-deviation"),
        (r"(?<=estimators[./])standard_deviation", f"{module}_deviation"),
        (r"StandardDeviation", f"{camel}Deviation"),
        (r"(?<=architectures[./])perceptron", f"{module}_perceptron"),
        (r"\bperceptron\b", f"{name}-perceptron"),
        (r"\bPerceptron\b", f"{camel}Perceptron"),
    ):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text
