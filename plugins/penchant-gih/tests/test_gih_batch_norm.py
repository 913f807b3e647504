"""Batch-norm statistics of the geometry: running, of the batch, calibrated."""

import numpy as np
import penchant
import pytest
import torch
from scipy.stats import t
from torch import nn

FAST = {"executor": "serial", "figures": False}
POSITIONS, TAPS = 4, 3
INPUTS = POSITIONS + TAPS - 1


class NormalisedPositions(nn.Module):
    """The network of corollary A.4: one linear kernel, each position normalised, their average."""

    def __init__(self, scale):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(TAPS))
        nn.init.normal_(self.kernel, 0.0, scale)
        self.norm = nn.BatchNorm1d(POSITIONS, affine=False, eps=1e-12)

    def forward(self, x):
        patches = x.unfold(1, TAPS, 1)  # (samples, positions, taps)
        return self.norm(patches @ self.kernel).mean(1, keepdim=True)


def geometry(batch_norm, scale=1.0, networks=400, **options):
    estimator = {"name": "average-geometry", "batch_norm": batch_norm, **options}
    return penchant.measure(
        "average-geometry",
        architecture=lambda: NormalisedPositions(scale),
        shape=(INPUTS,),
        networks=networks,
        estimators={"directions": estimator},
        **FAST,
    )


def test_calibrated_statistics_of_white_inputs_give_the_inner_matrix_of_corollary_a_4():
    """White inputs: sigma_j = s |theta|, so E[theta theta^T / sigma^2] = I / (taps s^2)."""
    s = 0.5
    result = geometry("calibrated", scale=s, networks=400)
    # the calibration inputs are those of the probing law, N(0, 1)
    P = np.zeros((INPUTS, TAPS))
    for position in range(POSITIONS):
        P[position + np.arange(TAPS), np.arange(TAPS)] += 1
    exact = P @ P.T / (POSITIONS**2 * TAPS)
    found, stderr = result.arrays["geometry"], result.arrays["geometry-stderr"]
    # Student's t of six groups, corrected for 21 entries
    assert (np.abs(found - exact) / stderr).max() < t.ppf(1 - 0.005 / 21, 5)
    assert np.trace(found) == pytest.approx(np.trace(exact), rel=0.03)
    assert result.conventions["batch-norm"] == "calibrated statistics"


def traces(policy, **options):
    """Traces of the same networks with small and with large weights."""
    results = [geometry(policy, scale, networks=24, **options) for scale in (1.0, 10.0)]
    return [result.quantities["trace"].value for result in results]


@pytest.mark.parametrize(("policy", "options"), [("calibrated", {}), ("batch", {"inputs": 8})])
def test_normalised_networks_do_not_know_the_size_of_their_weights(policy, options):
    small, large = traces(policy, **options)
    assert small == pytest.approx(large, rel=1e-3)


def test_running_statistics_of_fresh_networks_leave_the_size_of_their_weights():
    small, large = traces("running")
    assert large / small == pytest.approx(100, rel=1e-4)


@pytest.mark.parametrize("policy", ["running", "batch", "calibrated"])
def test_trained_networks_are_probed_with_the_statistics_asked_for(policy):
    circles = {"name": "two-circles", "input_shape": [4], "train": 40, "test": 20}
    result = penchant.measure(
        "geometry-training",
        architecture={"name": "mlp", "widths": [4], "normalization": "batch"},
        dataset=circles,
        data="dataset",
        batch_norm=policy,
        trainings=3,
        networks=12,
        inputs=4,
        eval_steps=(1,),
        training={"steps": 1, "batch": 20},
        **FAST,
    )
    expected = {"running": "running statistics", "calibrated": "calibrated statistics"}
    wanted = expected.get(policy, "statistics of the batch of probing inputs")
    assert result.conventions["trained batch-norm"] == wanted


SCALES = np.array([0.5, 1.0, 2.0, 1.5, 0.7, 1.2])


def inner_matrices(kernels):
    """E[theta theta^T / (sigma_i sigma_j)] of corollary A.4, (positions, positions, taps, taps)."""
    covariances = [np.diag(SCALES[place : place + TAPS] ** 2) for place in range(POSITIONS)]
    variances = np.einsum("ta,pab,tb->tp", kernels, covariances, kernels)
    scaled = kernels[:, None] / np.sqrt(variances)[:, :, None]
    return np.einsum("tpa,tqb->pqab", scaled, scaled) / len(kernels)


def test_inner_matrices_have_their_closed_form_in_two_dimensions():
    """Where position i sees variances a, b: E[cos^2 / (a cos^2 + b sin^2)] over an angle."""
    kernels = np.random.default_rng(0).standard_normal((100_000, TAPS))
    kernels[:, 2] = 0
    a, b = SCALES[:2]
    found = inner_matrices(kernels)[0, 0]
    assert found[0, 0] == pytest.approx(1 / (a * (a + b)), rel=0.01)
    assert found[1, 1] == pytest.approx(1 / (b * (a + b)), rel=0.01)


def test_the_bound_of_corollary_a_4_holds_with_the_number_of_taps():
    """E[theta theta^T / |theta|^2] is I / taps: printed without it, the lower bound is wrong."""
    inner = inner_matrices(np.random.default_rng(1).standard_normal((20_000, TAPS)))
    windows = np.lib.stride_tricks.sliding_window_view(SCALES, TAPS)
    low, high = windows.min(1), windows.max(1)
    for first in range(POSITIONS):
        for second in range(POSITIONS):
            values = np.linalg.eigvalsh(inner[first, second])
            least = 1 / (high[first] * high[second])
            most = 1 / (low[first] * low[second])
            assert least / TAPS <= values[0] and values[-1] <= most / TAPS
            assert values[0] < least, "the printed bound would hold"


def test_geometry_on_structured_data_is_that_of_the_inner_matrices():
    generator = torch.Generator(device="cpu").manual_seed(0)
    inputs = torch.randn(4000, INPUTS, generator=generator, device="cpu") * torch.tensor(SCALES)
    targets = inputs[:, 0].float()  # numbers: one output
    result = penchant.measure(
        "average-geometry",
        architecture=lambda: NormalisedPositions(1.0),
        dataset=(inputs.float(), targets),
        networks=200,
        estimators={
            "directions": {
                "name": "average-geometry",
                "batch_norm": "calibrated",
                "probing": "data",
            }
        },
        **FAST,
    )
    inner = inner_matrices(np.random.default_rng(2).standard_normal((20_000, TAPS)))
    exact = np.zeros((INPUTS, INPUTS))
    for first in range(POSITIONS):
        for second in range(POSITIONS):
            rows, columns = first + np.arange(TAPS), second + np.arange(TAPS)
            exact[np.ix_(rows, columns)] += inner[first, second] / POSITIONS**2
    found, stderr = result.arrays["geometry"], result.arrays["geometry-stderr"]
    assert (np.abs(found - exact) / stderr).max() < t.ppf(1 - 0.005 / 21, 5)
    assert np.trace(found) == pytest.approx(np.trace(exact), rel=0.06)
