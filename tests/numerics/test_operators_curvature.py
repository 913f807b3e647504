"""Gauss-Newton, Hessian and E against dense autodiff, curvlinops and BackPACK; routes, batches, and leaving no trace."""
# ruff: noqa: T201 (the numbers are shown with -s)

import functools

import pytest
import torch
from penchant_numerics.curvature import GaussNewton, Hessian, loss_function
from penchant_numerics.device.determinism import NotDeterministicError
from torch import nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SAMPLES, CLASSES = 11, 3
LOSSES = ("cross-entropy", "squared-error")


def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, CLASSES)), (5,)


def convolutions():
    network = nn.Sequential(
        nn.Conv2d(1, 2, 3, bias=False),
        nn.BatchNorm2d(2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )
    network[1].running_mean.uniform_(-1, 1)
    network[1].running_var.uniform_(0.5, 2)
    return network, (1, 6, 6)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block = (
            nn.Linear(2, 3),
            nn.TransformerEncoderLayer(3, 1, 3, batch_first=True, activation="gelu"),
        )
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x):
        return self.head(self.block(self.embed(x)).mean(1))


class Recurrent(nn.Module):
    """A module used three times, and writing into a buffer of its own making."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.Linear(5, 5), nn.Linear(15, CLASSES)

    def forward(self, x):
        joined = x.new_zeros(len(x), 15)
        for step in range(3):
            x = torch.tanh(self.cell(x))
            joined[:, 5 * step : 5 * step + 5] = x
        return self.head(joined)


NETWORKS = {
    "mlp": mlp,
    "convolutions": convolutions,
    "attention": lambda: (Attention(), (4, 2)),
    "recurrent": lambda: (Recurrent(), (5,)),
}


CASES = [
    (name, loss)
    for name in NETWORKS
    for loss in LOSSES
    if (name, loss) != ("attention", "squared-error")
]  # the slowest, once


def build(name, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, shape = NETWORKS[name]()
        network = network.double().eval()
        inputs = torch.randn(SAMPLES, *shape, dtype=torch.float64)
        return network, (inputs, torch.randint(0, CLASSES, (SAMPLES,)))


def flat_outputs(network, inputs):
    """Outputs as a function of the flat parameters, and these."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    sizes = [value.numel() for value in parameters.values()]

    def outputs(flat):
        parts = zip(parameters.items(), flat.split(sizes))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return functional_call(
                network, {name: part.view_as(value) for (name, value), part in parts}, (inputs,)
            )

    return outputs, torch.cat([value.reshape(-1) for value in parameters.values()])


def dense_gauss_newton(network, data, loss):
    """The Hessian of the loss of the linearised network: torch.func's own."""
    outputs, flat = flat_outputs(network, data[0])
    J, at = jacrev(outputs)(flat), outputs(flat)
    mean = loss_function(loss)
    return hessian(lambda step: mean(at + J @ step, data[1]))(torch.zeros_like(flat))


def dense_hessian(network, data, loss):
    """torch.func's Hessian; row by row with a layer-norm, whose second derivatives vmap makes unsymmetric (seen in torch 2.13)."""
    outputs, flat = flat_outputs(network, data[0])

    def mean_loss(theta):
        return loss_function(loss)(outputs(theta), data[1])

    if any(isinstance(module, nn.LayerNorm) for module in network.modules()):
        return torch.autograd.functional.hessian(mean_loss, flat)
    return hessian(mean_loss)(flat)


@functools.cache
def known_gauss_newton(name, loss):
    """That of a network of this file, which several tests only read."""
    return dense_gauss_newton(*build(name), loss)


def rows(size, count=4, seed=0):
    """Random vectors: an operator is linear, so an entry that is wrong shows in every product."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, size, generator=generator, dtype=torch.float64)


def close(found, expected, tolerance=1e-9):
    assert float((found - expected).abs().max()) <= tolerance * max(
        1.0, float(expected.abs().max())
    )


@pytest.mark.parametrize("cache", [2**30, 0])
@pytest.mark.parametrize(("name", "loss"), CASES)
def test_gauss_newton_is_that_of_the_linearised_network(name, loss, cache):
    network, data = build(name)
    exact = known_gauss_newton(name, loss)
    G = GaussNewton(
        network, data, loss=loss, batch=6, cache=cache
    )  # 6 + 5: batches weigh what they hold
    assert G.route == "dual"
    W = rows(G.size)
    close(G.multiply_rows(W), W @ exact)
    close(G @ W[0], exact @ W[0])
    # V V^T is G, and what is called its transpose is that
    V = G.factor()
    inside, u = V.adjoint(W), rows(V.samples, seed=1)
    close(inside @ inside.T, W @ exact @ W.T)
    close(V.apply(inside), W @ exact)
    close(V.apply(u) @ W.T, u @ inside.T)


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_hessian_is_torch_funcs(name, loss):
    network, data = build(name)
    exact = dense_hessian(network, data, loss)
    for cache in (2**30, 0):
        H = Hessian(network, data, loss=loss, batch=6, cache=cache)
        W = rows(H.size)
        close(H.multiply_rows(W), W @ exact)
        close(H @ W[0], exact @ W[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_hessian_is_the_slope_of_the_gradient(name):
    network, data = build(name)
    outputs, flat = flat_outputs(network, data[0])
    slope = jacrev(lambda theta: loss_function("cross-entropy")(outputs(theta), data[1]))
    v = torch.randn(len(flat), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = (slope(flat + 1e-5 * v) - slope(flat - 1e-5 * v)) / 2e-5
    close(Hessian(network, data, batch=4) @ v, expected, 1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_residual_is_hessian_minus_gauss_newton(loss):
    network, data = build("mlp")
    options = {"loss": loss, "batch": 4}
    E = Hessian(network, data, **options) - GaussNewton(network, data, **options)
    exact = dense_hessian(network, data, loss) - known_gauss_newton("mlp", loss)
    W = rows(E.size)
    close(E.multiply_rows(W), W @ exact)
    assert E.conventions["reduction"] == "mean over samples"


def test_one_output_is_the_difference_of_two_logits():
    network, data = build("mlp")
    network[2] = nn.Linear(7, 1).double()
    data = (data[0], data[1] % 2)
    close(
        GaussNewton(network, data, batch=4).dense(),
        dense_gauss_newton(network, data, "cross-entropy"),
    )
    close(Hessian(network, data, batch=4).dense(), dense_hessian(network, data, "cross-entropy"))
    assert GaussNewton(network, data).factor().samples == SAMPLES


def test_reduction_is_recorded_and_a_sum_is_samples_times_the_mean():
    network, data = build("mlp")
    mean, total = (GaussNewton(network, data, reduction=reduction) for reduction in ("mean", "sum"))
    close(total.dense(), SAMPLES * mean.dense())
    assert mean.conventions == {
        "loss": "softmax cross-entropy, true Fisher",
        "reduction": "mean over samples",
    }
    with pytest.raises(ValueError, match="found 'hinge'"):
        GaussNewton(network, data, loss="hinge")


@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_layers_are_blocks_of_the_whole(operator):
    network, data = build("mlp")
    whole = operator(network, data)
    part = operator(network, data, parameters="2")
    where = slice(whole.layout.slices["2.weight"].start, whole.size)
    close(part.dense(), whole.dense()[where, where])
    biases = operator(network, data, parameters="*.bias")
    assert biases.layout.names == ("0.bias", "2.bias")


def test_blocks_equal_single_products_on_a_network_too_large_for_one_vectorised_pass():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, x = (
            nn.Sequential(nn.Linear(130, 130), nn.ReLU(), nn.Linear(130, 3)).double(),
            torch.randn(9, 130).double(),
        )
    for cache in (2**30, 0):
        G = GaussNewton(network, (x, None), batch=4, cache=cache)
        V = torch.randn(G.size, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        close(G @ V, torch.stack([G @ v for v in V.T], dim=1), 1e-12)


def test_what_is_kept_is_bounded_by_the_option():
    network, data = build("convolutions")
    whole = GaussNewton(network, data, batch=4)
    some = GaussNewton(network, data, batch=4, cache=whole.cached_bytes // 2)
    assert (whole.cached, some.cached) == (3, 1)
    assert some.cached_bytes <= whole.cached_bytes // 2
    W = rows(whole.size)
    close(some.multiply_rows(W), whole.multiply_rows(W), 1e-13)
    H = Hessian(network, data, batch=4)
    assert H.cached == 3
    assert Hessian(network, data, batch=4, cache=H.cached_bytes // 2).cached == 1


def test_tangents_are_shared_and_gradients_are_not_kept():
    """Neither of them, as large as all parameters, is cached per batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(60, 200), nn.ReLU(), nn.Linear(200, 3)).double()
        data = (torch.randn(12, 60).double(), torch.arange(12) % 3)
    size = 8 * sum(p.numel() for p in network.parameters())
    for operator in (GaussNewton, Hessian):
        few, many = (operator(network, data, batch=batch) for batch in (12, 3))
        assert (few.cached, many.cached) == (1, 4)
        assert many.cached_bytes - few.cached_bytes < size / 4


CHANGES = {
    "an optimiser's step": lambda p: p.add_(0.1),
    "an edit of data": lambda p: p.data.mul_(2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_kept_activations_are_refused_when_parameters_have_changed(operator, change):
    network, data = build("mlp")
    cached, streamed = operator(network, data, batch=4), operator(network, data, batch=4, cache=0)
    v = torch.ones(cached.size, dtype=torch.float64)
    cached @ v
    with torch.no_grad():
        change(network[2].weight)
    with pytest.raises(ValueError, match=r"'2.weight' has changed since this operator cached"):
        cached @ v
    if operator is GaussNewton:
        for product in (cached.factor().apply, cached.factor().adjoint):
            with pytest.raises(ValueError, match="make a new operator"):
                product(v[None])
    close(
        streamed @ v, operator(network, data, batch=4) @ v
    )  # nothing cached: the network as it is


@pytest.mark.parametrize("batch", [11, 4, 1])
def test_samples_that_the_loss_ignores_do_not_count(batch):
    network, (x, labels) = build("mlp")
    labels = labels.clone()
    labels[[0, 4, 5, 6, 7]] = -100  # the second batch of four has no label at all
    outputs, flat = flat_outputs(network, x)
    mean = torch.nn.functional.cross_entropy
    exact = hessian(lambda theta: mean(outputs(theta), labels))(flat)
    W = rows(len(flat))
    close(Hessian(network, (x, labels), batch=batch).multiply_rows(W), W @ exact)
    known = labels != -100
    G = GaussNewton(network, (x, labels), batch=batch)
    linearised = dense_gauss_newton(network, (x[known], labels[known]), "cross-entropy")
    close(G.multiply_rows(W), W @ linearised)
    assert G.samples == 6
    with pytest.raises(ValueError, match="all 11 labels are -100"):
        Hessian(network, (x, torch.full_like(labels, -100)))


@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_frozen_parameters_are_left_out_when_asked(operator):
    network, data = build("mlp")
    whole = operator(network, data)
    network[0].requires_grad_(False)
    assert operator(network, data).size == whole.size
    part = operator(network, data, trainable_only=True)
    assert part.layout.names == ("2.weight", "2.bias")
    where = slice(whole.layout.slices["2.weight"].start, whole.size)
    close(part.dense(), whole.dense()[where, where])


def test_a_program_that_cannot_be_recorded_runs_on_dual_numbers_each_time():
    network, data = build("recurrent")
    G = GaussNewton(network, data, batch=4)
    print(f"cached {G.cached}, because {G.reason!r}")
    assert G.route == "dual"
    assert (G.cached == 0) == bool(G.reason)


class Sampled(nn.Module):
    """grid_sample has no forward-mode derivative."""

    def forward(self, x):
        grid = (
            torch.linspace(-0.9, 0.9, 12, device=x.device, dtype=x.dtype)
            .reshape(1, 2, 3, 2)
            .expand(len(x), -1, -1, -1)
        )
        return functional.grid_sample(
            x.reshape(len(x), 1, 2, -1), grid, align_corners=False
        ).flatten(1)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class Squared(nn.Module):
    def forward(self, x):
        return Square.apply(x)


@pytest.mark.parametrize("cache", [2**30, 0])
@pytest.mark.parametrize(
    ("middle", "reason"), [(Sampled, "grid_sampler_2d"), (Squared, "a custom autograd.Function")]
)
def test_double_backward_takes_over_and_says_why(middle, reason, cache):
    network, data = build("mlp")
    network = nn.Sequential(nn.Linear(5, 6), middle(), nn.Linear(6, CLASSES)).double()
    G = GaussNewton(network, data, batch=4, cache=cache)
    assert (G.route, G.reason) == ("double-backward", reason)
    outputs, flat = flat_outputs(network, data[0])
    J = torch.autograd.functional.jacobian(outputs, flat)
    p = outputs(flat).softmax(1)
    exact = (
        torch.einsum("ncp,ncd,ndq->pq", J, torch.diag_embed(p) - p[:, :, None] * p[:, None], J)
        / SAMPLES
    )
    W = rows(G.size)
    close(G.multiply_rows(W), W @ exact)
    close(G @ exact[0], exact @ exact[0])
    close(G.quadratic(exact[:1])[0], exact[0] @ exact @ exact[0])


@pytest.fixture(scope="module")
def timm():
    """timm, with the two operator schemas that its torchvision may fail to declare."""
    schemas = [
        f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor"
        for name in ("nms", "qnms")
    ]
    try:
        import timm
    except (ImportError, RuntimeError, AttributeError):
        library = torch.library.Library("torchvision", "DEF")
        for schema in schemas:
            library.define(schema)
        timm = pytest.importorskip("timm")
    return timm


def gradient_route(network, inputs, v):
    """G v in three steps of plain autograd: double backward for J v, then J^T."""
    parameters = [value.detach().requires_grad_() for value in network.parameters()]
    names = [name for name, _ in network.named_parameters()]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        outputs = functional_call(network, dict(zip(names, parameters)), (inputs,))
    dummy = torch.zeros_like(outputs, requires_grad=True)
    pulled = torch.autograd.grad(
        outputs, parameters, dummy, create_graph=True, materialize_grads=True
    )
    along = torch.autograd.grad(
        sum((p.flatten() * part).sum() for p, part in zip(pulled, v)), dummy
    )[0]
    share = outputs.detach().softmax(1)
    weights = share * (along - (share * along).sum(1, keepdim=True)) / len(inputs)
    return torch.cat(
        [
            each.flatten()
            for each in torch.autograd.grad(outputs, parameters, weights, materialize_grads=True)
        ]
    )


class Doubled(torch.autograd.Function):
    """Has no forward-mode derivative."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class TwiceAsLarge(nn.Module):
    def forward(self, weight):
        return Doubled.apply(weight)


@pytest.mark.parametrize(
    ("model", "options"), [("test_resnet", {}), ("test_vit", {"img_size": 32, "depth": 2})]
)
def test_timm_networks_run_on_dual_numbers_until_an_operation_lacks_them(timm, model, options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = timm.create_model(model, num_classes=4, **options).eval()
        inputs = torch.randn(3, 3, 32, 32)
        v = torch.randn(sum(p.numel() for p in network.parameters()))
    sizes = [p.numel() for p in network.parameters()]
    for expected in (("dual", ""), ("double-backward", "a custom autograd.Function")):
        G = GaussNewton(network, (inputs, None), batch=2)
        assert (G.route, G.reason) == expected
        exact = gradient_route(network, inputs, v.split(sizes))
        assert float((G @ v - exact).norm() / exact.norm()) < 1e-4
        head = network.get_classifier()
        nn.utils.parametrize.register_parametrization(head, "weight", TwiceAsLarge())
        sizes = [p.numel() for p in network.parameters()]


def test_products_equal_curvlinops():
    import curvlinops

    for name in ("mlp", "convolutions"):
        network, (x, y) = build(name)
        batches, parameters = list(zip(x.split(4), y.split(4))), list(network.parameters())
        theirs = {
            "loss_func": nn.CrossEntropyLoss(),
            "params": parameters,
            "data": batches,
            "check_deterministic": False,
        }
        pairs = [
            (GaussNewton, curvlinops.GGNLinearOperator),
            (Hessian, curvlinops.HessianLinearOperator),
        ]
        for ours, other in pairs:
            operator = ours(network, (x, y), batch=4)
            v = torch.randn(
                operator.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64
            )
            expected = other(network, **theirs) @ v
            print(
                f"{name} {ours.__name__}: {float((operator @ v - expected).norm() / expected.norm()):.1e} from curvlinops"
            )
            close(operator @ v, expected.detach(), 1e-5)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of backpack's own hooks
def test_diagonal_equals_backpack():
    import backpack
    from backpack.extensions import DiagGGNExact

    network, (x, y) = build("mlp")
    extended, loss = backpack.extend(network), backpack.extend(nn.CrossEntropyLoss())
    with backpack.backpack(DiagGGNExact()):
        loss(extended(x), y).backward()
    theirs = torch.cat([p.diag_ggn_exact.flatten() for p in network.parameters()])
    ours = GaussNewton(build("mlp")[0], (x, y), batch=4).dense().diagonal()
    print(f"largest difference to BackPACK's diagonal: {float((ours - theirs).abs().max()):.1e}")
    close(ours, theirs, 1e-9)


def test_trace_is_estimated_with_its_error():
    network, data = build("mlp")
    G = GaussNewton(network, data)
    found = G.trace(generator=torch.Generator().manual_seed(0), samples=200)
    exact = float(G.dense().trace())
    print(f"trace {exact:.4f}, found {found.value:.4f} +- {found.stderr:.4f}")
    assert abs(found.value - exact) < 4 * found.stderr


class Noisy(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.5)


@pytest.mark.parametrize(
    ("middle", "training", "message"),
    [
        (nn.Dropout(0.5), True, r"'1' \(Dropout\) is in training mode"),
        (nn.BatchNorm1d(7), True, r"'1' \(BatchNorm1d\) is in training mode"),
        (Noisy(), False, r"'1' \(Noisy\) gives other outputs for equal inputs"),
        (
            nn.BatchNorm1d(7, track_running_stats=False),
            False,
            r"'1' \(BatchNorm1d\) mixes the samples",
        ),
    ],
)
@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_what_is_not_deterministic_is_refused_by_name(operator, middle, training, message):
    network = nn.Sequential(nn.Linear(5, 7), middle, nn.Linear(7, 3)).double().train(training)
    before = torch.random.get_rng_state()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(NotDeterministicError, match=message):
        operator(network, build("mlp")[1])
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


class Strict(TorchFunctionMode):
    """Refuses tensor factories that do not say where."""

    made = {
        torch.zeros,
        torch.ones,
        torch.empty,
        torch.full,
        torch.eye,
        torch.arange,
        torch.linspace,
        torch.tensor,
        torch.as_tensor,
    }
    made |= {torch.rand, torch.randn, torch.randint, torch.randperm, torch.logspace}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self.made and "device" not in (kwargs or {}):
            raise AssertionError(f"{func.__name__} without device=")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_no_trace_is_left_and_tensors_say_where_they_are(operator):
    network, data = build("convolutions")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    random = torch.random.get_rng_state()
    vectors = rows(sum(value.numel() for value in network.parameters())).T
    with Strict():
        A = operator(network, data, batch=4)
        for cache in (2**30, 0):
            A = operator(network, data, batch=4, cache=cache)
            A @ A.matmat(vectors)[:, 0]
            A.trace(generator=torch.Generator("cpu").manual_seed(0), samples=2)
    assert all(p.grad is None and p.requires_grad for p in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_hooks for module in network.modules())
    assert torch.equal(random, torch.random.get_rng_state())
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("cache", [2**30, 0])
def test_products_run_on_the_meta_device(cache):
    network, _ = build("convolutions")
    network = network.to("meta")
    x = torch.zeros(5, 1, 6, 6, device="meta", dtype=torch.float64)
    G = GaussNewton(network, (x, None), batch=2, cache=cache, check=False)
    v = torch.zeros(G.size, device="meta", dtype=torch.float64)
    assert (G @ v).device.type == "meta"
    y = torch.zeros(5, device="meta", dtype=torch.int64)
    assert (Hessian(network, (x, y), batch=2, cache=cache, check=False) @ v).shape == v.shape


@pytest.mark.cuda
@pytest.mark.parametrize("operator", [GaussNewton, Hessian])
def test_products_on_cuda_equal_those_on_the_cpu(operator, gpu):
    network, data = build("convolutions")
    exact = operator(network, data, batch=4).dense()
    found = operator(network.to(gpu), tuple(each.to(gpu) for each in data), batch=4).dense()
    close(found.cpu(), exact)
