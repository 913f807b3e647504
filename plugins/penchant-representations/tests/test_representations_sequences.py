"""Sequences with a label at every position, against features made by hand."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_representations.representation_similarity.layer_grams import layer_grams
from torch import nn

IGNORED = -100
SMALL = {"samples": 30, "groups": 3, "shuffles": 3, "neighbours": 2, "training": {"steps": 0}}
TAGGER = {"name": "import", "factory": testing.tiny.TAGGER}


def tagger():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Embedding(6, 3), nn.Linear(3, 5), nn.Linear(5, 4)).double()


def test_positions_without_a_label_are_left_out():
    draws = torch.Generator("cpu").manual_seed(0)
    tokens = torch.randint(6, (7, 4), generator=draws, device="cpu")
    lengths = torch.tensor([1, 2, 3, 4, 4, 2, 3], device="cpu")
    behind = torch.arange(4, device="cpu") < lengths[:, None]
    # of one vector the same positions of all
    inside = torch.tensor([False, True, True, False], device="cpu").expand(7, 4)
    network = tagger()
    first = network[1](network[0](tokens)).detach()
    for positions, counted in (("mean", behind), ("flatten", inside)):
        grams = layer_grams(network, tokens, ["1", "2"], positions=positions, counted=counted)
        for made, gram in zip((first, network[2](first).detach()), grams):
            rows = []
            for sequence, chosen in zip(made, counted):
                own = sequence[chosen]
                rows.append(own.mean(0) if positions == "mean" else own.flatten())
            X = torch.stack(rows)
            X = X - X.mean(0)
            assert torch.allclose(gram, X @ X.T, atol=1e-12)


class Digits(nn.Module):
    """Two layers that see independent tokens: one the first digit of a number, one the second."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.embedding = nn.Embedding(40, 6)
            self.one, self.other = nn.Linear(6, 5), nn.Linear(6, 5)
        self.one.bias.data += 2.0  # what zeros behind short sequences differ from
        self.other.bias.data += 2.0

    def forward(self, tokens):
        first, second = tokens // 40, tokens % 40
        return self.one(self.embedding(first)) + self.other(self.embedding(second))


def padded(generator):
    """As many positions count as the sequence is long."""
    splits = []
    for n in (20, 300):
        tokens = torch.randint(1600, (n, 12), generator=generator, device="cpu")
        labels = torch.randint(5, (n, 12), generator=generator, device="cpu")
        lengths = torch.randint(2, 13, (n, 1), generator=generator, device="cpu")
        labels[torch.arange(12, device="cpu") >= lengths] = IGNORED
        splits.append((tokens, labels))
    return tuple(splits)


def test_padding_is_no_similarity():
    """Zeros behind short sequences gave two layers on independent tokens a CKA of 0.9."""

    def measured(**options):
        return penchant.measure(
            "representation-similarity",
            architecture={"name": "import", "factory": Digits},
            dataset={"name": "import", "factory": padded},
            training={"steps": 0},
            samples=300,
            **options,
        )

    with pytest.raises(penchant.Error, match=r'2 to 12 positions .* positions = "mean"'):
        measured()
    cka = measured(positions="mean").quantities["cka"]
    assert abs(cka.value) < 0.05


def whole(generator):
    """A label at every position."""
    splits = testing.tiny.tiny_sequences(generator)
    return tuple((tokens, labels.clamp(min=0)) for tokens, labels in splits)


def with_one_label(generator):
    (train, _), (test, _) = testing.tiny.tiny_sequences(generator)
    first = testing.tiny.FIRST_TOKEN
    return (train, train[:, 2] - first), (test, test[:, 2] - first)


class Flat(nn.Module):
    """The tagger with all positions as outputs of one sample, for data with one label."""

    def __init__(self):
        super().__init__()
        self.inside = testing.tiny.tiny_tagger((5,), 8)

    def forward(self, tokens):
        return self.inside(tokens)[:, 0]


def test_labels_at_all_positions_change_nothing_about_representations():
    """Representations do not depend on labels: the same numbers as for one label per sample."""
    found = penchant.measure(
        "representation-similarity",
        architecture=TAGGER,
        dataset={"name": "import", "factory": whole},
        **SMALL,
    )
    plain = penchant.measure(
        "representation-similarity",
        architecture={"name": "import", "factory": Flat},
        dataset={"name": "import", "factory": with_one_label},
        **SMALL,
    )
    assert found.quantities["cka"].over == "sequences"
    for name in ("cka", "procrustes", "neighbours"):
        assert found.arrays[f"{name}-layers"] == pytest.approx(plain.arrays[f"{name}-layers"])


def without_labels(generator):
    """Some sequences have no label at all."""
    (train, labels), (test, truth) = testing.tiny.tiny_sequences(generator)
    truth = truth.clone()
    truth[:6] = IGNORED
    return (train, labels), (test, truth)


def test_sequences_without_a_label_are_left_out():
    result = penchant.measure(
        "representation-similarity",
        architecture=TAGGER,
        dataset={"name": "import", "factory": without_labels},
        **SMALL,
    )
    assert result.conventions["samples"] == "24 test sequences in 3 minibatches"
