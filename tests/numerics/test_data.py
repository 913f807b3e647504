"""Samples, data and independent random streams."""

import numpy as np
import pytest
import torch
from penchant_numerics.data import Data, Samples, as_data, streams


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def samples(count=4, classes=2):
    labels = torch.arange(count, device="cpu") % classes
    return Samples(torch.ones(count, 3, device="cpu"), labels)


def test_streams_have_the_seeds_of_one_draw_and_more_begin_with_fewer():
    seeds = torch.randint(2**63 - 1, (3,), generator=generator(), device="cpu").tolist()
    assert [each.initial_seed() for each in streams(generator(), 3)] == seeds
    assert [each.initial_seed() for each in streams(generator(), 40)][:3] == seeds


def test_how_much_is_drawn_from_one_stream_changes_nothing_in_another():
    first, second = streams(generator(), 2)
    torch.rand(100, generator=first, device="cpu")
    again = streams(generator(), 2)[1]
    drawn, expected = (torch.rand(5, generator=each, device="cpu") for each in (second, again))
    assert torch.equal(drawn, expected)


def test_labels_that_are_classes_stay_whole_numbers():
    found = samples().to("cpu", torch.float64)
    assert found.inputs.dtype == torch.float64 and found.labels.dtype == torch.int64


def test_the_first_samples_of_each_class_are_chosen_in_their_order():
    labels = torch.tensor([0, 0, 1, 0, 1, 1], device="cpu")
    chosen = Samples(torch.arange(6, device="cpu"), labels).first_of_each_class(2)
    assert chosen.inputs.tolist() == [0, 1, 2, 4]


def test_outputs_are_classes_or_components_of_a_label():
    assert Data(samples(), samples(), classes=2).outputs == 2
    wide = Samples(torch.ones(2, 3, device="cpu"), torch.ones(2, 5, device="cpu"))
    data = Data(wide, wide, classes=0)
    assert data.outputs == 5 and data.shape == (3,)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (Samples(torch.ones(3, 1, device="cpu"), torch.zeros(2, device="cpu")), "3 inputs but 2"),
        (Samples(torch.ones(0, 1, device="cpu"), torch.zeros(0, device="cpu")), "no samples"),
        (samples()._replace(inputs=torch.full((4, 3), torch.nan, device="cpu")), "not finite"),
        (samples(classes=3), r"0\.\.1, found 0\.\.2"),
    ],
)
def test_data_that_cannot_be_right_are_refused(train, message):
    with pytest.raises(ValueError, match=message):
        as_data((train, samples(), 2))


def test_samples_on_a_device_are_summed_without_a_copy(monkeypatch):
    """A copy in double precision and its square need four times the memory of the dataset."""
    from penchant.execution.job import fingerprints

    values = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    exact = values.numpy().astype(np.float64)

    def copied(tensor):
        raise AssertionError("the inputs were copied")

    monkeypatch.setattr(torch.Tensor, "double", copied)
    found = fingerprints._sums(values)
    assert found == pytest.approx([exact.sum(), np.linalg.norm(exact)], rel=1e-12)
    changed = values.clone()
    changed[3, 4] += 1e-4
    assert fingerprints._sums(changed) != fingerprints._sums(values)
