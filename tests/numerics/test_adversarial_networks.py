"""Numeric kernels on networks and data that are hard on them, against dense float64 oracles.

Each kernel is compared with two oracles that share no code with it or with each other: dense
derivatives by torch's reverse mode, and finite differences. `python tests/numerics/test_adversarial_networks.py`
prints the largest relative difference of every kernel on every network.
"""

import copy
import functools
import sys
import warnings

import penchant
import pytest
import torch
from penchant_numerics.curvature import GaussNewton, Hessian, gauss_newton_spectrum
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_gram
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.data import Samples
from penchant_numerics.device import safe
from penchant_numerics.device.vectorisation import NotVectorisedWarning
from penchant_numerics.inputs import (
    MixedDerivative,
    SecondMoment,
    finite_differences,
    first_output,
    gram,
    input_gradients,
    spectrum,
)
from penchant_numerics.jacobians import NotRecordableError, Outputs, linearise
from penchant_numerics.jacobians.sample_gradients import sample_gradients
from penchant_numerics.layers import TangentFeatures, layer_kernels, tangent_kernel
from penchant_numerics.linear_algebra import lanczos_eigenpairs, leading_pairs, quadrature
from penchant_numerics.training import OneByOne, Stacked, constructed, state_of
from penchant_numerics.training.stacked_training import stack_networks
from torch import nn
from torch.func import functional_call, grad, jvp
from torch.nn import functional

DOUBLE = {"device": "cpu", "dtype": torch.float64}
SAMPLES, INPUTS, CLASSES = 7, 6, 3
BY_AUTODIFF = 1e-9  # relative difference from dense derivatives: rounding, after fifteen layers
BY_DIFFERENCES = 1e-6  # and from finite differences, which have an error of their own
RANK = 2  # eigenvalues that every Gauss-Newton matrix here has
STEP = 1e-3  # of finite differences, whose error is of fourth order

# ---- networks


class Attention(nn.Module):
    """Two heads of fused attention over three tokens, then layer norm."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(2, 12), nn.LayerNorm(4), nn.Linear(12, CLASSES)

    def forward(self, x):
        split = self.embed(x.unflatten(1, (3, 2))).unflatten(-1, (3, 2, 2))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return self.head(self.norm(mixed.transpose(1, 2).flatten(2)).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, CLASSES)

    def forward(self, x):
        states, _ = self.cell(x.unflatten(1, (3, 2)))
        return self.head(states[:, -1])


def perceptron(*hidden, norm=None):
    layers, width = [], INPUTS
    for units in hidden:
        layers += [nn.Linear(width, units), *(norm() if norm else ()), nn.Tanh()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def plain():
    return perceptron(5, 4)


def zero_weights():
    network = plain()
    with torch.no_grad():
        for value in network.parameters():
            value.zero_()
    return network


NETWORKS = {
    "layer-norm": lambda: perceptron(4, 4, norm=lambda: [nn.LayerNorm(4)]),
    "group-norm": lambda: perceptron(6, norm=lambda: [nn.GroupNorm(2, 6)]),
    "batch-norm": lambda: perceptron(4, 4, norm=lambda: [nn.BatchNorm1d(4)]),
    "attention": Attention,
    "lstm": Recurrent,
    "depth-15": lambda: perceptron(*[3] * 14),
    "width-1": lambda: perceptron(1, 1),
    "zero-weights": zero_weights,
    "duplicates": plain,
    "absent-class": plain,
    "constant-inputs": plain,
}


def data(name):
    generator = torch.Generator("cpu").manual_seed(3)
    inputs = torch.randn(SAMPLES, INPUTS, generator=generator, **DOUBLE)
    labels = torch.arange(SAMPLES, device="cpu") % CLASSES
    if name == "duplicates":
        inputs[1:4] = inputs[0]
        labels[1:4] = labels[0]
    if name == "absent-class":
        labels = labels % (CLASSES - 1)
    if name == "constant-inputs":
        inputs = torch.ones_like(inputs)
    return inputs, labels


class Case:
    """A network in double precision with its data."""

    def __init__(self, name):
        self.network = constructed(NETWORKS[name], 5).double().eval()
        self.inputs, self.labels = data(name)
        self.safe = safe(self.network)
        self.names = [key for key, _ in self.network.named_parameters()]
        self.values = [value.detach() for value in self.network.parameters()]
        self.sizes = [value.numel() for value in self.values]
        self.size = sum(self.sizes)

    @property
    def data(self):
        return self.inputs, self.labels

    def flat(self, tensors):
        """By parameter, (k, *shape), as rows (k, size)."""
        return torch.cat([each.flatten(1) for each in tensors], dim=1)

    def by_name(self, rows):
        parts = rows.split(self.sizes, dim=1)
        return {
            name: part.reshape(-1, *value.shape)
            for name, part, value in zip(self.names, parts, self.values)
        }

    def outputs(self, row, inputs):
        """The network as a function of one row of parameters, in torch's own kernels."""
        values = [
            part.reshape(value.shape) for part, value in zip(row.split(self.sizes), self.values)
        ]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return functional_call(self.network, dict(zip(self.names, values)), (inputs,))

    @property
    def row(self):
        return torch.cat([value.flatten() for value in self.values])

    def random(self, *shape):
        generator = torch.Generator("cpu").manual_seed(11)
        return torch.randn(shape, generator=generator, **DOUBLE)


@functools.cache
def case(name):
    return Case(name)


# ---- oracles


def reverse(function, x):
    """The Jacobian (outputs, inputs) of a function of a row, a backward pass per output."""
    found = torch.autograd.functional.jacobian(function, x)
    return found.reshape(-1, x.numel())


def differences(function, x):
    """The same by central differences of fourth order."""
    columns = []
    for number in range(x.numel()):
        unit = torch.zeros_like(x)
        unit[number] = STEP
        near = function(x + unit) - function(x - unit)
        far = function(x + 2 * unit) - function(x - 2 * unit)
        columns.append(((8 * near - far) / (12 * STEP)).detach().flatten())
    return torch.stack(columns, dim=1)


class Oracle:
    """Dense derivatives of a case, by reverse mode or by finite differences."""

    def __init__(self, name, derivative):
        self.case = case(name)
        self.derivative = derivative

    @functools.cached_property
    def jacobian(self):
        """(n C, size)."""
        return self.derivative(lambda row: self.case.outputs(row, self.case.inputs), self.case.row)

    @functools.cached_property
    def outputs(self):
        with torch.no_grad():
            return self.case.outputs(self.case.row, self.case.inputs)

    def loss_hessian(self, loss):
        """Block diagonal (n C, n C)."""
        if loss == "squared-error":
            return torch.eye(SAMPLES * CLASSES, **DOUBLE)
        share = self.outputs.softmax(1)
        blocks = torch.diag_embed(share) - share[:, :, None] * share[:, None]
        return torch.block_diag(*blocks)

    def loss(self, row, loss):
        outputs = self.case.outputs(row, self.case.inputs)
        labels = self.case.labels
        if loss == "cross-entropy":
            return functional.cross_entropy(outputs, labels)
        target = functional.one_hot(labels, CLASSES).to(outputs)
        return (outputs - target).square().sum() / 2 / SAMPLES

    def gradient(self, row, loss):
        leaf = row if row.requires_grad else row.detach().requires_grad_()
        value = self.loss(leaf, loss)
        (found,) = torch.autograd.grad(value, leaf, create_graph=row.requires_grad)
        return found

    @functools.cache  # noqa: B019
    def hessian(self, loss):
        return self.derivative(lambda row: self.gradient(row, loss), self.case.row)

    def kernel(self):
        return self.jacobian @ self.jacobian.T

    def gauss_newton(self, loss):
        return self.jacobian.T @ self.loss_hessian(loss) @ self.jacobian / SAMPLES

    def traces(self, loss):
        J = self.jacobian.reshape(SAMPLES, CLASSES, -1)
        blocks = self.loss_hessian(loss).reshape(SAMPLES, CLASSES, SAMPLES, CLASSES)
        own = torch.stack([blocks[i, :, i] for i in range(SAMPLES)])
        return torch.einsum("nap,nab,nbp->n", J, own, J)

    def scalar_slope(self, x):
        """The gradient (size,) of the difference of the first two outputs, at an input."""
        row = self.case.row.requires_grad_()
        value = first_output(self.case.outputs(row, x[None]))[0]
        (found,) = torch.autograd.grad(value, row, create_graph=x.requires_grad)
        return found

    @functools.cached_property
    def mixed(self):
        """d^2 f / d theta d x (size, inputs)."""
        return self.derivative(self.scalar_slope, self.case.inputs[0])

    @functools.cached_property
    def input_gradients(self):
        """(n, inputs) of the difference of the first two outputs."""
        rows = []
        for x in self.case.inputs:

            def output(y):
                return first_output(self.case.outputs(self.case.row, y[None]))

            rows.append(self.derivative(output, x))
        return torch.cat(rows)


@functools.cache
def oracle(name, derivative):
    return Oracle(name, derivative)


# ---- kernels: what is found, and what an oracle expects


def found_linearisation(c, route):
    line = linearise(Outputs(c.network), c.inputs, route=route)
    units = torch.eye(c.size, **DOUBLE)
    forth = line.jvp(units).flatten(1).T
    cotangents = torch.eye(SAMPLES * CLASSES, **DOUBLE).unflatten(1, (SAMPLES, CLASSES))
    back = line.vjp(cotangents)
    return torch.stack([forth, back])


def found_sample_gradients(c):
    gradients = sample_gradients(Outputs(c.network), c.inputs)
    return c.flat([each.flatten(0, 1) for each in gradients.values()])


def found_squares(c):
    """Inner products of a sample's own gradients, summed over layers."""
    features = TangentFeatures(c.network, c.inputs)
    return sum(each.squares() for each in features(c.inputs).values())


def expected_squares(o):
    J = o.jacobian.reshape(SAMPLES, CLASSES, -1)
    return J @ J.mT


def found_factor(c, loss):
    G = GaussNewton(c.network, c.data, loss=loss, batch=4)
    factor = G.factor()
    V = factor.apply(torch.eye(factor.samples, **DOUBLE))
    return V.T @ V


def found_pairs(c):
    """All of the Hessian's eigenvalues by its dense matrix, and the largest two by products."""
    operator = Hessian(c.network, c.data)
    pairs = leading_pairs(operator, c.size)
    generator = torch.Generator("cpu").manual_seed(0)
    by_products = lanczos_eigenpairs(
        operator, 2, generator=generator, tolerance=1e-9, order="largest"
    )
    return torch.cat([pairs.values, by_products.values])


def expected_pairs(o):
    values = torch.linalg.eigvalsh(o.hessian("cross-entropy")).flip(0)
    return torch.cat([values, values[:2]])


def found_quadrature(c):
    """Moments of the spectral measure, from a basis of start vectors as long as the space."""
    operator = GaussNewton(c.network, c.data, check=False)
    generator = torch.Generator("cpu").manual_seed(0)
    measure = quadrature(operator, generator=generator, steps=c.size, starts=1, variant="full")
    largest = measure.nodes[0].max()
    return largest.reshape(1)


def expected_quadrature(o):
    return torch.linalg.eigvalsh(o.gauss_newton("cross-entropy"))[-1:]


def found_mixed(c, step=None):
    module, point = c.safe, c.inputs[0]
    mixed = MixedDerivative(module, point, step=step)
    units = torch.eye(INPUTS, **DOUBLE)
    columns = c.flat(mixed.apply(state_of(module), units).values()).T
    rows = torch.eye(c.size, **DOUBLE)
    back = mixed.adjoint(state_of(module), c.by_name(rows))
    return torch.stack([columns, back])


def found_mixed_gram(c):
    return MixedDerivative(c.safe, c.inputs[0]).gram(state_of(c.safe))


def found_reverse_over_forward(c):
    """M^T u as the gradient in x of a slope along u: the order of geometry-evolution."""
    parameters = dict(c.safe.named_parameters())
    along = {name: rows[0] for name, rows in c.by_name(c.random(1, c.size)).items()}

    def slope(x):
        def output(given):
            return first_output(functional_call(c.safe, given, (x[None],)))[0]

        return jvp(output, (parameters,), (along,))[1]

    return grad(slope)(c.inputs[0])


def expected_reverse_over_forward(o):
    return o.mixed.T @ o.case.random(1, o.case.size)[0]


def found_input_gradients(c):
    """Of two equal networks in a stack."""
    stacked = stack_networks([c.safe, c.safe])
    return input_gradients(stacked, c.inputs)


def found_input_differences(c):
    stacked = stack_networks([c.safe, c.safe])
    return finite_differences(stacked, c.inputs[0], step=1e-5)


def found_moment(c):
    gradients = input_gradients(stack_networks([c.safe]), c.inputs)[0]
    moment = SecondMoment(INPUTS, device="cpu")
    moment.add(gradients)
    return moment.matrix(centred=True)


def expected_moment(o):
    rows = o.input_gradients
    centred = rows - rows.mean(0)
    return centred.T @ centred / SAMPLES


def found_row_spectrum(c):
    rows = input_gradients(stack_networks([c.safe]), c.inputs)[0]
    weights = torch.full((SAMPLES,), 1 / SAMPLES, **DOUBLE)
    return spectrum(gram(rows), weights)[: min(SAMPLES, INPUTS)]


def expected_row_spectrum(o):
    return torch.linalg.svdvals(o.input_gradients).square() / SAMPLES


# ---- trainings

STEPS = 5
RECIPE = {
    "steps": STEPS,
    "batch": 0,
    "learning_rate": 0.2,
    "schedule": "constant",
    "momentum": 0.9,
    "weight_decay": 0.01,
    "clip": 0.5,
}


def parameters_of(networks):
    return torch.stack([flat_parameters(network) for network in networks])


def flat_parameters(network):
    return torch.cat([value.detach().flatten() for value in network.parameters()])


def trained(c, kind):
    """Two copies of the network, trained by the library."""
    networks = [copy.deepcopy(c.network), copy.deepcopy(c.network)]
    samples = [Samples(c.inputs, c.labels)] * 2
    training = kind(networks, samples, penchant.Training(**RECIPE), seeds=[0, 1])
    training.run()
    return parameters_of(training.networks())


def trained_by_hand(c):
    """The same steps in a plain loop."""
    network = copy.deepcopy(c.network).train()
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=RECIPE["learning_rate"],
        momentum=RECIPE["momentum"],
        weight_decay=RECIPE["weight_decay"],
    )
    for _ in range(STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(network(c.inputs), c.labels).backward()
        nn.utils.clip_grad_norm_(network.parameters(), RECIPE["clip"])
        optimizer.step()
    return parameters_of([network] * 2)


CROSS, SQUARED = "cross-entropy", "squared-error"
KERNELS = {
    "tangent kernel": (lambda c: tangent_kernel(c.network, c.inputs), Oracle.kernel),
    "tangent kernel, blocks": (
        lambda c: tangent_kernel(c.network, c.inputs, batch=2, memory=1),
        Oracle.kernel,
    ),
    "tangent kernel, others": (
        lambda c: tangent_kernel(c.network, c.inputs[:3], other=c.inputs),
        lambda o: o.kernel()[: 3 * CLASSES],
    ),
    "kernels of layers": (
        lambda c: sum(layer_kernels(c.network, c.inputs).values()),
        Oracle.kernel,
    ),
    "features of layers": (found_squares, expected_squares),
    "sample gradients": (found_sample_gradients, lambda o: o.jacobian),
    "sample traces": (lambda c: sample_traces(c.network, c.inputs), lambda o: o.traces(CROSS)),
    "sample traces, squared": (
        lambda c: sample_traces(c.network, c.inputs, loss=SQUARED),
        lambda o: o.traces(SQUARED),
    ),
    "J by dual numbers": (
        lambda c: found_linearisation(c, "dual"),
        lambda o: torch.stack([o.jacobian] * 2),
    ),
    "J by double backward": (
        lambda c: found_linearisation(c, "double-backward"),
        lambda o: torch.stack([o.jacobian] * 2),
    ),
    "Gauss-Newton": (
        lambda c: GaussNewton(c.network, c.data).dense(),
        lambda o: o.gauss_newton(CROSS),
    ),
    "Gauss-Newton, squared": (
        lambda c: GaussNewton(c.network, c.data, loss=SQUARED, batch=2, cache=0).dense(),
        lambda o: o.gauss_newton(SQUARED),
    ),
    "Gauss-Newton's factor": (lambda c: found_factor(c, CROSS), lambda o: o.gauss_newton(CROSS)),
    "Gauss-Newton's Gram": (
        lambda c: gauss_newton_gram(c.network, c.data).trace().reshape(1),
        lambda o: o.gauss_newton(CROSS).trace().reshape(1),
    ),
    "Gauss-Newton's spectrum": (
        lambda c: gauss_newton_spectrum(c.network, c.data)[:RANK],
        lambda o: torch.linalg.eigvalsh(o.gauss_newton(CROSS)).flip(0)[:RANK],
    ),
    "Hessian": (lambda c: Hessian(c.network, c.data).dense(), lambda o: o.hessian(CROSS)),
    "Hessian, squared": (
        lambda c: Hessian(
            c.network,
            (c.inputs, functional.one_hot(c.labels, CLASSES).double()),
            loss=SQUARED,
            batch=2,
            cache=0,
        ).dense(),
        lambda o: o.hessian(SQUARED),
    ),
    "Hessian's residual": (
        lambda c: (Hessian(c.network, c.data) - GaussNewton(c.network, c.data)).dense(),
        lambda o: o.hessian(CROSS) - o.gauss_newton(CROSS),
    ),
    "Hessian's eigenvalues": (found_pairs, expected_pairs),
    "Lanczos, largest node": (found_quadrature, expected_quadrature),
    "mixed derivative": (found_mixed, lambda o: torch.stack([o.mixed] * 2)),
    "mixed derivative's Gram": (found_mixed_gram, lambda o: o.mixed.T @ o.mixed),
    "reverse over forward": (found_reverse_over_forward, expected_reverse_over_forward),
    "input gradients, stacked": (
        found_input_gradients,
        lambda o: torch.stack([o.input_gradients] * 2),
    ),
    "second moment": (found_moment, expected_moment),
    "spectrum of rows": (found_row_spectrum, expected_row_spectrum),
}
TRAININGS = {"trained one by one": OneByOne, "trained as a stack": Stacked}
# what has an error of its own: the step of finite differences, the end of an iteration
COARSE = {
    "mixed derivative, step": (
        lambda c: found_mixed(c, step=1e-4),
        lambda o: torch.stack([o.mixed] * 2),
    ),
    "input differences, stacked": (
        found_input_differences,
        lambda o: torch.stack([o.input_gradients[0]] * 2),
    ),
}


def relative(found, expected):
    """|found - expected| / |expected|; the difference itself where nothing is expected."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    away = float((found - expected).norm())
    size = float(expected.norm())
    return away / size if size > 1e-12 else away


def compared(kernel, name):
    """The relative differences from both oracles."""
    compute, expect = (KERNELS | COARSE)[kernel]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotVectorisedWarning)  # of the LSTM
        found = compute(case(name)).detach()
    derivatives = (reverse, differences)
    return [relative(found, expect(oracle(name, each))) for each in derivatives]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_that_of_dense_derivatives_and_of_finite_differences(kernel, name):
    if (kernel, name) in REFUSED:
        with pytest.raises(NotRecordableError, match=REFUSED[kernel, name]):
            compared(kernel, name)
        return
    by_autodiff, by_differences = compared(kernel, name)
    assert by_autodiff < BY_AUTODIFF
    assert by_differences < BY_DIFFERENCES


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kernel", COARSE)
def test_differences_are_derivatives_up_to_their_step(kernel, name):
    assert max(compared(kernel, name)) < BY_DIFFERENCES


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", TRAININGS)
def test_trainings_make_the_steps_of_a_plain_loop(kind, name):
    c = case(name)
    if (kind, name) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[kind, name]):
            trained(c, TRAININGS[kind])
        return
    assert relative(trained(c, TRAININGS[kind]), trained_by_hand(c)) < BY_AUTODIFF


# what does not hold and is refused in a sentence
REFUSED = {
    ("trained as a stack", "lstm"): r"one stack: layer 'cell' \(LSTM\) cannot be vectorised",
    ("J by dual numbers", "lstm"): "changes in place a value",
}


def cell_of(row, name):
    """What the table says."""
    try:
        if row in TRAININGS:
            by_hand = trained_by_hand(case(name))
            return f"{relative(trained(case(name), TRAININGS[row]), by_hand):.0e}"
        by_autodiff, by_differences = compared(row, name)
        return f"{by_autodiff:.0e} {by_differences:.0e}"
    except (ValueError, NotRecordableError):
        return "refused"


if __name__ == "__main__":
    heads = "".join(f"{name:>16}" for name in NETWORKS)
    sys.stdout.write(f"{'':28}{heads}\n")
    for row in (*KERNELS, *COARSE, *TRAININGS):
        cells = "".join(f"{cell_of(row, name):>16}" for name in NETWORKS)
        sys.stdout.write(f"{row:28}{cells}\n")
        sys.stdout.flush()
