"""Losses over positions of sequences: operators, columns and errors against dense autodiff and others."""

import math

import pytest
import torch
from penchant_numerics.curvature import (
    GaussNewton,
    Hessian,
    gauss_newton_columns,
    gauss_newton_spectrum,
    loss_function,
    loss_gradients,
    numbers_of,
)
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_gram
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.curvature.sequence_columns import sampled_labels, sampled_outputs
from penchant_numerics.data import (
    IGNORED,
    Samples,
    as_rows,
    contributions_to_mean,
    positions_counted,
)
from penchant_numerics.layers import layer_kernels, tangent_kernel
from penchant_numerics.training import Trainer, evaluate, predictions
from torch import nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

CLASSES, POSITIONS = 5, 4


class Mixing(nn.Module):
    """Tokens whose positions look at those before them, as in a language model."""

    def __init__(self, classes=CLASSES, width=3):
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.inner = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        seen = self.embed(tokens).cumsum(1)
        return self.head(torch.tanh(self.inner(seen)))


def build(seed=0, samples=6):
    torch.manual_seed(seed)
    network = Mixing().double().eval()
    tokens = torch.randint(0, CLASSES, (samples, POSITIONS))
    labels = torch.randint(0, CLASSES, (samples, POSITIONS))
    labels[0, 1:] = IGNORED  # sequences of other lengths
    labels[2, 2:] = IGNORED
    return network, (tokens, labels)


def flat(network):
    names = [name for name, _ in network.named_parameters()]
    values = [value.detach() for _, value in network.named_parameters()]
    vector = torch.cat([value.flatten() for value in values])

    def call(vector, inputs):
        parts = vector.split([value.numel() for value in values])
        named = {n: p.reshape(v.shape) for n, p, v in zip(names, parts, values, strict=True)}
        return functional_call(network, named, (inputs,))

    return call, vector


def dense_hessian(network, data):
    call, vector = flat(network)
    return hessian(
        lambda v: functional.cross_entropy(call(v, data[0]).flatten(0, 1), data[1].flatten())
    )(vector)


def dense_gauss_newton(network, data, loss="cross-entropy"):
    """Ave over counted positions of J^T (diag p - p p^T) J."""
    call, vector = flat(network)
    J = jacrev(lambda v: call(v, data[0]))(vector)[data[1] != IGNORED]  # (terms, C, size)
    p = network(data[0]).softmax(-1).detach()[data[1] != IGNORED]
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    if loss == "squared-error":
        inner = torch.eye(CLASSES, dtype=p.dtype).expand_as(inner)
    return torch.einsum("nci,ncd,ndj->ij", J, inner, J) / len(J)


def away(found, expected):
    return float((found - expected).norm() / expected.norm())


# ---- operators


@pytest.mark.parametrize("options", [{}, {"batch": 2}, {"batch": 2, "cache": 0}])
def test_operators_are_those_of_dense_autodiff(options):
    network, data = build()
    H, G = dense_hessian(network, data), dense_gauss_newton(network, data)
    assert away(Hessian(network, data, **options).dense(), H) < 1e-12
    assert away(GaussNewton(network, data, **options).dense(), G) < 1e-12


def test_operators_are_those_of_curvlinops():
    import curvlinops

    network, (tokens, labels) = build()

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, tokens):
            return self.network(tokens).flatten(0, 1)

    parameters = list(network.parameters())
    eye = torch.eye(sum(each.numel() for each in parameters), dtype=torch.float64)
    pairs = (
        (Hessian, curvlinops.HessianLinearOperator),
        (GaussNewton, curvlinops.GGNLinearOperator),
    )
    for own, theirs in pairs:
        operator = theirs(
            Rows(),
            nn.CrossEntropyLoss(ignore_index=IGNORED),
            parameters,
            [(tokens, labels.flatten())],
            num_data=labels.numel(),
            check_deterministic=False,
            batch_size_fn=lambda tokens: tokens.numel(),
        )
        assert away(own(network, (tokens, labels)).dense(), operator @ eye) < 1e-10


def test_a_sum_is_the_mean_times_the_positions_that_count():
    network, data = build()
    count = int((data[1] != IGNORED).sum())
    for kind in (Hessian, GaussNewton):
        mean, total = kind(network, data), kind(network, data, reduction="sum")
        v = torch.randn(mean.size, dtype=torch.float64)
        assert away(total @ v, count * (mean @ v)) < 1e-12
        assert "positions" in mean.conventions["reduction"]


def test_squared_error_of_classes_is_that_of_dense_autodiff():
    network, data = build()
    G = GaussNewton(network, data, loss="squared-error").dense()
    assert away(G, dense_gauss_newton(network, data, "squared-error")) < 1e-12
    call, vector = flat(network)
    counted = data[1] != IGNORED
    hot = functional.one_hot(data[1][counted], CLASSES).double()
    expected = hessian(lambda v: 0.5 * (call(v, data[0])[counted] - hot).square().sum(1).mean())(
        vector
    )
    assert away(Hessian(network, data, loss="squared-error").dense(), expected) < 1e-12


def test_the_factor_is_a_root():
    network, data = build()
    for options in ({}, {"batch": 4, "cache": 0}):
        G = GaussNewton(network, data, **options)
        factor = G.factor()
        assert factor.samples == len(data[0]) * POSITIONS * CLASSES
        V = factor.apply(torch.eye(factor.samples, dtype=torch.float64)).T
        assert away(V @ V.T, dense_gauss_newton(network, data)) < 1e-12
        v = torch.randn(2, G.size, dtype=torch.float64)
        assert away(factor.adjoint(v), v @ V) < 1e-12


def test_without_labels_all_positions_count():
    network, (tokens, labels) = build()
    every = labels.clamp(min=0)
    found = GaussNewton(network, (tokens, None)).dense()
    assert away(found, dense_gauss_newton(network, (tokens, every))) < 1e-12


def test_a_sequence_without_a_label_is_left_out():
    network, (tokens, labels) = build()
    labels[3] = IGNORED
    rest = torch.arange(6) != 3
    assert (
        away(
            Hessian(network, (tokens, labels)).dense(),
            dense_hessian(network, (tokens[rest], labels[rest])),
        )
        < 1e-12
    )
    assert GaussNewton(network, (tokens, labels)).samples == 5


def test_labels_of_other_lengths_are_refused():
    network, (tokens, labels) = build()
    with pytest.raises(ValueError, match="4 positions, found labels of 3 positions"):
        GaussNewton(network, (tokens, labels[:, :3]))
    with pytest.raises(ValueError, match="need labels of 6 x 4, found 6 x 3"):
        Hessian(network, (tokens, labels[:, :3]), check=False, batch=6)
    with pytest.raises(ValueError, match="need labels of 6 x 4, found 6"):
        as_rows(network(tokens), labels[:, 0])


# ---- loss and trainer


def test_the_loss_is_a_mean_over_positions_that_count():
    network, (tokens, labels) = build()
    logs = network(tokens).log_softmax(-1)
    picked = [-logs[i, t, labels[i, t]] for i in range(6) for t in range(4) if labels[i, t] >= 0]
    found = loss_function("cross-entropy")(network(tokens), labels)
    torch.testing.assert_close(found, torch.stack(picked).mean())


@pytest.mark.parametrize("chunk", [1, 4, 1024])
def test_evaluation_is_over_positions(chunk):
    network, (tokens, labels) = build()
    labels[3] = IGNORED  # with chunk 1 a batch has no position that counts
    loss, share = evaluate(network, Samples(tokens, labels), chunk=chunk)
    outputs = network(tokens).detach()
    expected = functional.cross_entropy(outputs.flatten(0, 1), labels.flatten())
    assert math.isclose(loss, float(expected))
    counted = labels != IGNORED
    right = (predictions(outputs) == labels)[counted].double().mean()
    assert math.isclose(share, float(right))


def test_a_training_learns_the_next_token():
    class Recipe:
        batch, optimizer, learning_rate, schedule = 8, "adam", 0.02, "constant"
        momentum = weight_decay = 0.0
        clip = until_loss = None
        loss = "cross-entropy"

        def total_steps(self, samples):
            return 200

        def steps_per_epoch(self, samples):
            return samples // 8

    torch.manual_seed(0)
    start = torch.randint(0, CLASSES, (32, 1))
    tokens = (start + torch.arange(POSITIONS + 1)) % CLASSES
    samples = Samples(tokens[:, :-1], tokens[:, 1:])
    network = Mixing(width=8)
    before, _ = evaluate(network, samples)
    trainer = Trainer(network, samples, Recipe(), seed=0)
    trainer.run()
    after, right = evaluate(network, samples)
    assert abs(before - math.log(CLASSES)) < 0.5 and after < 0.3 and right > 0.9


# ---- columns


def test_all_columns_make_gauss_newton():
    network, data = build()
    columns, convention = gauss_newton_columns(network, data)
    assert convention == "all 20 positions x classes of a sequence"
    G = GaussNewton(columns, (numbers_of(data[0]), None), loss="squared-error")
    assert away(G.dense(), dense_gauss_newton(network, data)) < 1e-12
    assert [n for n, _ in columns.named_parameters()] == [n for n, _ in network.named_parameters()]


def test_drawn_labels_make_gauss_newton_on_average():
    network, data = build()
    exact = dense_gauss_newton(network, data)
    errors = []
    for draws in (64, 1024):
        generator = torch.Generator().manual_seed(draws)
        columns, convention = gauss_newton_columns(network, data, draws=draws, generator=generator)
        assert convention.startswith(f"{draws} draws of the labels")
        G = GaussNewton(columns, (numbers_of(data[0]), None), loss="squared-error").dense()
        errors.append(away(G, exact))
    # sixteen times the draws, a quarter of the error
    assert errors[1] < 0.15 and 2 < errors[0] / errors[1] < 8


def test_random_signs_make_gauss_newton_of_the_squared_error_on_average():
    network, data = build()
    generator = torch.Generator().manual_seed(0)
    columns, _ = gauss_newton_columns(
        network, data, loss="squared-error", draws=2000, generator=generator
    )
    G = GaussNewton(columns, (numbers_of(data[0]), None), loss="squared-error").dense()
    assert away(G, dense_gauss_newton(network, data, "squared-error")) < 0.1


def test_labels_are_drawn_from_the_probabilities():
    network, (tokens, _) = build()
    drawn = sampled_labels(network, tokens, 4000, generator=torch.Generator().manual_seed(0))
    shares = functional.one_hot(drawn, CLASSES).double().mean(1)
    p = network(tokens).detach().softmax(-1)
    z = (shares - p) / (p * (1 - p) / 4000).sqrt()
    assert float(z.abs().max()) < 4.5 and 0.8 < float(z.std()) < 1.25


def test_many_columns_need_a_generator():
    network = Mixing(classes=300)
    tokens = torch.zeros(2, POSITIONS, dtype=torch.int64)
    with pytest.raises(ValueError, match="1200 positions x classes .* expected a generator"):
        gauss_newton_columns(network, (tokens, tokens))


def test_the_kernel_of_loss_gradients_is_that_of_autograd():
    network, (tokens, labels) = build()
    losses = loss_gradients(network, (tokens, labels))
    K = tangent_kernel(losses, numbers_of(tokens))
    rows = []
    for i in range(6):
        outputs = network(tokens[i : i + 1])[0]
        total = functional.cross_entropy(outputs, labels[i], reduction="sum")
        scaled = total * 6 / int((labels != IGNORED).sum())
        gradient = torch.autograd.grad(scaled, list(network.parameters()))
        rows.append(torch.cat([each.flatten() for each in gradient]))
    g = torch.stack(rows)
    assert away(K, g @ g.T) < 1e-12
    # the mean of their gradients is the gradient of the loss
    loss = functional.cross_entropy(network(tokens).flatten(0, 1), labels.flatten())
    whole = torch.cat(
        [each.flatten() for each in torch.autograd.grad(loss, list(network.parameters()))]
    )
    assert away(g.mean(0), whole) < 1e-12
    assert away(sum(layer_kernels(losses, numbers_of(tokens)).values()), K) < 1e-12


def test_the_kernel_of_sampled_outputs_is_a_part_of_that_of_all():
    network, (tokens, _) = build()
    generator = torch.Generator().manual_seed(0)
    some = sampled_outputs(network, tokens, count=3, generator=generator)
    K = tangent_kernel(some, numbers_of(tokens))
    call, vector = flat(network)
    J = jacrev(lambda v: call(v, tokens))(vector).flatten(1, 2)  # (n, T C, size)
    again = torch.Generator().manual_seed(0)
    chances = torch.rand(6, 3, generator=again).double()
    rows = J[torch.arange(6)[:, None], (chances * 20).long()].flatten(0, 1)
    assert away(K, rows @ rows.T) < 1e-12
    # kernels of the outputs themselves, where these are few
    whole = tangent_kernel(network, tokens)
    rows = J.flatten(0, 1)
    assert away(whole, rows @ rows.T) < 1e-12


def test_traces_and_grams_of_sequences():
    network, data = build()
    exact = dense_gauss_newton(network, data)
    columns, _ = gauss_newton_columns(network, data)
    numbers = numbers_of(data[0])
    traces = sample_traces(columns, numbers, loss="squared-error")
    assert math.isclose(float(traces.mean()), float(exact.trace()), rel_tol=1e-12)
    gram = gauss_newton_gram(columns, (numbers, None), loss="squared-error")
    values = torch.linalg.eigvalsh(gram).flip(0)[: len(exact)]
    torch.testing.assert_close(values, torch.linalg.eigvalsh(exact).flip(0))
    direct = gauss_newton_spectrum(network, data)
    torch.testing.assert_close(direct, values[: len(direct)])
    with pytest.raises(ValueError, match="found 4 x 5 of a sequence"):
        sample_traces(network, data[0])


# ---- errors


def test_errors_over_sequences_are_those_of_resampling():
    generator = torch.Generator().manual_seed(0)
    n = 200
    counts = torch.randint(5, 40, (n,), generator=generator)
    level = torch.randn(
        n, generator=generator, dtype=torch.float64
    )  # positions of a sequence share it
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    sums = counts * level + counts.double().sqrt() * noise
    each = contributions_to_mean(sums, counts)
    assert math.isclose(float(each.mean()), float(sums.sum() / counts.sum()))
    stderr = float(each.std()) / n**0.5

    # whole sequences drawn again and again
    chosen = torch.randint(0, n, (4000, n), generator=generator)
    means = sums[chosen].sum(1) / counts[chosen].sum(1)
    ratio = stderr / float(means.std())
    assert 0.95 < ratio < 1.06
    # as if positions were independent, errors would be several times too small
    naive = ((1.0 + 1.0) / float(counts.sum())) ** 0.5
    assert stderr / naive > 2.5


def test_positions_are_counted():
    labels = torch.tensor([[1, IGNORED], [2, 3]])
    assert positions_counted(labels).tolist() == [1, 2]
    assert positions_counted(torch.tensor([4, 5, 6])).tolist() == [1, 1, 1]
