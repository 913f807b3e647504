"""Numerics against dense autodiff in double precision, and nulls against simulation."""

import math

import penchant
import pytest
import torch
from penchant_gih.average_geometry import frequency_shares
from penchant_gih.direction_generalization.labels import Labeller, isotropic_inputs
from penchant_gih.feature_elimination import probe
from penchant_gih.feature_elimination.probe import (
    equal_count,
    explained,
    least_aligned,
    random_rows,
    without,
)
from penchant_gih.geometry_evolution.evolution import RESIDUALS, Evolution, Flow, mixed_products
from penchant_gih.input_curvature.probe import curvature_terms, loss_derivatives
from penchant_gih.shared.containment import containment_null
from penchant_gih.shared.geometry import GROUPS, Geometry, flipped, scores
from penchant_gih.shared.gradients import probed_gradients
from penchant_gih.shared.projected import Projected, quadratic_forms, squared_products
from penchant_numerics.curvature import loss_function
from penchant_numerics.data import Samples
from penchant_numerics.device import safe
from penchant_numerics.inputs import (
    corr_of_sampled,
    corr_with_fixed,
    distinct_mean,
    unbiased_square,
)
from penchant_numerics.training import Ensemble
from torch import nn
from torch.func import functional_call, hessian, jacfwd, jacrev

CPU = {"device": "cpu", "dtype": torch.float64}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator(device="cpu").manual_seed(seed), **CPU)


def smooth_networks(count=3, seed=0):
    """An ensemble of small GELU convolutions in double precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)
        ).double()
    state = {
        name: normal(count, *tensor.shape, seed=5) for name, tensor in module.named_parameters()
    }
    return Ensemble(module.requires_grad_(False), state, "given")


def outputs(ensemble, state, x):
    both = functional_call(ensemble.module, state, (x,))
    return both[..., 1] - both[..., 0]


def states(ensemble):
    return [
        {name: tensor[n] for name, tensor in ensemble.state.items()} for n in range(len(ensemble))
    ]


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("batch", [2, 7])
def test_mixed_products_equal_the_dense_mixed_derivative(residual, batch):
    networks, inputs, labels = (
        smooth_networks(),
        normal(7, 1, 6, 6, seed=1),
        normal(7, seed=2).sign(),
    )
    points = normal(3, 1, 1, 6, 6, seed=3)
    flow = Flow(inputs, labels, labels.flip(0), RESIDUALS[residual], batch=batch)
    along, taken = flow.parameter_gradients(networks)
    found, difference = (
        mixed_products(networks, along, points),
        mixed_products(networks, taken, points),
    )
    for n, state in enumerate(states(networks)):
        mixed = jacfwd(jacrev(lambda w, x: outputs(networks, w, x)[0]), argnums=1)(
            state, points[n]
        )  # d^2 f / d theta d x
        slopes = jacrev(lambda w: outputs(networks, w, inputs))(state)
        values = outputs(networks, state, inputs)
        for right, mine in ((labels, found), (labels.flip(0), found - difference)):
            r = RESIDUALS[residual](values, right)
            dense = sum(
                torch.einsum(
                    "mp,m,px->x",
                    slopes[k].flatten(1),
                    r,
                    mixed[k].reshape(slopes[k][0].numel(), -1),
                )
                for k in state
            )
            assert torch.allclose(mine[n, 0], dense, rtol=1e-9, atol=1e-9)


def test_gradients_equal_one_network_after_another():
    networks, points = smooth_networks(), normal(3, 4, 1, 6, 6, seed=3)
    found = probed_gradients(networks, points)
    for n, state in enumerate(states(networks)):
        x = points[n].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(outputs(networks, state, x).sum(), x)
        assert torch.allclose(found[n], gradient.flatten(1), rtol=1e-10)


def test_evolution_is_the_time_derivative_of_the_geometry():
    """One small Euler step of gradient flow moves g g^T by Delta times its length: a finite difference in time."""
    networks, inputs, labels = (
        smooth_networks(),
        normal(7, 1, 6, 6, seed=1),
        normal(7, seed=2).sign(),
    )
    points = normal(3, 1, 1, 6, 6, seed=3)
    flow = Flow(inputs, labels, labels, RESIDUALS["squared-error"], batch=7)
    along = flow.parameter_gradients(networks)[0]
    evolution = Evolution(36, device="cpu", groups=3)
    evolution.add(mixed_products(networks, along, points), probed_gradients(networks, points))

    def moment(length):
        moved = {name: tensor - length * along[name] for name, tensor in networks.state.items()}
        rows = probed_gradients(Ensemble(networks.module, moved, "moved"), points)[:, 0]
        return rows.T @ rows / len(rows)

    errors = [
        float(
            ((moment(h) - moment(-h)) / (2 * h) - evolution.matrix()).abs().max()
            / evolution.matrix().abs().max()
        )
        for h in (1e-5, 5e-6)
    ]
    assert errors[0] < 1e-3
    assert 3 < errors[0] / errors[1] < 5  # second order


def test_evolution_errors_and_parts_equal_plain_ones():
    v, g = normal(13, 3, 5, seed=1), normal(13, 3, 5, seed=2)  # 13 networks, 3 inputs each
    evolution = Evolution(5, device="cpu", groups=4)
    for rows in (slice(0, 6), slice(6, 7), slice(7, 13)):
        evolution.add(v[rows], g[rows])
    own = -torch.einsum("npi,npj->nij", v, g) / 3
    own = own + own.mT
    assert torch.allclose(evolution.matrix(), own.mean(0))
    assert torch.allclose(evolution.stderr(), own.std(0) / math.sqrt(13))
    for group in range(4):
        assert torch.allclose(evolution.group(group), own[group::4].mean(0))


def test_geometry_and_its_parts_equal_plain_ones():
    gradients = normal(13, 3, 4, seed=1)  # 13 networks, 3 inputs each
    geometry = Geometry(4, device="cpu", inputs=3)
    for rows in (slice(0, 5), slice(5, 13)):
        geometry.add(gradients[rows])
    found = geometry.directions()
    own = torch.einsum("npi,npj->nij", gradients, gradients) / 3
    traces = own.diagonal(dim1=1, dim2=2).sum(1)
    assert torch.allclose(found.matrix, own.mean(0))
    assert found.trace == pytest.approx(float(traces.mean()))
    assert found.trace_stderr == pytest.approx(float(traces.std()) / math.sqrt(13))
    assert found.networks == 13 and found.squared_norms is None
    for group in range(GROUPS):
        assert torch.allclose(found.groups[group], own[group::GROUPS].mean(0))
    for group in range(GROUPS):
        others = torch.cat([found.groups[:group], found.groups[group + 1 :]])
        left = torch.linalg.eigvalsh(others.mean(0)).flip(0)
        assert torch.allclose(found.jackknife[group], left)


def test_gradients_at_a_batch_with_batch_statistics_are_those_of_the_own_input():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()
    module = safe(module, batch_norm="batch").requires_grad_(False)
    state = {name: normal(2, *t.shape, seed=5) for name, t in module.named_parameters()}
    networks, points = Ensemble(module, state, "given"), normal(2, 5, 3, seed=3)
    found = probed_gradients(networks, points, rows_mix=True)
    for n, own in enumerate(states(networks)):
        dense = jacrev(lambda x, own=own: functional_call(module, own, (x,))[:, 0])(points[n])
        assert torch.allclose(found[n], torch.stack([dense[i, i] for i in range(5)]), rtol=1e-9)


def test_plain_norm_is_biased_and_the_norm_of_parts_is_not():
    T, D = 100, 50
    plain, split = [], []
    for seed in range(20):
        geometry = Geometry(D, device="cpu")
        geometry.add(normal(T, D, seed=seed)[:, None])
        found = geometry.directions()
        plain.append(found.trace / math.sqrt(D * float(found.matrix.square().sum())))
        split.append(found.trace / math.sqrt(D * float(unbiased_square(found.groups))))
    assert sum(plain) / 20 == pytest.approx(1 / math.sqrt(1 + D / T), abs=0.01)
    assert sum(split) / 20 == pytest.approx(1, abs=0.01)


def test_projected_norms_and_products_are_unbiased():
    D, count, S = 12, 60, torch.diag(torch.linspace(0.5, 2.0, 12, **CPU))
    norms, products, plain = [], [], []
    for seed in range(80):
        geometry = Geometry(D, device="cpu")
        geometry.add(normal(count, D, seed=seed)[:, None])
        found = geometry.directions()
        projected = Projected(found.groups, S)
        norms.append(projected.squared_norm())
        products.append(float((projected.matrix() * S).sum()))
        sampled = found.matrix @ S @ found.matrix
        plain.append(float((sampled * S).sum()))
    for values in (norms, products):  # G = I, so both are |S|^2
        numbers = torch.tensor(values, **CPU)
        assert float(numbers.mean() - S.square().sum()) == pytest.approx(
            0, abs=4 * float(numbers.std()) / math.sqrt(80)
        )
    biased = torch.tensor(plain, **CPU)
    assert float(biased.mean() - S.square().sum()) > 4 * float(biased.std()) / math.sqrt(80)


def symmetric(size, seed):
    matrix = normal(size, size, seed=seed)
    return matrix + matrix.T + 2 * torch.eye(size, **CPU)


def rotations(count, size):
    q, r = torch.linalg.qr(normal(count, size, size, seed=100))
    return q * r.diagonal(dim1=1, dim2=2).sign()[:, None]


def test_containment_null_equals_simulation():
    A, size, rank = symmetric(7, 1), 7, 3
    R = rotations(4000, size)
    drawn = (R @ A @ R.mT)[:, :rank, :rank].square().sum((1, 2)) / A.square().sum()
    null = containment_null(float(A.trace()), float(A.square().sum()), size, rank)
    assert null**2 == pytest.approx(
        float(drawn.mean()), abs=4 * float(drawn.std()) / math.sqrt(4000)
    )
    assert containment_null(float(A.trace()), float(A.square().sum()), size, size) == pytest.approx(
        1
    )


def test_corr_from_tables_equals_corr_of_matrices():
    a, B = normal(5, 2, 4, seed=1), symmetric(4, 3)
    own = torch.einsum("npi,npj->nij", a, a) / 2
    table, forms = squared_products(a, a), quadratic_forms(a, B)
    assert torch.allclose(table, torch.einsum("nij,mij->nm", own, own))
    assert torch.allclose(forms, torch.einsum("nij,ij->n", own, B))
    assert corr_of_sampled(table, table, table).value == pytest.approx(1)


def test_corr_of_few_networks_with_unequal_norms_is_not_above_one():
    """All networks have the same geometry up to its size, so Corr is 1; without the correction it comes out larger."""
    D, B, plain, found = 6, torch.diag(torch.linspace(1, 2, 6, **CPU)), [], []
    for seed in range(200):
        sizes = normal(8, seed=seed).exp()
        products, table = (
            sizes * float(B.square().sum()),
            torch.outer(sizes, sizes) * float(B.square().sum()),
        )
        plain.append(
            float(products.mean())
            / math.sqrt(distinct_mean(table, range(8)) * float(B.square().sum()))
        )
        found.append(corr_with_fixed(products, table, float(B.square().sum())).value)
    assert len(B) == D and min(plain) > 1
    excess, corrected = (sum(values) / 200 - 1 for values in (plain, found))
    assert abs(corrected) < 0.4 * excess


def test_flipping_reverses_eigenvalues_and_keeps_eigenvectors():
    A = symmetric(5, 1) @ symmetric(5, 1)
    values, vectors = torch.linalg.eigh(A)
    assert torch.allclose(vectors.T @ flipped(A) @ vectors, torch.diag(values.flip(0)), atol=1e-9)


def test_scores_are_rayleigh_quotients_in_the_order_of_samples():
    A, x = symmetric(5, 1), normal(7, 5, seed=2)
    x[3] = 0
    found = scores(A, x)
    for row, value in zip(x, found):
        assert float(value) == pytest.approx(
            float(row @ A @ row / row.square().sum()) if float(row.norm()) else 0.0
        )


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_curvature_parts_add_up_to_the_dense_hessian(loss):
    networks, x, y = (
        smooth_networks(1),
        normal(4, 1, 6, 6, seed=1),
        torch.tensor([0, 1, 1, 0], device="cpu"),
    )
    state = states(networks)[0]
    targets = 2 * y.double() - 1

    def network(inputs):
        return outputs(networks, state, inputs)[:, None]

    terms = curvature_terms(network, x, targets, loss=loss, chunk=5)
    whole = (
        sum(
            hessian(lambda z, n=n: loss_function(loss)(network(z[None]), y[n : n + 1]))(
                x[n]
            ).reshape(36, 36)
            for n in range(4)
        )
        / 4
    )
    assert torch.allclose(terms["first"] + terms["second"], whole, rtol=1e-8, atol=1e-9)
    assert float(terms["second"].norm()) > 0
    assert float(terms["weight"]) == pytest.approx(
        float(loss_derivatives(network(x)[:, 0], targets, loss)[1].mean())
    )


def test_least_aligned_directions_solve_the_generalised_problem_in_order():
    G, S = (symmetric(6, seed) @ symmetric(6, seed) for seed in (1, 2))
    rows = least_aligned(G, S, ridge=1e-12)
    assert torch.allclose(rows @ rows.T, torch.eye(6, **CPU), atol=1e-9)
    ratios = [
        float(
            torch.linalg.eigvals(
                torch.linalg.solve(rows[:k] @ S @ rows[:k].T, rows[:k] @ G @ rows[:k].T)
            ).real.max()
        )
        for k in range(1, 7)
    ]
    exact = torch.linalg.eigvals(torch.linalg.solve(S, G)).real.sort().values
    assert ratios == pytest.approx(
        exact.tolist(), rel=1e-6
    )  # the first k span the k smallest ratios


def test_elimination_takes_out_just_the_rows():
    x = normal(9, 1, 2, 3, seed=1)
    rows = random_rows(6, torch.Generator(device="cpu").manual_seed(1))
    left = without(Samples(x, torch.zeros(9, device="cpu")), rows[:2]).inputs.flatten(1)
    assert float((left @ rows[:2].T).abs().max()) < 1e-12
    assert torch.allclose(left @ rows[2:].T, x.flatten(1) @ rows[2:].T)
    shares = explained(rows, x.flatten(1).T @ x.flatten(1))
    assert float(shares[-1]) == pytest.approx(1)
    assert equal_count(shares, float(shares[2]) - 1e-9) == 3 and equal_count(shares, 0.0) == 0


@pytest.mark.parametrize("kind", ["linear", "quadratic", "sinusoid"])
def test_labels_are_balanced_and_decided_by_the_direction(kind):
    u = torch.zeros(12, **CPU)
    u[3] = 1
    generator = torch.Generator(device="cpu").manual_seed(0)
    x = isotropic_inputs(4000, u, 2.0, (12,), generator).double()
    assert float(x[:, 3].std()) == pytest.approx(2.0, rel=0.05) and float(
        x[:, 4].std()
    ) == pytest.approx(1.0, rel=0.05)
    labels = Labeller(u, kind, x, noise=0.0)(x, generator)
    assert abs(float(labels.double().mean()) - 0.5) < 1e-3
    mean, std = (x.mean(), x.std()) if kind == "sinusoid" else (0.0, 1.0)
    t = (x[:, 3] - mean) / std
    score = {"linear": t, "quadratic": t**2, "sinusoid": t.sin()}[kind]
    assert ((score > score.median()).long() == labels).all()


def test_label_noise_has_the_variance_of_its_channel():
    """A colour-dependent direction: noise follows the channel that the direction is in, in channel-first order."""
    x = normal(4000, 3, 4, 4, seed=1) * torch.tensor([1.0, 5.0, 0.2], **CPU)[:, None, None]
    for channel, scale in enumerate((1.0, 5.0, 0.2)):
        u = torch.zeros(3, 4, 4, **CPU)
        u[channel] = 0.25  # a unit vector
        assert float(Labeller(u.flatten(), "linear", x, noise=0.2).noise) == pytest.approx(
            math.sqrt(0.2) * scale, rel=0.02
        )


def test_frequency_shares_are_those_of_the_dft_matrix():
    """The diagonal of F G F^*, with F as a matrix; and a wave has all of it at its frequency."""
    moments = torch.randn(24, 24, generator=torch.Generator().manual_seed(0), **CPU)
    moment = moments @ moments.T
    found = frequency_shares.energies(moment, (2, 3, 4))
    three = torch.fft.fft(torch.eye(3, dtype=torch.complex128, device="cpu"), norm="ortho")
    four = torch.fft.fft(torch.eye(4, dtype=torch.complex128, device="cpu"), norm="ortho")
    dft = torch.kron(torch.eye(2, device="cpu", dtype=three.dtype), torch.kron(three, four))
    expected = (dft @ moment.to(dft.dtype) @ dft.conj().T).diagonal().real.reshape(2, 3, 4).sum(0)
    torch.testing.assert_close(found, expected)
    assert float(found.sum()) == pytest.approx(float(moment.trace()))
    wave = torch.cos(2 * torch.pi * 3 * torch.arange(16, **CPU) / 16)
    alone = frequency_shares.energies(torch.outer(wave, wave), (16,))
    assert float(alone[3] + alone[-3]) == pytest.approx(float(alone.sum()))


def test_the_share_of_low_frequencies_of_isotropic_gradients_is_its_null():
    result = penchant.measure("average-geometry", architecture="logistic", shape=(1, 8, 8))
    share = result.quantities["low-frequencies"]
    assert share.null == pytest.approx(5 / 64)
    assert abs(share.value - share.null) < 4 * share.stderr


def test_generalised_eigenvectors_on_a_device_are_those_of_lapack():
    generator = torch.Generator("cpu").manual_seed(0)
    A, B = torch.randn(2, 7, 7, generator=generator, device="cpu", dtype=torch.float64)
    G, S = A @ A.T, B @ B.T + torch.eye(7, device="cpu", dtype=torch.float64)
    columns = probe.solved_on_device(G, S)
    # G v = l S v with ascending l
    ratios = (columns.T @ G @ columns).diagonal() / (columns.T @ S @ columns).diagonal()
    torch.testing.assert_close(G @ columns, S @ columns * ratios)
    assert (ratios.diff() > 0).all()
    host = probe.least_aligned(G, S, ridge=0.0)
    rows = torch.linalg.qr(columns).Q.T
    alike = (rows * host).sum(1).abs()
    torch.testing.assert_close(alike, torch.ones_like(alike))
