"""Whole-number inputs stay whole; what differentiates in the input begins at the embedding."""

import penchant
import pytest
import torch
from penchant_import.declarations import ImportedArchitecture, ImportedDataset
from penchant_import.imported import build, load
from penchant_numerics.data import Data, Samples
from torch import nn

TOKENS, LENGTH, CLASSES = 7, 5, 3
G = torch.Generator().manual_seed(0)
IDS = torch.randint(TOKENS, (60, LENGTH), generator=G)
LABELS = torch.arange(60) % CLASSES


class Reader(nn.Module):
    """A model of tokens: embedding, mean, head; with a mask where it is given one."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 4)
        self.hidden = nn.Linear(4, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, input_ids, attention_mask=None):
        x = torch.tanh(self.hidden(self.embedding(input_ids)))
        if attention_mask is not None:
            x = x * attention_mask[..., None]
        return self.head(x.mean(1))


SMALL = {"samples": 20, "permutations": 4, "executor": "serial"}


def kernel(**arguments):
    arguments.setdefault("dataset", (IDS, LABELS))
    return penchant.measure("tangent-kernel", **SMALL, **arguments)


def test_tokens_stay_whole(monkeypatch):
    """The kernel is that of a network that turns floating tokens into whole ones itself."""

    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x.long())

    network = Reader()
    own = kernel(architecture=network)
    wrapped = kernel(architecture=Wrapped(network), dataset=(IDS.float(), LABELS))
    assert own.conventions["import: inputs"] == "whole numbers, as they are"
    for name, quantity in own.quantities.items():
        assert quantity.value == pytest.approx(wrapped.quantities[name].value, rel=1e-6)


def rows(mask):
    return [
        {"input_ids": ids.tolist(), "attention_mask": row.tolist(), "labels": int(label)}
        for ids, row, label in zip(IDS, mask, LABELS)
    ]


def test_a_mask_is_part_of_the_input():
    network = Reader()
    ones = torch.ones_like(IDS)
    plain = kernel(architecture=network)
    same = kernel(architecture=network, dataset=rows(ones))
    assert same.quantities["cka"].value == plain.quantities["cka"].value
    assert "attention_mask is 1 everywhere" in same.conventions["import: inputs"]
    mask = (torch.arange(LENGTH) < 1 + torch.arange(60)[:, None] % LENGTH).long()
    named = {"name": "import", "factory": network, "input_names": ["input_ids", "attention_mask"]}
    masked = kernel(architecture=named, dataset=rows(mask))
    assert masked.quantities["cka"].value != plain.quantities["cka"].value
    columns = {"input_ids": IDS, "attention_mask": mask, "labels": LABELS}
    again = kernel(architecture=named, dataset=columns)
    assert masked.quantities["cka"].value == again.quantities["cka"].value


def test_a_network_that_does_not_take_a_mask_is_told_what_to_write():
    mask = (torch.arange(LENGTH) < 1 + torch.arange(60)[:, None] % LENGTH).long()
    written = r"input_names = \['input_ids', 'attention_mask'\]"
    with pytest.raises(penchant.Error, match=written):
        kernel(architecture=Reader(), dataset=rows(mask))

    class Strict(Reader):
        def forward(self, input_ids):
            samples, positions = input_ids.shape
            return super().forward(input_ids)

    with pytest.raises(penchant.Error, match=f"does not take inputs of shape 2 x 5.*{written}"):
        kernel(architecture=Strict(), dataset=rows(mask))


class Writer(nn.Module):
    """A language model: scores of the next token at every position."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 4)
        self.head = nn.Linear(4, TOKENS)

    def forward(self, input_ids):
        return {"logits": self.head(self.embedding(input_ids).cumsum(1))}


WRITER = {"name": "import", "output": "logits"}
NEXT = (IDS[:, 1:].sum(1) % (TOKENS - 1)).clone()  # the last token is never the next one


def spectrum(labels, **architecture):
    pair = (IDS, labels)
    return penchant.measure(
        "hessian-spectrum",
        architecture={**WRITER, **architecture},
        dataset={"name": "import", "factory": lambda: (pair, pair), "classes": TOKENS},
        matrices=["hessian"],
        split="train",
        executor="serial",
    ).quantities


def test_the_next_token_is_the_class_of_the_last_position():
    """Said twice: one position of the network, or labels that count at one position."""
    network = Writer()
    with pytest.raises(penchant.Error, match="-100 for none, or .* last with output_position = -1"):
        spectrum(NEXT, factory=network)
    one = spectrum(NEXT, factory=network, output_position=-1)
    labels = torch.full_like(IDS, -100)
    labels[:, -1] = NEXT
    every = spectrum(labels, factory=network)
    plain = nn.functional.cross_entropy(network(IDS)["logits"][:, -1], NEXT).detach()
    for found in (one, every):
        assert found["loss"].value == pytest.approx(float(plain), rel=1e-5)
    assert one["largest"].value == pytest.approx(every["largest"].value, rel=1e-4)
    assert (one["loss"].over, every["loss"].over) == ("samples", "sequences")


def test_a_position_that_there_is_not_is_refused():
    with pytest.raises(penchant.Error, match="gives 1 x 5 x 7, expected .* with output_position 5"):
        spectrum(NEXT, factory=Writer(), output_position=5)


def test_probes_that_differentiate_in_the_input_say_so():
    with pytest.raises(penchant.Error, match="needs continuous-inputs, .* inputs_from = "):
        penchant.measure("class-paths", architecture=Reader(), dataset=(IDS, LABELS))


def test_a_network_of_tokens_without_data_is_refused_with_the_hint():
    with pytest.raises(penchant.Error, match="it takes whole numbers, such as tokens: measure fr"):
        penchant.measure("nad", architecture=Reader, shape=(LENGTH,), outputs=CLASSES)


def test_features_that_are_whole_numbers_are_refused_with_the_hint():
    with pytest.raises(penchant.Error, match=r"takes floating-point numbers: give inputs.float"):
        kernel(architecture=nn.Linear(LENGTH, CLASSES))


def test_a_network_begins_at_a_layer():
    network = Reader()
    options = ImportedArchitecture(factory=network, inputs_from="embedding")
    split = build(options, (LENGTH,), CLASSES)
    samples = Samples(IDS, torch.zeros(len(IDS)))
    embedded = split.embed(Data(samples, samples, 0)).test.inputs
    torch.testing.assert_close(embedded, network.embedding(IDS))
    torch.testing.assert_close(split(embedded), network(IDS))
    # Gradients in the embedding, beside those by differences.
    x = embedded[:1].double().requires_grad_()
    split.double()
    (gradient,) = torch.autograd.grad(split(x).square().sum(), x)
    step = torch.zeros_like(x)
    step[0, 2, 1] = 1e-6
    with torch.no_grad():
        above, below = split(x + step).square().sum(), split(x - step).square().sum()
    assert float(gradient[0, 2, 1]) == pytest.approx(float(above - below) / 2e-6, rel=1e-6)
    assert list(split.state_dict()) == list(network.state_dict())
    with pytest.raises(penchant.Error, match="has no layer 'embeding'; did you mean 'embedding'"):
        build(ImportedArchitecture(factory=network, inputs_from="embeding"), (LENGTH,), CLASSES)


def test_probes_of_the_input_are_measured_from_the_embedding_on():
    reader = {"name": "import", "factory": Reader(), "inputs_from": "embedding"}
    found = penchant.measure(
        "class-paths", architecture=reader, dataset=(IDS, LABELS), executor="serial", pairs=1
    )
    assert found.shape == (LENGTH, 4)
    assert found.conventions["inputs"].startswith("outputs of the layer 'embedding'")


def test_sequences_are_read_and_refused_where_a_probe_takes_one_label():
    labels = IDS.roll(-1, 1)
    labels[:, -1] = -100
    with pytest.raises(penchant.Error, match="needs one label per sample, found 5 labels per s"):
        penchant.measure("cross-class", architecture=Reader(), dataset=(IDS, labels))


def test_labels_that_are_the_tokens_are_those_of_the_next_position():
    tokens = torch.arange(40).reshape(8, 5) % 7
    mask = torch.ones_like(tokens)
    mask[:, 4] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    rows = {"input_ids": tokens, "attention_mask": mask, "labels": labels}
    options = ImportedDataset.bind({"factory": {"train": rows, "test": rows}})
    data = load(options, torch.Generator())
    assert data.train.inputs.shape == (8, 2, 5) and data.positions == 5
    assert torch.equal(data.train.labels[:, :3], tokens[:, 1:4])
    assert (data.train.labels[:, 3:] == -100).all()
    assert data.warnings == ("labels are the inputs: taken for those of the next position",)
