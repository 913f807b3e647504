"""The architecture and the dataset as data; imports penchant and attrs only."""

from __future__ import annotations

from pathlib import Path

import attrs
import penchant

TASKS = (
    "auto",
    "causal-lm",
    "masked-lm",
    "token-classification",
    "sequence-classification",
    "image-classification",
)


@attrs.frozen
class HuggingFace(penchant.Architecture):
    """Any model of transformers: by name from the local cache, or fresh from a configuration.

    Vocabulary, classes, channels and image size come from the data. The output is the model's
    `logits`: of a language model (positions, vocabulary), with a loss at every position. Attention
    is computed plainly (`attn_implementation = "eager"`), so that second derivatives exist, and
    nothing is cached between passes. Nothing is fetched: a name must be in the cache.

    Reference: Wolf et al., "Transformers: State-of-the-Art Natural Language Processing", EMNLP
    2020, https://github.com/huggingface/transformers
    """

    name = "huggingface"
    target = "penchant_huggingface.architectures.huggingface:build"
    example = (
        "penchant probe hessian-spectrum "
        '-a \'huggingface:model_type=gpt2,config=["n_layer=2","n_embd=32","n_head=2"]\' '
        "-d huggingface:path=text.txt"
    )

    model: str | None = penchant.option(
        None, "name in the local cache, such as gpt2, or a folder with a model"
    )
    model_type: str | None = penchant.option(
        None, "instead of model: a kind of configuration, such as gpt2, llama, bert or vit"
    )
    config: tuple[str, ...] = penchant.option(
        (), 'fields of the configuration, each "name=value" with a TOML value, such as "n_layer=2"'
    )
    pretrained: bool = penchant.option(
        True, "with model: take its weights; else networks are initialised from its configuration"
    )
    task: str = penchant.option(
        "auto",
        "what the model is for; auto: image-classification of images, else masked-lm where the "
        "kind of model has one, else causal-lm",
        choices=TASKS,
    )

    def __attrs_post_init__(self) -> None:
        if (self.model is None) == (self.model_type is None):
            given = "neither" if self.model is None else "both"
            raise penchant.Error(f"huggingface takes model or model_type, found {given}")


@attrs.frozen
class Texts(penchant.Dataset):
    """Texts of a dataset on disk, as tokens: a sample is a sequence.

    The path is a folder that `datasets` saved (`save_to_disk`), or a file: .parquet, .jsonl, .json,
    .csv, or any other as plain text. Rows are joined and cut into sequences of `length` tokens with
    a label at every position; with `task = "classes"` a row is a sample and has one label. With
    `task = "given"` rows are tokens already: columns `input_ids`, `labels` (one, or one for every
    position, -100: none) and, where there are any, `attention_mask` and `token_type_ids`, which
    become part of the input.

    Reference: Lhoest et al., "Datasets: A Community Library for Natural Language Processing", EMNLP
    2021, https://github.com/huggingface/datasets
    """

    name = "huggingface"
    target = "penchant_huggingface.datasets.huggingface:load"
    example = (
        "penchant probe tangent-kernel "
        '-a \'huggingface:model_type=gpt2,config=["n_layer=2","n_embd=32","n_head=2"]\' '
        "-d huggingface:path=text.txt"
    )

    path: str = penchant.option(help="a folder of datasets' save_to_disk, or a file")
    tokenizer: str = penchant.option(
        "bytes",
        "bytes, characters (those of the training split), or a folder or tokenizer.json on disk",
    )
    vocabulary: int | None = penchant.option(
        None, "tokens that the network knows, where these are more than the tokenizer's", at_least=2
    )
    length: int = penchant.option(64, "tokens of a sequence", at_least=1)
    train: int = penchant.option(256, "training sequences, chosen by the seed", at_least=1)
    test: int = penchant.option(64, "test sequences, chosen by the seed", at_least=1)
    task: str = penchant.option(
        "next-token",
        "labels; next-token: the next one, at every position; masked-token: 15 % of tokens are "
        "masked and are the labels, all others are ignored; classes: one per row; given: those of "
        "rows that are tokens already",
        choices=("next-token", "masked-token", "classes", "given"),
    )
    column: str = penchant.option("text", "the column with texts")
    label_column: str = penchant.option("label", 'the column with classes, for task = "classes"')
    train_split: str = penchant.option("train", "split with training texts, where there are splits")
    test_split: str = penchant.option(
        "test", "split with test texts; where there is none, the last tenth is held out"
    )

    def files(self) -> tuple[str, ...]:
        """The file, or the files of the folder, and those of the tokenizer."""
        paths = []
        for given in (self.path, self.tokenizer):
            root = Path(given)
            if root.is_dir():
                paths += sorted(each for each in root.rglob("*") if each.is_file())
            elif root.is_file():
                paths.append(root)
        return tuple(map(str, paths))
