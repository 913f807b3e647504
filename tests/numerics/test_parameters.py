"""Parameters: chosen by name, laid out in a row, and watched for changes."""

import pytest
import torch
from penchant_numerics.jacobians import Layout, Unchanged, select, trainable_names
from torch import nn


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def network():
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)))


def test_parameters_are_chosen_by_name_layer_and_wildcard():
    assert list(select(network(), "1.0")) == ["1.0.weight", "1.0.bias"]
    assert list(select(network(), ["*.bias"])) == ["0.bias", "1.0.bias", "1.1.bias"]
    with pytest.raises(ValueError, match="'0.wieght'; similar names: 0.weight"):
        select(network(), "0.wieght")
    with pytest.raises(ValueError, match=r"the first names are 0.weight, .*, 1.1.bias \(of 6\)"):
        select(network(), "qqq")


def test_frozen_parameters_are_left_out_when_asked():
    frozen = network()
    frozen[0].requires_grad_(False)
    assert len(select(frozen)) == 6
    assert trainable_names(frozen, "*.bias") == ("1.0.bias", "1.1.bias")
    assert list(select(frozen, "0", trainable_only=True)) == []


def test_layout_splits_and_joins():
    layout = Layout({"a": normal(2, 3), "b": normal()})
    row = normal(layout.size, seed=1)
    torch.testing.assert_close(layout.join(layout.split(row)), row)
    block = normal(4, layout.size, seed=2)
    torch.testing.assert_close(layout.join(layout.split(block), leading=1), block)
    layout.add_(block, layout.split(block.clone()))
    torch.testing.assert_close(block, 2 * normal(4, layout.size, seed=2))
    layout.write_(row, [torch.ones(2, 3), torch.tensor(7.0)])
    assert row.tolist() == [1.0] * 6 + [7.0]
    assert list(layout.named(row)) == ["a", "b"]


def test_a_layout_has_one_precision_and_something_in_it():
    with pytest.raises(ValueError, match="b is torch.float32 on cpu, a torch.float64 on cpu"):
        Layout({"a": normal(2), "b": normal(2).float()})
    with pytest.raises(ValueError, match="expected at least one"):
        Layout({})


CHANGES = {
    "a step": lambda p: p.add_(0.1),
    "data": lambda p: p.data.add_(0.1),
    "one number": lambda p: p.data[1, 2].add_(1e-9),
    "rows permuted": lambda p: p.data.copy_(p.data[[1, 0]].clone()),
    "signs": lambda p: p.data.neg_(),
    "not a number": lambda p: p.data.fill_(float("nan")),
}


@pytest.mark.parametrize("width", [3, 10_000])
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_change_in_place_is_seen(change, width):
    weight, bias = nn.Parameter(normal(2, width)), nn.Parameter(normal(3, seed=1))
    same = Unchanged({"weight": weight.detach(), "bias": bias.detach()})
    assert same.first_changed() is None
    with torch.no_grad():
        change(weight)
    assert same.first_changed() == "weight"


def test_parameters_that_are_no_numbers_may_stay_so():
    weight = torch.full((2, 2), float("nan"), device="cpu")
    assert Unchanged({"weight": weight}).first_changed() is None
