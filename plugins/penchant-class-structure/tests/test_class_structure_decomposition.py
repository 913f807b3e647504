"""The decomposition of G in sample space against its definition, in double precision: identity, ranks, knockouts, both routes."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from penchant_class_structure.shared import decomposition as decompositions
from penchant_class_structure.shared.class_means import cross_class_weights
from penchant_class_structure.shared.decomposition import (
    COMPONENTS,
    Decomposition,
    WithoutComponent,
    WithoutSpan,
    knockout,
    streamed_pair_products,
)
from penchant_class_structure.shared.sample_space import matrix_bytes, sample_space
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.device import memory
from penchant_numerics.linear_algebra import leading_pairs, share_in_span
from torch import nn
from torch.func import functional_call, jacrev

C = 4
COUNTS = (9, 4, 6, 7)


@pytest.fixture(scope="module", params=["unbalanced", "balanced"])
def problem(request):
    counts = COUNTS if request.param == "unbalanced" else (6,) * C
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, C)
        ).double()
        y = torch.repeat_interleave(torch.arange(C), torch.tensor(counts))
        y = y[torch.randperm(len(y))]
        x = torch.randn(len(y), 6, dtype=torch.float64) + y[:, None]
    return network, x, y


@pytest.fixture(scope="module")
def defined(problem):
    """G and its components (P, P), cross-class means, weights and samples' traces, as defined."""
    network, x, y = problem
    n = len(x)
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    columns = jacrev(lambda values: functional_call(network, values, (x,)))(parameters)
    J = torch.cat([each.reshape(n, C, -1) for each in columns.values()], dim=2)
    p = network(x).detach().softmax(1)
    g = torch.einsum("nyq,ncy->ncq", J, p[:, None] - torch.eye(C, dtype=torch.float64))
    w = p / n
    pairs = torch.stack([w[y == c].sum(0) for c in range(C)])
    means = torch.stack(
        [torch.einsum("nc,ncq->cq", w[y == c], g[y == c]) / pairs[c][:, None] for c in range(C)]
    )
    off = [(c, k) for c in range(C) for k in range(C) if c != k]
    classes = torch.stack([pairs[c].sum() - pairs[c, c] for c in range(C)])
    class_means = torch.stack(
        [sum(pairs[c, k] * means[c, k] for k in range(C) if k != c) / classes[c] for c in range(C)]
    )
    found = {
        "class": torch.einsum("c,cq,cr->qr", classes, class_means, class_means),
        "cross": sum(
            pairs[c, k] * torch.outer(means[c, k] - class_means[c], means[c, k] - class_means[c])
            for c, k in off
        ),
        "within": sum(
            w[i, k] * torch.outer(g[i, k] - means[y[i], k], g[i, k] - means[y[i], k])
            for i in range(n)
            for k in range(C)
        ),
        "diagonal": sum(pairs[c, c] * torch.outer(means[c, c], means[c, c]) for c in range(C)),
    }
    traces = (p * g.square().sum(2)).sum(1)  # (n,), of each sample's contribution to n G
    return found, means, class_means, traces, torch.einsum("nc,ncq,ncr->qr", w, g, g)


def decomposed(problem, exact):
    network, x, y = problem
    space = sample_space(network, x, exact_limit=10**6 if exact else 0)
    return Decomposition(space, cross_class_weights(space.outputs, y))


def relative(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def test_components_are_those_of_the_definition_and_add_up_to_gauss_newton(problem, defined):
    network, x, y = problem
    components, _, _, _, G = defined
    dense = GaussNewton(network, (x, None)).dense()
    assert relative(sum(components.values()), G) < 1e-12
    assert relative(dense, G) < 1e-12
    decomposition = decomposed(problem, exact=False)
    units = torch.eye(decomposition.space.rows, dtype=torch.float64)
    V = decomposition.space.factor.apply(units).T
    made = {
        component: V @ decomposition.project(units, component) @ V.T for component in COMPONENTS
    }
    for component in COMPONENTS:
        assert relative(made[component], components[component]) < 1e-10
    worst = relative(sum(made.values()), dense)
    print(f"class + cross + within + diagonal against G: {worst:.1e}")
    assert worst < 1e-10


def test_ranks_are_those_that_the_identity_leaves(defined):
    components = defined[0]
    means = components["class"] + components["cross"] + components["diagonal"]
    ranks = {
        name: int(torch.linalg.matrix_rank(matrix, rtol=1e-9))
        for name, matrix in {**components, "means": means}.items()
    }
    print(f"ranks with C = {C}: {ranks}")
    assert ranks["class"] == ranks["diagonal"] == C
    assert ranks["cross"] == C * (C - 2)
    assert ranks["means"] == C * (C - 1)


@pytest.mark.parametrize("exact", [True, False])
def test_eigenvalues_of_components_come_from_inner_products_of_means(problem, defined, exact):
    network, x, y = problem
    components = defined[0]
    decomposition = decomposed(problem, exact)
    M = (
        decomposition.pair_products()
        if exact
        else streamed_pair_products(network, x, decomposition.weights)
    )
    for names, count in (
        (("class",), C),
        (("cross",), C * (C - 2)),
        (("diagonal",), C),
        (("class", "cross", "diagonal"), C * (C - 1)),
    ):
        dense = torch.linalg.eigvalsh(sum(components[name] for name in names)).flip(0)[:count]
        assert relative(decomposition.component_values(M, names, count), dense) < 1e-10
    if not exact:
        # no more than one class at a time
        again = streamed_pair_products(network, x, decomposition.weights, held=1)
        assert relative(again, M) < 1e-12


@pytest.mark.parametrize("exact", [True, False])
def test_traces_of_samples_are_their_parts_of_gauss_newton(problem, defined, exact):
    network, x, _ = problem
    _, _, _, traces, _ = defined
    space = sample_space(network, x, exact_limit=10**6 if exact else 0)
    torch.testing.assert_close(space.traces, traces)
    one = GaussNewton(network, (x[:1], None), batch=1).dense().trace()
    torch.testing.assert_close(space.traces[0], one)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("component", ["class", "cross", "diagonal"])
def test_subtraction_knockouts_have_the_spectrum_of_the_difference(
    problem, defined, component, exact
):
    components, _, _, _, G = defined
    left = torch.linalg.eigvalsh(
        WithoutComponent(decomposed(problem, exact), component).dense()
    ).flip(0)
    exact_values = torch.linalg.eigvalsh(G - components[component]).flip(0)
    count = min(len(left), len(exact_values))
    assert float((left[:count] - exact_values[:count]).abs().max()) < 1e-12
    assert float(exact_values.min()) > -1e-12  # a component less is still a second moment


@pytest.mark.parametrize("component", ["class", "cross", "diagonal", "mean"])
def test_projection_knockouts_are_those_of_the_pseudo_inverse(problem, defined, component):
    components, _, class_means, _, G = defined
    B = (
        torch.outer(class_means.mean(0), class_means.mean(0))
        if component == "mean"
        else components[component]
    )
    P = torch.eye(len(G), dtype=torch.float64) - B @ torch.linalg.pinv(B, rtol=1e-9)
    expected = torch.linalg.eigvalsh(P @ G @ P).flip(0)
    decomposition = decomposed(problem, exact=True)
    left = knockout(decomposition, component, "projection")
    found = torch.linalg.eigvalsh(left.dense()).flip(0)
    count = min(len(found), len(expected))
    assert float((found[:count] - expected[:count]).abs().max()) < 1e-10
    assert left.rank == {"class": C, "cross": C * (C - 2), "diagonal": C, "mean": 1}[component]
    assert len(decomposition.cross_rows()) == C * (C - 1)


def test_share_of_eigenvectors_in_the_span_of_class_means(problem, defined):
    _, _, class_means, _, G = defined
    vectors = torch.linalg.eigh(G).eigenvectors.flip(1)[:, :C]
    Q = torch.linalg.qr(class_means.T).Q
    expected = float((Q.T @ vectors).square().sum()) / C
    for exact in (True, False):
        decomposition = decomposed(problem, exact)
        leading = leading_pairs(
            decomposition.space.gram, C, generator=torch.Generator().manual_seed(0), products=2000
        )
        rows = decomposition.class_rows()
        found = share_in_span(
            leading.values, leading.vectors.T, rows, decomposition.space.inner(rows)
        )
        assert found == pytest.approx(expected, rel=1e-4)


def test_projection_knockout_of_dependent_rows_takes_their_span(problem):
    decomposition = decomposed(problem, exact=True)
    rows = decomposition.class_rows()
    twice = torch.cat([rows, rows[:1] - rows[1:2]])
    one, other = (WithoutSpan(decomposition.space.gram, each) for each in (rows, twice))
    assert one.rank == other.rank == C
    torch.testing.assert_close(one.dense(), other.dense())


def test_means_that_do_not_fit_are_divided_between_parameters(problem, monkeypatch):
    """Room for the means of one class in one weight: every weight is by itself, and all add up."""
    network, x, y = problem
    decomposition = decomposed(problem, exact=True)
    expected = decomposition.pair_products()
    asked = []
    means = decompositions.mean_gradients

    def noted(*args, parameters, **options):
        asked.append(tuple(parameters))
        return means(*args, parameters=parameters, **options)

    monkeypatch.setattr(decompositions, "mean_gradients", noted)
    found = streamed_pair_products(network, x, decomposition.weights, held=1)
    assert set(asked) == {(name,) for name, _ in network.named_parameters()}
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    asked.clear()
    streamed_pair_products(network, x, decomposition.weights)
    assert len(asked) == 1, "all together where they fit"


def test_inner_products_are_the_same_where_few_vectors_of_all_parameters_fit(problem):
    decomposition = decomposed(problem, exact=False)
    rows = decomposition.class_rows()
    expected = decomposition.space.inner(rows)
    with memory.budget(2 * 8 * decomposition.space.size):
        found = decomposition.space.inner(rows)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_a_budget_that_was_set_decides_whether_there_is_a_matrix(problem):
    network, x, _ = problem
    rows = len(x) * C
    with memory.budget(2 * matrix_bytes(rows)):
        assert sample_space(network, x, exact_limit=rows).exact
    with memory.budget(2 * matrix_bytes(rows) - 1):
        assert not sample_space(network, x, exact_limit=rows).exact
    assert sample_space(network, x, exact_limit=rows).exact
