"""What the probe `cross-class` stores, against the definitions evaluated sample by sample on the very network and samples of a run."""

import numpy as np
import penchant_testing as testing
import pytest
import torch
from penchant_testing.builders import run_unreported
from torch.func import functional_call, jacrev

C = 3


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A result, and the extended gradients g_{i,c'} (n, C, P), probabilities and labels of its network and samples."""
    folder = tmp_path_factory.mktemp("run")
    run = run_unreported(
        {
            "seeds": [5],
            "executor": "serial",
            "figures": False,
            "dtype": "float64",
            "store_networks": True,
            "architectures": [{"name": "import", "factory": testing.TINY}],
            "datasets": [{"name": "import", "factory": "penchant_testing:tiny_samples"}],
            "probes": [{"name": "cross-class", "training": {"epochs": 2, "batch": 30}}],
        },
        folder / "run",
    )
    (result,) = run.results()
    (checkpoint,) = (folder / "run" / "networks").glob("*/step-6-*.pt")
    state = torch.load(checkpoint, weights_only=True)["network"]
    network = testing.tiny_network((4,), C).double()
    (x, y), _ = testing.tiny_samples(
        torch.Generator().manual_seed(testing.seed(5, "dataset", "import"))
    )
    x = x.double()
    columns = jacrev(lambda values: functional_call(network, values, (x,)))(state)
    J = torch.cat([each.reshape(len(x), C, -1) for each in columns.values()], dim=2)
    p = functional_call(network, state, (x,)).softmax(1)
    return (
        result,
        torch.einsum("nyq,ncy->ncq", J, p[:, None] - torch.eye(C, dtype=torch.float64)),
        p,
        y,
    )


def test_spectrum_and_trace_are_those_of_the_weighted_second_moment(measured):
    result, g, p, _ = measured
    G = torch.einsum("nc,ncq,ncr->qr", p / len(p), g, g)
    values = torch.linalg.eigvalsh(G).flip(0)
    spectrum = result.arrays["spectrum"]
    np.testing.assert_allclose(spectrum, values[: len(spectrum)], rtol=1e-8, atol=1e-12)
    assert float(values[len(spectrum) :].abs().sum()) < 1e-10 * float(values[0])
    assert result.quantities["trace-total"].value == pytest.approx(float(G.trace()), rel=1e-10)
    assert result.quantities["largest-gauss-newton"].value == pytest.approx(
        float(values[0]), rel=1e-10
    )


def test_components_have_their_eigenvalues(measured):
    result, g, p, y = measured
    w = p / len(p)
    pairs = torch.stack([w[y == c].sum(0) for c in range(C)])
    means = torch.stack(
        [torch.einsum("nc,ncq->cq", w[y == c], g[y == c]) / pairs[c][:, None] for c in range(C)]
    )
    off = [(c, k) for c in range(C) for k in range(C) if c != k]
    classes = torch.stack(
        [sum(pairs[c, k] * means[c, k] for k in range(C) if k != c) for c in range(C)]
    )
    weights = torch.stack([pairs[c].sum() - pairs[c, c] for c in range(C)])
    classes = classes / weights[:, None]
    components = {
        "class": weights.sqrt()[:, None] * classes,
        "cross": torch.stack([pairs[c, k].sqrt() * (means[c, k] - classes[c]) for c, k in off]),
        "diagonal": torch.stack([pairs[c, c].sqrt() * means[c, c] for c in range(C)]),
    }
    components["means"] = torch.cat(list(components.values()))
    for name, rows in components.items():
        values = torch.linalg.eigvalsh(rows.T @ rows).flip(0)
        found = result.arrays[f"eigenvalues-{name}"]
        np.testing.assert_allclose(
            found, values[: len(found)], rtol=1e-8, atol=1e-10 * float(values[0])
        )
        assert float(values[len(found) :].abs().sum()) < 1e-10 * float(values[0])
        if name != "means":
            assert result.quantities[f"trace-{name}"].value == pytest.approx(
                float(rows.square().sum()), rel=1e-9
            )
    within = [(w[y == c, :, None] * (g[y == c] - means[c]).square()).sum() for c in range(C)]
    np.testing.assert_allclose(
        result.arrays["within-average"],
        [float(own) / int((y == c).sum()) for c, own in enumerate(within)],
        rtol=1e-9,
    )
    assert result.quantities["trace-within"].value == pytest.approx(float(sum(within)), rel=1e-9)
    for name, component, rank in (
        ("outliers-to-bulk", "class", C),
        ("mini-bulk-to-bulk", "cross", C * (C - 2)),
    ):
        mean = float(components[component].square().sum()) / rank
        expected = mean / float(sum(within))
        assert result.quantities[name].value == pytest.approx(expected, rel=1e-9)
