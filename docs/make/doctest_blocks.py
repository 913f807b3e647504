"""Examples of docstrings (`>>>`) as blocks of code on the site: they are no quotations."""

from __future__ import annotations

from typing import Any

import griffe


class DoctestBlocks(griffe.Extension):
    """Puts every run of example lines between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class or function."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with fences around examples; an example ends at an empty line."""
    lines, inside = [], False
    for line in text.splitlines():
        begins = line.lstrip().startswith(">>>")
        indent = line[: len(line) - len(line.lstrip())]
        if begins and not inside:
            lines.append(f"{indent}```python")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    if inside:
        lines.append("```")
    return "\n".join(lines)
