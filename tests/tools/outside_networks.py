"""Networks of other libraries, and hostile ones made by hand, in every probe that takes them.

    python tests/tools/outside_networks.py --groups hostile --probes nad cross-class --out found.jsonl
    python tests/tools/outside_networks.py --table found.jsonl

Every probe that measures a trained network is given each of them as it is, with random samples. An
outcome is `right` (a result, and where an oracle in plain torch knows a quantity, its value),
`refused` (a sentence without a traceback), or a finding: `wrong` (another value than the oracle's),
`torch` (an error in the words of another library). Networks are tiny, and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import functools
import io
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import penchant
import torch
from penchant.plugins import discovery
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SECONDS = 60  # that one run may take
CLASSES = 3
EACH = 8  # samples of a class
TOLERANCE = 1e-3  # relative, in single precision
FEW = 200  # parameters of which a Hessian is taken one by one
STEP = 1e-5  # of differences

# ---- samples


def samples(kind: str) -> Any:
    """Training and test samples of a kind: vectors, images, tokens or series."""
    generator = torch.Generator("cpu").manual_seed(11)
    count = CLASSES * EACH
    labels = torch.arange(count) % CLASSES

    def split() -> tuple[Tensor, Tensor]:
        if kind == "tokens":
            return torch.randint(2, 30, (count, 8), generator=generator), labels
        shape = {"vectors": (8,), "images": (3, 32, 32), "series": (4, 16), "steps": (6, 5)}[kind]
        return torch.randn(count, *shape, generator=generator), labels

    return split(), split()


# ---- hostile networks


def perceptron(*middle: nn.Module, inputs: int = 8, width: int = 6) -> nn.Sequential:
    """A linear layer, what is hostile, and a linear layer."""
    return nn.Sequential(nn.Linear(inputs, width), *middle, nn.Tanh(), nn.Linear(width, CLASSES))


class Before(nn.Module):
    """Something that happens to the input, then a perceptron."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change
        self.network = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.change(x))


class Between(nn.Module):
    """Something that happens to what a layer gives."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


class Complex(nn.Module):
    """Complex weights, whose outputs' real parts are given."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 6, dtype=torch.complex64)
        self.last = nn.Linear(6, CLASSES, dtype=torch.complex64)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x.to(self.first.weight.dtype)))).real


class Rotated(nn.Module):
    """A complex buffer, as rotary embeddings store their angles."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()
        self.register_buffer("angles", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x: Tensor) -> Tensor:
        turned = torch.view_as_complex(x.reshape(-1, 4, 2)) * self.angles
        return self.network(torch.view_as_real(turned).flatten(1))


class Fourier(nn.Module):
    """Complex numbers in between, real parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(torch.fft.fft(x).real)


class Checkpointed(nn.Module):
    """Activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.body = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(checkpoint(self.body, x, use_reentrant=self.reentrant))


class Remembering(nn.Module):
    """What it gives depends on how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.network(x) * self.calls


class Storing(nn.Module):
    """Keeps what it computed as an attribute, which cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()
        self.features = self.network[0](torch.ones(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.features = self.network[0](x)
        return self.network(x)


class Seeding(nn.Module):
    """Draws noise from a seed that it sets: the same every time, and the global state is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return self.network(x + 0.1 * torch.randn(x.shape[-1]))


class Branching(nn.Module):
    """Another function for another sign of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        rows = [self.network(row) if row.sum() > 0 else -self.network(row) for row in x]
        return torch.stack(rows)


class Stubborn(nn.Module):
    """Batch normalisation that is put into training mode by every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.network = perceptron(self.norm)

    def forward(self, x: Tensor) -> Tensor:
        self.norm.train()
        return self.network(x)


class SparseTokens(nn.Module):
    """An embedding with sparse gradients."""

    def __init__(self, sparse: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 6, sparse=sparse)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.embed(tokens).mean(1).tanh())


class Double(torch.autograd.Function):
    """Without a rule for vmap or forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class Tied(nn.Module):
    """One weight, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = nn.Linear(8, 8), nn.Linear(8, 8)
        self.middle.weight = self.first.weight
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x).tanh()).tanh())


class Returning(nn.Module):
    """Returns a dict with logits."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.network(x)}


def in_place_normalised(x: Tensor) -> Tensor:
    return x.sub_(0.5).div_(2.0)


def without_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


def through_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


def noisy(x: Tensor) -> Tensor:
    return x + 0.1 * torch.randn_like(x)


def dropped(x: Tensor) -> Tensor:
    return functional.dropout(x, 0.5)


def batch_centred(x: Tensor) -> Tensor:
    return x - x.mean(0)


def added_in_place(x: Tensor) -> Tensor:
    x += 1
    return x


def detached(x: Tensor) -> Tensor:
    return 2 * x.detach()


def custom_function(x: Tensor) -> Tensor:
    return Double.apply(x)  # type: ignore[no-any-return]


def frozen() -> nn.Module:
    network = perceptron()
    network[0].requires_grad_(False)
    return network


def not_a_number() -> nn.Module:
    network = perceptron()
    network[0].weight.data[0, 0] = math.nan
    return network


def pruned() -> nn.Module:
    from torch.nn.utils import prune

    network = perceptron()
    prune.l1_unstructured(network[0], "weight", amount=0.5)
    return network


def quantised() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(perceptron(), {nn.Linear})


def traced() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(perceptron().eval(), torch.ones(2, 8))


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(perceptron().eval())


def old_norm(name: str) -> nn.Module:
    network = perceptron()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(torch.nn.utils, name)(network[0])
    return network


def parametrised(name: str) -> nn.Module:
    network = perceptron()
    getattr(torch.nn.utils.parametrizations, name)(network[0])
    return network


def sharded() -> nn.Module:
    """Parameters that are parts of one, in a group of one process."""
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    network = perceptron()
    mesh = init_device_mesh("cpu", (1,))
    for layer in (network[0], network[2]):
        for name, value in list(layer.named_parameters()):
            spread = distribute_tensor(value.data, mesh, [Replicate()])
            layer.register_parameter(name, nn.Parameter(spread))
    return network


HOSTILE: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "changes its input": ("vectors", lambda: Before(in_place_normalised)),
    "in-place activation first": (
        "vectors",
        lambda: nn.Sequential(nn.ReLU(inplace=True), perceptron()),
    ),
    "functional dropout": ("vectors", lambda: perceptron(Between(dropped))),
    "noise": ("vectors", lambda: perceptron(Between(noisy))),
    "batch centred": ("vectors", lambda: perceptron(Between(batch_centred))),
    "no running statistics": (
        "vectors",
        lambda: perceptron(nn.BatchNorm1d(6, track_running_stats=False)),
    ),
    "stubborn batch norm": ("vectors", Stubborn),
    "remembering": ("vectors", Remembering),
    "seeding": ("vectors", Seeding),
    "storing": ("vectors", Storing),
    "complex parameters": ("vectors", Complex),
    "complex buffer": ("vectors", Rotated),
    "Fourier inside": ("vectors", Fourier),
    "NaN weight": ("vectors", not_a_number),
    "log of inputs": ("vectors", lambda: Before(torch.log)),
    "DataParallel": ("vectors", lambda: nn.DataParallel(perceptron())),
    "torch.compile": ("vectors", lambda: torch.compile(perceptron())),  # type: ignore[dict-item]
    "jit.trace": ("vectors", traced),
    "jit.script": ("vectors", scripted),
    "checkpoint": ("vectors", lambda: Checkpointed(False)),
    "checkpoint, reentrant": ("vectors", lambda: Checkpointed(True)),
    "weight_norm, old": ("vectors", lambda: old_norm("weight_norm")),
    "spectral_norm, old": ("vectors", lambda: old_norm("spectral_norm")),
    "weight_norm": ("vectors", lambda: parametrised("weight_norm")),
    "spectral_norm": ("vectors", lambda: parametrised("spectral_norm")),
    "orthogonal": ("vectors", lambda: parametrised("orthogonal")),
    "pruned": ("vectors", pruned),
    "no_grad inside": ("vectors", lambda: perceptron(Between(without_gradients))),
    "detach inside": ("vectors", lambda: perceptron(Between(detached))),
    "numpy inside": ("vectors", lambda: perceptron(Between(through_numpy))),
    "in-place activation": ("vectors", lambda: perceptron(nn.Tanh(), Between(torch.relu_))),
    "in-place sum": ("vectors", lambda: perceptron(nn.Tanh(), Between(added_in_place))),
    "custom function": ("vectors", lambda: perceptron(Between(custom_function))),
    "branching": ("vectors", Branching),
    "sparse embedding": ("tokens", SparseTokens),
    "quantised": ("vectors", quantised),
    "DTensor": ("vectors", sharded),
    "meta device": ("vectors", lambda: perceptron().to("meta")),
    "lazy": ("vectors", lambda: nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.Linear(6, CLASSES))),
    "half precision": ("vectors", lambda: perceptron().half()),
    "frozen layer": ("vectors", frozen),
    "tied weights": ("vectors", Tied),
    "returns a dict": ("vectors", Returning),
    "huge outputs": ("vectors", lambda: perceptron(Between(lambda x: x * 1e30))),
    "left in training mode": ("vectors", lambda: perceptron(nn.Dropout(0.5)).train()),
}

# ---- networks of torch


class Recurrent(nn.Module):
    """The last state of a recurrent layer."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.cell = kind(5, 6, batch_first=True, **options)
        self.last = nn.LazyLinear(CLASSES)
        self.last(self.cell(torch.zeros(1, 6, 5))[0][:, -1])

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(x)
        return self.last(states[:, -1])


class Attention(nn.Module):
    """Attention over the steps of a series."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x)
        return self.last(self.mix(tokens, tokens, tokens)[0].mean(1))


class Transformer(nn.Module):
    """Layers of `nn.TransformerEncoder`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(self.embed(x)).mean(1))


def convolutional(*middle: nn.Module, channels: int = 4) -> nn.Sequential:
    """A small network for images."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 5, stride=4),
        *middle,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, CLASSES),
    )


def with_activation(kind: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), kind(), nn.Linear(6, CLASSES))


def with_statistics(network: nn.Module, kind: str = "images") -> nn.Module:
    """Batch normalisation that has seen samples."""
    network.train()
    with torch.no_grad():
        network(samples(kind)[0][0])
    return network.eval()


TORCH: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "mlp": ("vectors", perceptron),
    "relu": ("vectors", lambda: with_activation(nn.ReLU)),
    "gelu": ("vectors", lambda: with_activation(nn.GELU)),
    "silu": ("vectors", lambda: with_activation(nn.SiLU)),
    "prelu": ("vectors", lambda: with_activation(nn.PReLU)),
    "hardswish": ("vectors", lambda: with_activation(nn.Hardswish)),
    "elu": ("vectors", lambda: with_activation(nn.ELU)),
    "softplus": ("vectors", lambda: with_activation(nn.Softplus)),
    "maxout-glu": ("vectors", lambda: nn.Sequential(nn.Linear(8, 6), nn.GLU(), nn.Linear(3, 3))),
    "layer norm": ("vectors", lambda: perceptron(nn.LayerNorm(6))),
    "rms norm": ("vectors", lambda: perceptron(nn.RMSNorm(6))),
    "batch norm": ("vectors", lambda: with_statistics(perceptron(nn.BatchNorm1d(6)), "vectors")),
    "bilinear": ("vectors", lambda: Twice()),
    "cnn": ("images", lambda: convolutional(nn.ReLU())),
    "cnn, batch norm": (
        "images",
        lambda: with_statistics(convolutional(nn.BatchNorm2d(4), nn.ReLU(inplace=True))),
    ),
    "cnn, group norm": ("images", lambda: convolutional(nn.GroupNorm(2, 4), nn.SiLU())),
    "cnn, instance norm": ("images", lambda: convolutional(nn.InstanceNorm2d(4), nn.GELU())),
    "cnn, max pool": ("images", lambda: convolutional(nn.MaxPool2d(2), nn.Tanh())),
    "cnn, depthwise": ("images", lambda: convolutional(nn.Conv2d(4, 4, 3, groups=4), nn.ReLU())),
    "cnn, dilated": ("images", lambda: convolutional(nn.Conv2d(4, 4, 2, dilation=2), nn.Tanh())),
    "cnn, transposed": (
        "images",
        lambda: convolutional(nn.ConvTranspose2d(4, 4, 2, stride=2), nn.ReLU()),
    ),
    "cnn, pixel shuffle": (
        "images",
        lambda: convolutional(nn.PixelShuffle(2), nn.Conv2d(1, 4, 2), nn.ReLU()),
    ),
    "conv1d": (
        "series",
        lambda: nn.Sequential(
            nn.Conv1d(4, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(5, 3)
        ),
    ),
    "lstm": ("steps", lambda: Recurrent(nn.LSTM)),
    "gru": ("steps", lambda: Recurrent(nn.GRU, bidirectional=True)),
    "rnn": ("steps", lambda: Recurrent(nn.RNN, num_layers=2)),
    "attention": ("steps", Attention),
    "encoder": ("steps", lambda: Transformer()),
    "encoder, norm first": ("steps", lambda: Transformer(norm_first=True, activation="gelu")),
    "embedding": ("tokens", lambda: SparseTokens(sparse=False)),
    "embedding bag": (
        "tokens",
        lambda: nn.Sequential(nn.EmbeddingBag(30, 6), nn.Tanh(), nn.Linear(6, CLASSES)),
    ),
}


class Twice(nn.Module):
    """A bilinear layer of its input and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(8, 8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x)


# ---- networks of timm and transformers

TIMM = {
    "test_resnet": {},
    "test_vit": {"img_size": 32},
    "test_vit2": {"img_size": 32},
    "test_vit4": {"img_size": 32},
    "test_convnext": {},
    "test_convnext2": {},
    "test_efficientnet": {},
    "test_efficientnet_gn": {},
    "test_efficientnet_evos": {},
    "test_efficientnet_ln": {},
    "test_byobnet": {},
    "test_nfnet": {},
    "test_mambaout": {},
}
SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "num_labels": CLASSES,
    "pad_token_id": 0,
}
GPT = {
    "vocab_size": 30,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "num_labels": CLASSES,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
IMAGES = {"image_size": 32, "patch_size": 8, "num_channels": 3}
STAGES = {"num_labels": CLASSES, "num_channels": 3}
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("tokens", SIZES),
    "roberta": ("tokens", {**SIZES, "max_position_embeddings": 20}),
    "electra": ("tokens", {**SIZES, "embedding_size": 16}),
    "albert": ("tokens", {**SIZES, "embedding_size": 8}),
    "distilbert": ("tokens", {**SIZES, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}),
    "deberta-v2": ("tokens", SIZES),
    "gpt2": ("tokens", GPT),
    "gpt_neo": (
        "tokens",
        {**SIZES, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
    ),
    "opt": ("tokens", {**SIZES, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "llama": ("tokens", SIZES),
    "mistral": ("tokens", {**SIZES, "num_key_value_heads": 1}),
    "qwen2": ("tokens", {**SIZES, "num_key_value_heads": 1}),
    "gemma": ("tokens", {**SIZES, "head_dim": 8, "num_key_value_heads": 1}),
    "phi": ("tokens", SIZES),
    "mixtral": ("tokens", {**SIZES, "num_local_experts": 2, "num_key_value_heads": 1}),
    "vit": ("images", {**SIZES, **IMAGES}),
    "dinov2": ("images", {**SIZES, **IMAGES, "mlp_ratio": 2}),
    "convnext": (
        "images",
        {**STAGES, "hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    ),
    "resnet": ("images", {**STAGES, "embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1]}),
    "swin": (
        "images",
        {
            **STAGES,
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "window_size": 4,
        },
    ),
}


def of_timm(name: str) -> nn.Module:
    from penchant_timm.importing import import_timm

    return import_timm().create_model(name, num_classes=CLASSES, **TIMM[name])


def of_transformers(name: str) -> nn.Module:
    from penchant_huggingface.importing import import_transformers

    transformers = import_transformers()
    kind, options = TRANSFORMERS[name]
    config = transformers.AutoConfig.for_model(name, **options)
    auto = "AutoModelForSequenceClassification"
    if kind == "images":
        auto = "AutoModelForImageClassification"
    return getattr(transformers, auto).from_config(config)


GROUPS: dict[str, dict[str, tuple[str, Callable[[], nn.Module]]]] = {
    "hostile": HOSTILE,
    "torch": TORCH,
    "timm": {name: ("images", functools.partial(of_timm, name)) for name in TIMM},
    "transformers": {
        name: (kind, functools.partial(of_transformers, name))
        for name, (kind, _) in TRANSFORMERS.items()
    },
}


def made(group: str, name: str) -> nn.Module:
    """The network, drawn with a seed of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        network = GROUPS[group][name][1]()
    return network.eval() if name != "left in training mode" else network


# ---- oracles: plain torch, double precision, sample by sample


class Oracle:
    """What some quantities are, from a module that no code of the project has seen."""

    def __init__(self, network: nn.Module, kind: str) -> None:
        (inputs, self.labels), _ = samples(kind)
        network = getattr(network, "module", network)
        network = getattr(network, "_orig_mod", network)
        self.network = copy.deepcopy(network).double().eval()
        for module in self.network.modules():
            if getattr(module, "inplace", False):
                module.inplace = False
        self.inputs = inputs.double() if inputs.is_floating_point() else inputs
        # Frozen parameters count as the others do.
        self.parameters = list(self.network.requires_grad_().parameters())

    def logits(self, inputs: Tensor) -> Tensor:
        found = self.network(inputs)
        if isinstance(found, dict):
            return found["logits"]
        return getattr(found, "logits", found)

    def known(self, probe: str) -> dict[str, float]:
        """Values of those quantities of a probe that plain torch gives."""
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            # Fused kernels have no second derivatives.
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                return {name: value() for name, value in self._values(probe).items()}
        finally:
            torch.backends.mha.set_fastpath_enabled(True)

    def _values(self, probe: str) -> dict[str, Callable[[], float]]:
        if probe == "cross-class":
            accuracy = {"train-accuracy": self.accuracy}
            return {"trace-total": self.trace_of_gauss_newton, "loss": self.loss, **accuracy}
        if probe == "hessian-spectrum":
            values = {"trace-gauss-newton": self.trace_of_gauss_newton, "loss": self.loss}
            if sum(each.numel() for each in self.parameters) <= FEW:
                values["trace-hessian"] = self.trace_of_hessian
            return values
        if probe in ("layer-structure", "learning-coefficient", "critical-sharpness"):
            return {"loss": self.loss}
        if probe == "neural-collapse":
            return {"train-accuracy": self.accuracy}
        if probe == "nad" and self.inputs.is_floating_point():
            return {"trace": self.trace_of_directions}
        return {}

    @torch.no_grad()
    def loss(self) -> float:
        return float(functional.cross_entropy(self.logits(self.inputs.clone()), self.labels))

    @torch.no_grad()
    def accuracy(self) -> float:
        chosen = self.logits(self.inputs.clone()).argmax(1)
        return float((chosen == self.labels).double().mean())

    def trace_of_gauss_newton(self) -> float:
        """Sum over samples and classes of squared gradients of logits about their mean."""
        total = 0.0
        for row in self.inputs:
            logits = self.logits(row[None].clone())[0]
            chances = logits.softmax(0).detach()
            mean = (chances * logits).sum()
            for chance, logit in zip(chances, logits):
                gradients = torch.autograd.grad(
                    logit - mean, self.parameters, retain_graph=True, allow_unused=True
                )
                squares = sum(float(g.square().sum()) for g in gradients if g is not None)
                total += float(chance) * squares
        return total / len(self.inputs)

    def trace_of_hessian(self) -> float:
        """Central differences of gradients, one parameter after another.

        Two backward passes would be no oracle: torch's own are wrong through weight_norm.
        """

        def gradient(of: Tensor) -> Tensor:
            loss = functional.cross_entropy(self.logits(self.inputs.clone()), self.labels)
            (found,) = torch.autograd.grad(loss, of, allow_unused=True)
            return torch.zeros_like(of) if found is None else found

        total = 0.0
        for parameter in self.parameters:
            entries = parameter.data.view(-1)
            for index in range(len(entries)):
                before = float(entries[index])
                slopes = []
                for step in (STEP, -STEP):
                    entries[index] = before + step
                    slopes.append(float(gradient(parameter).flatten()[index]))
                entries[index] = before
                total += (slopes[0] - slopes[1]) / (2 * STEP)
        return total

    def trace_of_directions(self) -> float:
        """The mean squared norm of the gradient of the logit of each sample's class."""
        total = 0.0
        for row, label in zip(self.inputs, self.labels):
            leaf = row[None].clone().requires_grad_()
            # A network may write into what it is given.
            logit = self.logits(leaf * 1)[0, label]
            (gradient,) = torch.autograd.grad(logit, leaf, allow_unused=True)
            total += 0.0 if gradient is None else float(gradient.square().sum())
        return total / len(self.inputs)


# ---- outcomes

# Options that make a run small; whatever has an oracle uses all samples.
SPECTRA = {"lanczos_steps": 8, "grid_points": 16}
SMALL: dict[str, dict[str, Any]] = {
    "average-geometry": {"samples": 24, "null_draws": 2},
    "class-paths": {"images": 2, "adversarials": 2, "pairs": 2, "refinements": 1, "bends": 2},
    "critical-sharpness": {"samples": None, "random_directions": 2, "products": 20},
    "cross-class": {"per_class": EACH, "permutations": 2, **SPECTRA},
    "curvature-proxies": {"per_class": 3, "permutations": 2, **SPECTRA},
    "frequency-learning": {"grid_points": 16, "slices": 2, "shuffles": 2},
    "frequency-robustness": {"grid_points": 16, "slices": 2, "perturbations": 2},
    "hessian-spectrum": {"per_class": EACH, **SPECTRA},
    "input-curvature": {"samples": 6},
    "layer-structure": {"eigenvalues": 8, "singular_values": 5, "per_class": EACH},
    "learning-coefficient": {"chains": 2, "chain_steps": 16, "warmup": 8},
    "loss-plane": {
        "samples": 24,
        "grid_points": 5,
        "plane_points": 0,
        "random_directions": 2,
        "eigenvectors": 1,
    },
    "mutual-information": {"second": "label", "estimators": {"mutual-information": "gaussian"}},
    "nad": {"samples": CLASSES * EACH},
    "neural-collapse": {"groups": 5, "permutations": 3, "per_class": None},
    "parameter-directions": {"samples": 9, "vectors": 6},
    "representation-similarity": {"groups": 3, "shuffles": 2},
    "tangent-kernel": {"samples": 12, "permutations": 5, "groups": 4},
    "weight-spectra": {"smallest": 2, "shuffles": 2},
}


def probes() -> list[str]:
    """All that measure a trained network."""
    found = []
    for registration in discovery.load().registrations("probe"):
        if "trained" in registration.component.takes:
            found.append(registration.component.name)
    return sorted(found)


def outcome(probe: str, group: str, name: str, known: dict[str, float]) -> tuple[str, str]:
    """`right`, `refused`, `wrong` or `torch`, and what was said."""
    kind = GROUPS[group][name][0]
    given: dict[str, Any] = {"architecture": made(group, name), "dataset": samples(kind)}
    if group == "transformers" or name == "returns a dict":
        given["output"] = "logits"
    if "dataset" not in _axes(probe):
        del given["dataset"]
        given |= {"shape": list(samples(kind)[0][0].shape[1:]), "outputs": CLASSES}
    if probe == "mutual-information":
        given["first"] = f"layer:{first_layer(given['architecture'])}"
    state = torch.random.get_rng_state()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            result = penchant.measure(
                probe, **given, **SMALL[probe], threads=1, figures=False, time_limit=SECONDS
            )
    except penchant.Error as error:
        text = str(error).splitlines()[0].partition(" failed: ")[2] or str(error)
        if "took longer than" in text or "time_limit" in text:
            return "slow", text
        # What is no `penchant.Error` inside is told with the name of its class.
        return ("torch" if re.match(r"\w+(Error|Exception): ", text) else "refused"), text
    except Exception as error:
        return "torch", f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if not torch.equal(state, torch.random.get_rng_state()):
        return "wrong", "the global random state was changed"
    for quantity, value in known.items():
        found = result.quantities[quantity].value
        if not math.isclose(found, value, rel_tol=TOLERANCE, abs_tol=1e-6):
            return "wrong", f"{quantity} {found:.6g} for {value:.6g}"
    return "right", f"{len(known)} known" if known else ""


def first_layer(network: nn.Module) -> str:
    """The name of the first linear layer or convolution."""
    network = getattr(network, "module", network)
    for name, module in getattr(network, "_orig_mod", network).named_modules():
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.RNNBase)):
            return name
    return "0"


def _axes(probe: str) -> set[str]:
    cls = discovery.load().probes.get(probe, "here")
    return {*cls.needs, *cls.accepts}


@functools.lru_cache(maxsize=1)
def oracle(group: str, name: str) -> Oracle:
    """The last one is asked for several probes."""
    return Oracle(made(group, name), GROUPS[group][name][0])


def known(group: str, name: str, probe: str) -> dict[str, float]:
    """What plain torch knows: nothing of what it cannot copy or differentiate."""
    try:
        return oracle(group, name).known(probe)
    except Exception:
        return {}


def rows(groups: list[str], names: list[str], chosen: list[str]) -> Iterator[dict[str, Any]]:
    """An outcome for each network and probe."""
    for group in groups:
        for name in GROUPS[group]:
            if names and name not in names:
                continue
            for probe in chosen:
                began = time.monotonic()
                found, text = outcome(probe, group, name, known(group, name, probe))
                seconds = round(time.monotonic() - began, 1)
                yield {
                    "group": group,
                    "network": name,
                    "probe": probe,
                    "outcome": found,
                    "text": text,
                    "seconds": seconds,
                }


def table(lines: list[dict[str, Any]]) -> str:
    """One line a network: how many probes are right, how many refuse it, and every finding."""
    latest = {(each["group"], each["network"], each["probe"]): each for each in lines}
    networks: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for (group, name, _), each in latest.items():
        networks[group, name].append(each)
    text = [f"{'group':13}{'network':28}{'right':>6}{'refused':>8}{'findings':>9}"]
    for (group, name), found in networks.items():
        count = collections.Counter(each["outcome"] for each in found)
        findings = [each for each in found if each["outcome"] not in ("right", "refused")]
        sizes = f"{count['right']:6}{count['refused']:8}{len(findings):9}"
        text.append(f"{group:13}{name:28}{sizes}")
        text += [f"    {each['probe']}: {each['outcome']}: {each['text']}" for each in findings]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--networks", nargs="*", default=[])
    parser.add_argument("--probes", nargs="*", default=[])
    parser.add_argument("--out", type=Path, help="append one JSON line per outcome")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and stop")
    given = parser.parse_args()
    if given.table:
        print(table([json.loads(line) for line in given.table.read_text().splitlines()]))
        return
    lines = []
    for row in rows(given.groups, given.networks, given.probes or probes()):
        lines.append(row)
        print(
            f"{row['network']:26}{row['probe']:28}{row['outcome']:9}{row['text'][:150]}",
            file=sys.stderr,
            flush=True,
        )
        if given.out:
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
