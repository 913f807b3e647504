"""Texts from disk: files and folders, tokenizers, labels at positions and of rows."""

import json

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_huggingface.datasets.huggingface import load
from penchant_huggingface.declarations import Texts
from penchant_numerics.data import IGNORED

TEXT = "The quick brown fox jumps over the lazy dog. " * 40


def loaded(seed=0, **options):
    component = Texts.bind({"length": 16, "train": 8, "test": 4, **options})
    return load(component, torch.Generator().manual_seed(seed))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_bytes_of_a_text_predict_the_next(text):
    data = loaded(path=str(text))
    assert data.classes == 256 and data.train.inputs.shape == (8, 16) == data.train.labels.shape
    assert torch.equal(data.train.inputs[:, 1:], data.train.labels[:, :-1])
    for row, labels in zip(data.train.inputs, data.train.labels, strict=True):
        piece = bytes(row.tolist()) + bytes(labels[-1:].tolist())
        assert piece.decode() in TEXT
    assert "bytes" in data.conventions["tokens"]
    again, other = loaded(path=str(text)), loaded(path=str(text), seed=1)
    assert torch.equal(again.train.inputs, data.train.inputs)
    assert not torch.equal(other.train.inputs, data.train.inputs)


def test_the_last_tenth_is_held_out(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a" * 900 + "b" * 100)
    data = loaded(path=str(path), train=100, test=100)
    assert set(data.train.inputs.flatten().tolist()) == {ord("a")}
    assert set(data.test.inputs.flatten().tolist()) == {ord("b")}


def test_characters_are_those_of_the_text(text):
    data = loaded(path=str(text), tokenizer="characters")
    assert data.classes == len(set(TEXT))
    known = sorted(set(TEXT))
    assert "".join(known[number] for number in data.test.inputs[0]) in TEXT


def test_masked_tokens_are_the_labels(text):
    data = loaded(path=str(text), task="masked-token", train=100)
    hidden = data.train.labels != IGNORED
    assert data.classes == 257 and set(data.train.inputs[hidden].tolist()) == {256}
    assert bool(hidden.any(1).all()) and 0.08 < float(hidden.double().mean()) < 0.25


def test_a_tokenizer_on_disk_is_taken(text, tmp_path):
    import tokenizers

    words = {word: number for number, word in enumerate(["[UNK]", *sorted(set(TEXT.split()))])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    (tmp_path / "saved").mkdir()
    tokenizer.save(str(tmp_path / "saved" / "tokenizer.json"))
    data = loaded(path=str(text), tokenizer=str(tmp_path / "saved"))
    assert data.classes == len(words)
    names = list(words)
    assert " ".join(names[number] for number in data.train.inputs[0]) in TEXT
    with pytest.raises(
        penchant.Error, match="tokenizer must be bytes, characters, or .* found 'no'"
    ):
        loaded(path=str(text), tokenizer="no")


def rows():
    return {"text": ["good film " * 3, "bad film " * 3] * 20, "label": ["yes", "no"] * 20}


def test_rows_of_a_saved_dataset_have_classes(tmp_path):
    import datasets

    datasets.Dataset.from_dict(rows()).save_to_disk(str(tmp_path / "rows"))
    data = loaded(path=str(tmp_path / "rows"), task="classes", train=100)
    assert data.classes == 2 and data.train.inputs.shape == (36, 16) and len(data.test.labels) == 4
    starts = {
        chr(row[0]): int(label)
        for row, label in zip(data.train.inputs, data.train.labels, strict=True)
    }
    assert starts == {"b": 0, "g": 1}  # no, yes
    with pytest.raises(penchant.Error, match="no column 'body', found text, label"):
        loaded(path=str(tmp_path / "rows"), column="body")


def test_splits_of_a_saved_dataset_are_taken(tmp_path):
    import datasets

    splits = {
        "train": datasets.Dataset.from_dict({"text": ["a" * 300]}),
        "test": datasets.Dataset.from_dict({"text": ["b" * 300]}),
    }
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "splits"))
    data = loaded(path=str(tmp_path / "splits"))
    assert set(data.test.inputs.flatten().tolist()) == {ord("b")}
    with pytest.raises(penchant.Error, match="no split 'training', found train, test"):
        loaded(path=str(tmp_path / "splits"), train_split="training")


def test_a_dataset_may_name_its_column_of_classes_and_its_split_of_test_texts(tmp_path):
    import datasets

    text = {name: values * 3 for name, values in zip(("body", "sentiment"), rows().values())}
    whole = datasets.Dataset.from_dict(text)
    splits = {"train": whole, "validation": whole.select(range(12))}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "named"))
    named = {"column": "body", "label_column": "sentiment", "test_split": "validation"}
    data = loaded(path=str(tmp_path / "named"), task="classes", **named, train=200, test=12)
    assert data.classes == 2 and len(data.train.labels) == 120 and len(data.test.labels) == 12


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files_of_rows_are_read(tmp_path, suffix, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    path = tmp_path / f"rows.{suffix}"
    if suffix == "jsonl":
        lines = [json.dumps({"text": text}) for text in rows()["text"]]
        path.write_text("\n".join(lines))
    else:
        datasets.Dataset.from_dict(rows()).to_parquet(str(path))
    data = loaded(path=str(path))
    assert data.train.inputs.shape == (8, 16)


def test_what_is_not_there_is_refused(tmp_path, text):
    with pytest.raises(penchant.Error, match="no file or folder 'nothing'"):
        loaded(path="nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(penchant.Error, match="cannot be read as a dataset"):
        loaded(path=str(tmp_path / "empty"))
    with pytest.raises(
        penchant.Error, match="test texts have .* tokens, expected more than length = 1000"
    ):
        loaded(path=str(text), length=1000)


def test_the_dataset_conforms(text):
    testing.check_dataset("huggingface", path=str(text), length=16, train=8, test=4)


def test_files_are_part_of_the_key(tmp_path, text):
    assert Texts.bind({"path": str(text)}).files() == (str(text),)


def tokenised(tmp_path, *, same):
    """Rows of unequal length, as a collator of transformers fills them up."""
    import datasets

    rows = {"input_ids": [], "attention_mask": [], "labels": []}
    for number in range(20):
        own = [1 + (number + step) % 7 for step in range(3 + number % 3)]
        labels = own if same else [-100, *own[:-1]]
        rows["input_ids"].append(own)
        rows["attention_mask"].append([1] * len(own))
        rows["labels"].append(labels)
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "tokens"))
    return str(tmp_path / "tokens")


def test_rows_of_tokens_have_their_mask_as_part_of_the_input(tmp_path):
    data = loaded(path=tokenised(tmp_path, same=False), task="given", train=100)
    assert data.train.inputs.shape == (18, 2, 5) and data.train.labels.shape == (18, 5)
    tokens, mask = data.train.inputs.unbind(1)
    assert torch.equal(mask, (tokens > 0).long()) and not data.warnings
    # the label is the token before; none at the first position and behind the last
    assert torch.equal(data.train.labels[:, 0], torch.full((18,), IGNORED))
    counted = data.train.labels != IGNORED
    assert torch.equal(data.train.labels[counted], tokens.roll(1, 1)[counted])
    assert data.classes == 8 and data.positions == 5


def test_labels_that_are_the_inputs_are_those_of_the_next_position(tmp_path):
    data = loaded(path=tokenised(tmp_path, same=True), task="given", train=100)
    tokens = data.train.inputs[:, 0]
    counted = data.train.labels != IGNORED
    assert torch.equal(data.train.labels[counted], tokens.roll(-1, 1)[counted])
    assert int(counted.sum()) == int((tokens > 0).sum()) - 18
    assert data.warnings == ("labels are the inputs: taken for those of the next position",)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_what_is_masked_does_not_change_the_measurement(tmp_path, kind):
    """The loss of short rows is the same whatever stands behind their end."""
    from penchant_huggingface.architectures.huggingface import build
    from penchant_huggingface.declarations import HuggingFace

    data = loaded(path=tokenised(tmp_path, same=False), task="given", train=100)
    fields = ["n_layer=1", "n_head=1", "n_embd=4"]
    if kind == "bert":
        fields = ["hidden_size=4", "num_hidden_layers=1", "num_attention_heads=1"]
        fields += ["intermediate_size=4"]
    options = {"model_type": kind, "config": fields}
    network = build(HuggingFace.bind(options), data.shape, data.classes).eval()
    inputs = data.train.inputs
    other = inputs.clone()
    other[:, 0][inputs[:, 1] == 0] = 3
    counted = data.train.labels != IGNORED
    assert torch.allclose(network(inputs)[counted], network(other)[counted], atol=1e-6)
    result = penchant.measure(
        "hessian-spectrum",
        architecture={"name": "huggingface", **options},
        dataset={"name": "huggingface", "path": str(tmp_path / "tokens"), "task": "given"},
        split="train",
        matrices=("gauss-newton",),
        training={"steps": 0},
        exact_limit=0,
        lanczos_steps=4,
        starts=2,
        leading=1,
    )
    assert result.quantities["loss"].over == "sequences"


def test_a_model_may_know_more_tokens_than_the_tokenizer(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("abcdefgh" * 40)
    options = {"path": str(path), "length": 8, "train": 4, "test": 2}
    assert loaded(**options).classes == 256
    assert loaded(**options, vocabulary=300).classes == 300
    # Without a mask of its own the tokenizer has one token more.
    assert loaded(**options, task="masked-token").classes == 257
    with pytest.raises(penchant.Error, match="vocabulary must be at least the tokenizer's 257"):
        loaded(**options, task="masked-token", vocabulary=256)
