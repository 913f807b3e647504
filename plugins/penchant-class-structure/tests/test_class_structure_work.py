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
        result = measure(iterations=2)
    (said,) = [text for text in result.warnings if "products" in text]
    assert "hours of one CPU core" in said
    assert "`lanczos_steps`" in said
