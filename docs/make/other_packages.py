"""Tangent kernels and curvature beside nngeometry and curvlinops, in double precision.

`python docs/make/other_packages.py FOLDER` writes `table.json`; the gallery shows it. Numbers are
relative Frobenius differences. The control compares with the other package's matrix of a network
that was drawn anew, which must differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import curvlinops
import torch
from nngeometry.gram import GramMatrix
from penchant_numerics.curvature import GaussNewton, Hessian
from penchant_numerics.layers import tangent_kernel
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, CLASSES = 12, 3


def perceptron() -> nn.Module:
    """Two hidden layers of tanh units."""
    layers = [nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, CLASSES)]
    return nn.Sequential(nn.Flatten(), *layers)


def convolutional() -> nn.Module:
    """Two convolutions, a stride, and a linear layer."""
    first, second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": perceptron,
    "convolutional": convolutional,
}
Data = tuple[Tensor, Tensor]


def kernels(network: nn.Module, other: nn.Module, data: Data) -> tuple[Tensor, Tensor]:
    """Our tangent kernel of a network, and nngeometry's of the other."""
    loader = DataLoader(TensorDataset(data[0]), batch_size=SAMPLES)
    theirs = GramMatrix(other, loader).data.detach()
    size = SAMPLES * CLASSES
    return tangent_kernel(network, data[0]), theirs.permute(1, 0, 3, 2).reshape(size, size)


def products(ours: Any, theirs: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    """A product of our operator with random vectors, and the same of curvlinops."""

    def compare(network: nn.Module, other: nn.Module, data: Data) -> tuple[Tensor, Tensor]:
        operator = ours(network, data, batch=4)
        generator = torch.Generator(device="cpu").manual_seed(1)
        v = torch.randn(operator.size, generator=generator, dtype=torch.float64, device="cpu")
        batches = list(zip(data[0].split(4), data[1].split(4), strict=True))
        peer = theirs(
            other,
            nn.CrossEntropyLoss(),
            list(other.parameters()),
            batches,
            check_deterministic=False,
        )
        return operator @ v, (peer @ v).detach()

    return compare


COMPARED = {
    "tangent-kernel": ("nngeometry", kernels),
    "gauss-newton": ("curvlinops", products(GaussNewton, curvlinops.GGNLinearOperator)),
    "hessian": ("curvlinops", products(Hessian, curvlinops.HessianLinearOperator)),
}


def main(folder: Path) -> None:
    """Compare everything with everything and write the table."""
    torch.set_default_dtype(torch.float64)
    quantities: dict[str, dict[str, Any]] = {}
    rows = [["matrix", "package", "network", "relative difference", "another network"]]
    for name, (package, compare) in COMPARED.items():
        same, fresh = [], []
        for title, make in NETWORKS.items():
            torch.manual_seed(0)
            network, other = make(), make()
            data = (torch.randn(SAMPLES, 1, 6, 6), torch.randint(CLASSES, (SAMPLES,)))
            same.append(relative(*compare(network, network, data)))
            fresh.append(relative(*compare(network, other, data)))
            rows.append([name, package, title, f"{same[-1]:.1e}", f"{fresh[-1]:.1e}"])
        quantities[f"difference-{name}"] = {"value": max(same)}
        quantities[f"other-network-{name}"] = {"value": min(fresh)}
    found = {"name": "packages", "probe": "", "quantities": quantities}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {**found, "places": {}, "pictures": [], "warnings": [], "rows": rows}, indent=1
    )
    (folder / "table.json").write_text(text + "\n")


def relative(ours: Tensor, theirs: Tensor) -> float:
    """Frobenius norm of the difference over that of the other package's matrix."""
    return float((ours.detach() - theirs).norm() / theirs.norm())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
