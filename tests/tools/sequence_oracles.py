"""Operators on losses over positions, beside dense autodiff and curvlinops; errors beside resampling.

Run: python tests/tools/sequence_oracles.py

A GPT-2 of transformers with one block, in float64, on sequences of different lengths. Every row is
the largest difference of two matrices, relative to the largest entry of the second. The errors are
those that probes state, over what the same number does from one set of sequences to the next.
"""

import copy
from pydoc_data.topics import topics

import curvlinops
import penchant
import torch
from penchant_curvature.declarations import Kfac
from penchant_curvature.estimators import kfac
from penchant_huggingface.architectures.huggingface import build
from penchant_huggingface.declarations import HuggingFace
from penchant_numerics.curvature import GaussNewton, Hessian, loss_gradients, numbers_of
from penchant_numerics.data import IGNORED
from penchant_numerics.device.plain_functions import PlainFunctions
from penchant_numerics.layers import tangent_kernel
from torch import nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

TOKENS, SEQUENCES, POSITIONS = 11, 6, 5
SETTINGS = ("n_layer=1", "n_head=2", "n_embd=8", "n_inner=12", "tie_word_embeddings=false")
ATTENTION = "transformer.h.0.attn.c_attn"  # its errors come from later positions, too
PERCEPTRON = "transformer.h.0.mlp.c_fc"  # errors of its own position only, as curvlinops assumes
SETS, OF_EACH = 32, 24  # sets of sequences, and sequences in each


class Rows(nn.Module):
    """The same network with a row for every position, as curvlinops wants it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, tokens):
        return self.network(tokens).flatten(0, 1)


def language_model(tokens=TOKENS, positions=POSITIONS):
    """A network, tokens, and labels of which two sequences have fewer."""
    torch.manual_seed(0)
    settings = (*SETTINGS, f"n_positions={positions}")
    options = HuggingFace.bind({"model_type": "gpt2", "config": settings})
    network = build(options, (positions,), tokens).double().eval()
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.3 * torch.randn_like(value))  # far from where it was drawn
    inputs = torch.randint(0, tokens, (SEQUENCES, positions))
    labels = torch.randint(0, tokens, (SEQUENCES, positions))
    labels[0, 1:] = labels[2, 3:] = IGNORED
    return network, inputs, labels


def flat(network):
    """Outputs as a function of one vector, and that vector."""
    named = {name: value.detach() for name, value in network.named_parameters()}
    sizes = [value.numel() for value in named.values()]

    def outputs(vector, tokens):
        parts = vector.split(sizes)
        values = {
            name: part.reshape(value.shape)
            for (name, value), part in zip(named.items(), parts, strict=True)
        }
        return functional_call(network, values, (tokens,))

    return outputs, torch.cat([value.flatten() for value in named.values()])


def difference(found, expected):
    """The largest difference of two matrices, relative to the largest entry of the second."""
    return float((found - expected).detach().abs().max() / expected.detach().abs().max())


# ---- against dense autodiff


def jacobian(network, tokens):
    """All derivatives (sequences, positions, C, parameters)."""
    outputs, vector = flat(network)
    return jacrev(lambda v: outputs(v, tokens))(vector)


def dense_matrices(network, tokens, labels):
    """Hessian, Gauss-Newton, kernel of outputs and kernel of loss gradients, by autograd alone."""
    outputs, vector = flat(network)

    def losses(v):
        each = functional.cross_entropy(
            outputs(v, tokens).flatten(0, 1), labels.flatten(), reduction="none"
        )
        return each.reshape(labels.shape).sum(1) / int((labels != IGNORED).sum())

    H = hessian(lambda v: losses(v).sum())(vector)
    J = jacobian(network, tokens)
    counted = labels != IGNORED
    p = network(tokens).detach().softmax(-1)[counted]
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    G = torch.einsum("nci,ncd,ndj->ij", J[counted], inner, J[counted]) / len(p)
    K = torch.einsum("ai,bi->ab", J.flatten(0, 2), J.flatten(0, 2))
    g = jacrev(losses)(vector) * len(tokens)
    return {
        "hessian": H,
        "gauss-newton": G,
        "tangent kernel": K,
        "kernel of loss gradients": g @ g.T,
    }


def dense_kfac(network, tokens, name):
    """KFAC of one layer with its bias, every position a label: moments from autograd alone."""
    seen = []
    layer = network.get_submodule(name)
    handle = layer.register_forward_hook(lambda _, given, made: seen.append((given[0], made)))
    outputs = network(tokens)
    handle.remove()
    ((given, made),) = seen
    h = given.detach().flatten(0, 1)
    h = torch.cat([h, torch.ones_like(h[:, :1])], dim=1)
    delta = torch.zeros(made.shape[-1], made.shape[-1], dtype=h.dtype)
    for i, t in torch.cartesian_prod(torch.arange(SEQUENCES), torch.arange(POSITIONS)):
        p = outputs[i, t].detach().softmax(-1)
        values, vectors = torch.linalg.eigh(torch.diag(p) - torch.outer(p, p))
        for column in (vectors * values.clamp(min=0).sqrt()).T:
            (errors,) = torch.autograd.grad(outputs[i, t] @ column, made, retain_graph=True)
            delta += errors[i].T @ errors[i]
    return torch.kron(h.T @ h / len(h), delta / tokens.numel())  # inputs first, as Conv1D has it


# ---- against curvlinops


def with_linear_layers(network):
    """A copy with nn.Linear in place of Conv1D, whose factors curvlinops does not know."""
    copied = copy.deepcopy(network)
    for name, module in list(copied.named_modules()):
        if type(module).__name__ != "Conv1D":
            continue
        inputs, outputs = module.weight.shape
        linear = nn.Linear(inputs, outputs, dtype=torch.float64)
        linear.weight.data, linear.bias.data = module.weight.data.T.clone(), module.bias.data
        parent, _, own = name.rpartition(".")
        setattr(copied.get_submodule(parent), own, linear)
    return copied


def matrix_of(kind, network, parameters, tokens, labels, **options):
    """An operator of curvlinops as a matrix."""
    options = {"num_data": labels.numel(), "batch_size_fn": torch.numel} | options
    loss = nn.CrossEntropyLoss(ignore_index=IGNORED)
    data = [(tokens, labels.flatten())]
    operator = kind(Rows(network), loss, parameters, data, check_deterministic=False, **options)
    return operator @ torch.eye(operator.shape[1], dtype=torch.float64)


def curvlinops_matrices(network, tokens, labels):
    """Hessian, Gauss-Newton and tangent kernel."""
    parameters = list(network.parameters())
    J = curvlinops.JacobianLinearOperator(
        Rows(network), parameters, [(tokens, labels.flatten())], check_deterministic=False,
        num_data=labels.numel(), batch_size_fn=torch.numel,
    )  # fmt: skip
    J = J @ torch.eye(J.shape[1], dtype=torch.float64)
    of = (parameters, tokens, labels)
    return {
        "hessian": matrix_of(curvlinops.HessianLinearOperator, network, *of),
        "gauss-newton": matrix_of(curvlinops.GGNLinearOperator, network, *of),
        "tangent kernel": J @ J.T,
    }


def curvlinops_kfac(network, tokens, name):
    """KFAC of the same layer as nn.Linear, in the order of Conv1D."""
    copied = with_linear_layers(network)
    layer = copied.get_submodule(name)
    K = matrix_of(
        curvlinops.KFACLinearOperator,
        copied,
        list(layer.parameters()),
        tokens,
        torch.zeros_like(tokens),
        num_data=len(tokens),
        batch_size_fn=len,
        fisher_type="type-2",
        kfac_approx="expand",
        separate_weight_and_bias=False,
    )
    outputs, inputs = layer.weight.shape
    order = torch.arange(outputs * inputs).reshape(outputs, inputs).T.flatten()
    order = torch.cat([order, outputs * inputs + torch.arange(outputs)])
    return K[order][:, order]


# ---- the package


class Scope:
    """What an estimator asks of a context."""

    training = None

    def __init__(self):
        self.conventions = {}

    def generator(self, *keys):
        return torch.Generator().manual_seed(0)


def our_matrices(network, tokens, labels):
    """The same by the operators of the package."""
    data = (tokens, labels)
    return {
        "hessian": Hessian(network, data).dense(),
        "gauss-newton": GaussNewton(network, data).dense(),
        "tangent kernel": tangent_kernel(network, tokens),
        "kernel of loss gradients": tangent_kernel(
            loss_gradients(network, data), numbers_of(tokens)
        ),
    }


def our_kfac(network, tokens, name):
    """KFAC of the layer, every position a label."""
    data = (tokens, torch.zeros_like(tokens))
    return kfac.estimate(Kfac(uncovered="accept"), Scope(), network, data)[name].dense()


def differences():
    """{matrix: (from dense autodiff, from curvlinops or None)}.

    Second derivatives of torch's layer norm are wrong inside torch.func (torch 2.13), which
    curvlinops takes, too: both are given it in elementary steps. As it is they are in one row.
    """
    network, tokens, labels = language_model()
    ours = our_matrices(network, tokens, labels)
    with PlainFunctions():
        dense = dense_matrices(network, tokens, labels)
        theirs = curvlinops_matrices(network, tokens, labels)
    for name in (ATTENTION, PERCEPTRON):
        ours[f"kfac of {name}"] = our_kfac(network, tokens, name)
        dense[f"kfac of {name}"] = dense_kfac(network, tokens, name)
    theirs[f"kfac of {PERCEPTRON}"] = curvlinops_kfac(network, tokens, PERCEPTRON)
    table = {}
    for name, found in ours.items():
        other = difference(found, theirs[name]) if name in theirs else None
        table[name] = difference(found, dense[name]), other
    return table | unmended(network, tokens, labels, ours["hessian"])


def unmended(network, tokens, labels, H):
    """The Hessian beside finite differences of the gradient, and beside torch's own layer norm."""
    outputs, vector = flat(network)

    def gradient(v):
        v = v.clone().requires_grad_(True)
        loss = functional.cross_entropy(outputs(v, tokens).flatten(0, 1), labels.flatten())
        return torch.autograd.grad(loss, v)[0]

    u = torch.randn(vector.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slope = (gradient(vector + 1e-5 * u) - gradient(vector - 1e-5 * u)) / 2e-5
    dense = dense_matrices(network, tokens, labels)["hessian"]
    theirs = curvlinops_matrices(network, tokens, labels)["hessian"]
    return {
        "hessian product, by finite differences of gradients": (difference(H @ u, slope), None),
        "hessian, with torch's own layer norm in theirs": (
            difference(H, dense),
            difference(H, theirs),
        ),
    }


# ---- errors over sequences


def stated_and_spread(probe, names, **options):
    """{quantity: (root mean square of stated errors, spread)} over sets of other sequences."""
    found = [_of_set(probe, number, **options) for number in range(SETS)]
    table = {}
    for name in names:
        values = torch.tensor([each[name].value for each in found], dtype=torch.float64)
        stated = torch.tensor([each[name].stderr for each in found], dtype=torch.float64)
        table[name] = float(stated.square().mean().sqrt()), float(values.std())
    return table


def _of_set(probe, number, **options):
    """Quantities of one set of sequences of the documentation, at random places."""
    text = torch.tensor(list("\n".join(topics.values())[:200_000].encode("latin-1", "replace")))
    generator = torch.Generator().manual_seed(number)
    starts = torch.randint(0, len(text) - 12, (2 * OF_EACH,), generator=generator)
    rows = text[starts[:, None] + torch.arange(9)] % 16
    train, test = rows[:OF_EACH], rows[OF_EACH:]
    network, _, _ = language_model(tokens=16, positions=8)
    result = penchant.measure(
        probe,
        architecture=network,
        dataset=((train[:, :-1], train[:, 1:]), (test[:, :-1], test[:, 1:])),
        dtype="float64",
        executor="serial",
        **options,
    )
    return result.quantities


ERRORS = {
    "hessian-spectrum": (
        ("loss", "trace-gauss-newton"),
        {"matrices": ("gauss-newton",), "leading": 2, "split": "train", "lanczos_steps": 4},
    ),
    "tangent-kernel": (
        ("trace", "effective-rank"),
        {"samples": OF_EACH, "groups": 8, "ratios": (4,), "permutations": 2, "split": "train"},
    ),
    "curvature-proxies": (
        ("last-error-kfac",),
        {
            "per_class": 12,
            "last": 1,
            "lanczos_steps": 4,
            "grid_points": 16,
            "estimators": {"curvature": ["ggn", {"name": "kfac", "uncovered": "accept"}]},
        },
    ),
}


def main():
    print("largest difference, relative to the largest entry: dense autodiff, curvlinops")
    for name, (dense, theirs) in differences().items():
        print(f"  {name}: {dense:.1e}, {'-' if theirs is None else f'{theirs:.1e}'}", flush=True)
    print(f"stated standard error, spread over {SETS} sets of {OF_EACH} sequences, ratio")
    for probe, (names, options) in ERRORS.items():
        for name, (stated, spread) in stated_and_spread(probe, names, **options).items():
            print(
                f"  {probe} {name}: {stated:.3g}, {spread:.3g}, {stated / spread:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
