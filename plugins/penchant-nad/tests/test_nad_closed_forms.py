"""NADs against closed forms, entry by entry, and the three methods against each other."""

import math

import numpy as np
import penchant
import pytest
from scipy.stats import norm


def corrected_point(count):
    """The two-sided 1 % point corrected for the number of comparisons."""
    return norm.isf(0.005 / count)


@pytest.mark.slow
def test_logistic_regression_is_isotropic():
    result = penchant.measure("nad", architecture="logistic", shape=(1, 16, 16), networks=1500)
    low, high = result.arrays["null-edges"]
    assert (result.arrays["eigenvalues"] > 0.97 * low).all()
    assert (result.arrays["eigenvalues"] < 1.03 * high).all()
    assert result.quantities["trace"].value == pytest.approx(1 / 3, rel=0.02)
    rank = result.quantities["effective-rank"]
    assert abs(rank.value - rank.null) < 5 * max(rank.null_spread, rank.stderr)


def test_linear_pooling_has_the_covariance_of_its_closed_form():
    """(s_p^2 s_t^2 / S) diag(m^2), entry by entry; the entries' standard errors follow from products of Gaussians."""
    size, stride, networks = 16, 4, 800
    result = penchant.measure(
        "nad",
        architecture={"name": "linear-pooling", "stride": stride},
        shape=(size,),
        networks=networks,
        store_matrix=True,
        dtype="float64",
        executor="serial",
    )
    moment = result.arrays["second-moment"]
    expected = np.eye(size) / stride
    # g_i = theta_{i mod M} phi_i / sqrt(S): E g_i^4 = 9 / S^2, and E (g_i g_j)^2 = 3 / S^2 where they share theta, else 1 / S^2
    inside = size // stride
    shares = (np.arange(size)[:, None] - np.arange(size)) % inside == 0
    variance = np.where(shares, 3, 1) / stride**2
    np.fill_diagonal(variance, 9 / stride**2 - 1 / stride**2)
    z = (moment - expected) / np.sqrt(variance / networks)
    upper = z[np.triu_indices(size)]
    assert np.abs(upper).max() < corrected_point(len(upper))
    assert np.abs(upper).mean() == pytest.approx(math.sqrt(2 / math.pi), abs=0.15)


@pytest.mark.slow
def test_one_hidden_relu_layer_is_isotropic_with_the_known_trace():
    """(H/2) s_t^2 s_P^2 I for Gaussian weights."""
    architecture = {
        "name": "mlp",
        "widths": [20],
        "initialization": "gaussian",
        "weight_std": 0.3,
        "bias": False,
    }
    estimators = {"directions": {"method": "autograd"}}
    result = penchant.measure(
        "nad",
        architecture=architecture,
        shape=(8,),
        networks=4000,
        store_matrix=True,
        estimators=estimators,
    )
    expected = 20 / 2 * 0.3**4
    trace = result.quantities["trace"]
    assert abs(trace.value - 8 * expected) < 4 * trace.stderr
    low, high = result.arrays["null-edges"]
    assert (result.arrays["eigenvalues"] < 1.1 * high).all()
    assert (result.arrays["eigenvalues"] > 0.9 * low).all()


def test_methods_answer_different_questions_but_impulse_is_the_limit():
    def directions(networks=4, **estimator):
        options = {
            "shape": (1, 16, 16),
            "networks": networks,
            "store_matrix": True,
            "executor": "serial",
            "estimators": {"directions": estimator},
        }
        return penchant.measure("nad", architecture="lenet", **options).arrays["second-moment"]

    def cosine(one, other):
        return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))

    impulse = directions(method="impulse")
    limit = directions(method="finite-difference", step=10_000.0)
    local = directions(method="autograd")
    assert cosine(impulse, limit) > 0.99
    assert cosine(impulse, local) < 0.95


@pytest.mark.slow
def test_lenet_is_not_isotropic():
    result = penchant.measure(
        "nad",
        architecture="lenet",
        shape=(1, 16, 16),
        networks=300,
        estimators={"directions": {"method": "autograd"}},
    )
    assert result.arrays["eigenvalues"][0] > 1.2 * result.arrays["null-edges"][1]
    rank = result.quantities["effective-rank"]
    assert rank.null - rank.value > 4 * (rank.stderr + rank.null_spread)


def test_centring_subtracts_the_mean_gradient():
    def moment(centred):
        options = {"shape": (4,), "networks": 50, "store_matrix": True, "executor": "serial"}
        return penchant.measure(
            "nad",
            architecture="logistic",
            estimators={"directions": {"centred": centred}},
            **options,
        )

    plain, centred = moment(False), moment(True)
    difference = plain.arrays["second-moment"] - centred.arrays["second-moment"]
    eigenvalues = np.linalg.eigvalsh(difference)
    assert eigenvalues[-1] > 0
    assert np.abs(eigenvalues[:-1]).max() < 1e-12
    assert "centred" in centred.conventions["second moment"]
