"""From texts to tokens: bytes, characters, or a tokenizer on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import penchant

BYTES = 256
# Arguments of a model, as inputs (samples, names, positions) hold them.
BESIDE_TOKENS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Tokens:
    """What turns texts into whole numbers.

    Args:
        encode: Tokens of a text.
        size: How many there are.
        mask: The token that hides others; None where it has none.
        about: What it is, for the conventions.
    """

    encode: Callable[[str], Sequence[int]]
    size: int
    mask: int | None
    about: str


def tokens_by(name: str, texts: Sequence[str]) -> Tokens:
    """The tokens that are requested.

    Args:
        name: `bytes`, `characters`, or a path.
        texts: Training texts, whose characters are the vocabulary of `characters`.

    Returns:
        The encoding. Bytes and characters have one more token, which masks others.
    """
    if name == "bytes":
        return Tokens(lambda text: text.encode(), BYTES, None, "bytes of UTF-8")
    if name == "characters":
        return _characters(texts)
    path = Path(name)
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise penchant.Error(
            f"tokenizer must be bytes, characters, or a folder or file with a tokenizer, found "
            f"{name!r} and no file {path}"
        )
    return _from_file(path)


def _characters(texts: Sequence[str]) -> Tokens:
    known = sorted(set().union(*map(set, texts)))
    numbers = {character: number for number, character in enumerate(known)}

    def encode(text: str) -> list[int]:
        # a character that the training texts do not have has no token
        return [numbers[each] for each in text if each in numbers]

    return Tokens(encode, len(known), None, f"{len(known)} characters of the training texts")


def _from_file(path: Path) -> Tokens:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain exceptions
        raise penchant.Error(f"{path} cannot be read as a tokenizer: {error}") from error
    mask = None
    for name in ("[MASK]", "<mask>"):
        mask = tokenizer.token_to_id(name) if mask is None else mask

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return Tokens(encode, tokenizer.get_vocab_size(), mask, f"the tokenizer {path.name}")
