"""What spectra of the Hessian cost is counted before, and said where it is hours."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.hessian_spectrum import work_ahead as works
from penchant_class_structure.hessian_spectrum.work_ahead import (
    forward_operations,
    products_requested,
)
from penchant_numerics.curvature import GaussNewton, Hessian
from torch import nn

SMALL = {
    "split": "train",
    "exact_limit": 0,
    "lanczos_steps": 6,
    "starts": 2,
    "grid_points": 16,
    "iterations": 4,
    "leading": 2,
    "trace_samples": 3,
}


def measure(**options):
    return penchant.measure(
        "hessian-spectrum",
        architecture={"name": "import", "factory": testing.TINY},
        dataset={"name": "import", "factory": "penchant_testing:tiny_samples"},
        training={"steps": 0},
        executor="serial",
        **{**SMALL, **options},
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "subspace"},
        {"deflate": False},
        {"undeflated": True},
        {"matrices": ("hessian",)},
        {"matrices": ("residual",)},
    ],
    ids=str,
)
def test_no_more_products_are_made_than_were_counted(monkeypatch, options):
    made = {}
    for kind, name in ((Hessian, "hessian"), (GaussNewton, "gauss-newton")):
        made[name] = 0

        def counted(self, rows, *rest, name=name, before=kind.add_product):
            made[name] += len(rows)
            return before(self, rows, *rest)

        monkeypatch.setattr(kind, "add_product", counted)
    # G goes by its factor, forth and back
    forth = GaussNewton.adjoint_batch

    def counted_forth(self, rows, *rest):
        made["gauss-newton"] += len(rows)
        return forth(self, rows, *rest)

    monkeypatch.setattr(GaussNewton, "adjoint_batch", counted_forth)
    measure(**options)
    requested = products_requested(HessianSpectrum(**{**SMALL, **options}), leading=2)
    for name, count in made.items():
        if "gauss-newton" in options.get("matrices", ("gauss-newton",)):
            # eigenvectors in sample space, and the error of the largest
            count -= 2 + 1 if name == "gauss-newton" else 0
        assert 0.5 * requested[name] <= count <= requested[name] or count == requested[name] == 0


def test_operations_of_a_forward_pass_are_those_of_its_matrices():
    network = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    found = forward_operations(network, torch.ones(4, 10, device="cpu"))
    assert found == 2 * (10 * 20 + 20 * 3)


def test_hours_are_announced_in_the_result_and_at_once(monkeypatch):
    assert not any("hours of" in text for text in measure().warnings)
    monkeypatch.setitem(works.RATES, "cpu", 1.0)
    with pytest.warns(UserWarning, match="at most 47 products with the Hessian and 47 with G, of"):
        result = measure(iterations=2, per_class=1000)
    (said,) = [text for text in result.warnings if "products" in text]
    assert "hours of one CPU core" in said
    assert "`lanczos_steps`" in said


def test_hours_that_nobody_asked_for_are_refused(monkeypatch):
    monkeypatch.setitem(works.RATES, "cpu", 1.0)
    with pytest.raises(penchant.Error, match=r"hours of one CPU core.* `per_class` says of how"):
        measure(iterations=2)


class Wide(nn.Module):
    """A network of one's own with 2,000 parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 60), nn.Tanh(), nn.Linear(60, 10))

    def forward(self, inputs):
        return self.layers(inputs)


def of_ones_own(samples=300, **options):
    torch.manual_seed(0)
    data = torch.randn(samples, 20), torch.arange(samples) % 10
    small = {"grid_points": 16, "executor": "serial", **options}
    return penchant.measure("hessian-spectrum", architecture=Wide(), dataset=data, **small)


def test_a_network_of_ones_own_has_about_a_minute_by_default(monkeypatch):
    """As counted: at a rate at which everything takes long, the Hessian of fewer samples."""
    monkeypatch.setitem(works.RATES, "cpu", 1e6)
    found = of_ones_own()
    assert "lanczos_steps" in found.conventions["default"]
    assert found.conventions["default samples"].startswith("100 of 240, chosen by the seed")
    assert not any(name.startswith("test-") for name in found.quantities)
    assert "trace-gauss-newton" not in found.quantities
    other = of_ones_own(seed=1).quantities["trace-hessian"].value
    assert other != found.quantities["trace-hessian"].value


def test_what_was_chosen_stays_chosen(monkeypatch):
    monkeypatch.setitem(works.RATES, "cpu", 1e6)
    chosen = of_ones_own(matrices=("gauss-newton",), lanczos_steps=8)
    assert "trace-gauss-newton" in chosen.quantities
    assert "matrices" not in chosen.conventions["default"]
    monkeypatch.setitem(works.RATES, "cpu", 5e10)
    assert "default" not in of_ones_own(samples=60, lanczos_steps=8, iterations=2).conventions
    few = of_ones_own(samples=1500, lanczos_steps=8, iterations=2, matrices=("hessian",))
    assert few.conventions["default samples"].startswith("1000 of 1,200")


@pytest.mark.parametrize("probe", ["neural-collapse", "layer-structure"])
def test_of_samples_of_ones_own_about_a_thousand_are_measured(probe):
    data = torch.randn(2500, 20), torch.arange(2500) % 10

    def found(**options):
        torch.manual_seed(0)
        return penchant.measure(probe, architecture=Wide(), dataset=data, **options).conventions

    assert found()["default samples"].startswith("1,000 of 2,000, chosen by the seed")
    assert "default samples" not in found(per_class=20)
