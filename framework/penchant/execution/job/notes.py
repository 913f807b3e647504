"""What a job says beside its numbers: warnings and conventions."""

from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen(eq=False)
class Notes:
    """Warnings and conventions, which all contexts of a job share; a shard has its own.

    Attributes:
        warnings: Texts, each once.
        conventions: What makes numbers incomparable, by name.
    """

    warnings: list[str] = attrs.field(factory=list)
    conventions: dict[str, str] = attrs.field(factory=dict)

    def warn(self, text: str) -> None:
        """Add a warning; the same text once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def add(
        self, warnings: Iterable[str], conventions: Mapping[str, str], prefix: str = ""
    ) -> None:
        """Add what another object says, with a prefix that names it."""
        for text in warnings:
            self.warn(prefix + text)
        self.conventions.update({prefix + name: text for name, text in conventions.items()})
