"""KFAC represents nine tenths of what is not an embedding in models of transformers.

`python tests/stories/test_kfac_coverage.py` prints the shares.
"""

import sys

import pytest
import torch

pytest.importorskip("penchant_huggingface", reason="penchant-huggingface is missing")

from penchant_curvature.shared.linear_layers import coverage
from penchant_huggingface.architectures.huggingface import build
from penchant_huggingface.declarations import HuggingFace
from penchant_numerics.curvature import gauss_newton_columns, numbers_of
from torch import nn

TOKENS, POSITIONS = 23, 6
HIDDEN = ("hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=32")
MODELS = {
    "gpt2": ("n_layer=2", "n_head=2", "n_embd=16", "n_positions=8"),
    "llama": (*HIDDEN, "num_key_value_heads=1"),
    "bert": (*HIDDEN, "max_position_embeddings=8"),
    "vit": (*HIDDEN, "patch_size=4"),
}
EMBEDDED = ("cls_token", "position_embeddings")  # parameters of a ViT that are added to its tokens


def samples_of(kind):
    generator = torch.Generator("cpu").manual_seed(1)
    if kind == "vit":
        inputs = torch.randn(12, 3, 8, 8, generator=generator, device="cpu")
        return inputs, torch.arange(12, device="cpu") % 4
    tokens = torch.randint(0, TOKENS, (12, POSITIONS + 1), generator=generator, device="cpu")
    return tokens[:, :-1], tokens[:, 1:]


def covered(kind):
    """What KFAC covers of a model, and the names of its embeddings."""
    inputs, labels = samples_of(kind)
    options = HuggingFace.bind({"model_type": kind, "config": MODELS[kind]})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = 4 if kind == "vit" else TOKENS
        network = build(options, tuple(inputs.shape[1:]), outputs).eval()
    modules = network.named_modules()
    tables = {f"{name}.weight" for name, module in modules if isinstance(module, nn.Embedding)}
    embeddings = {
        name for name, _ in network.named_parameters() if name in tables or name.endswith(EMBEDDED)
    }
    if kind == "vit":
        return coverage(network, inputs), embeddings
    columns, _ = gauss_newton_columns(network, (inputs, labels))
    return coverage(columns, numbers_of(inputs)), embeddings


def shares(found, embeddings):
    """Represented: of what is not an embedding, and of embeddings."""
    inside = {name for names in found.layers.values() for name in names}
    both = []
    for names in (found.sizes.keys() - embeddings, embeddings):
        every = sum(found.sizes[name] for name in names)
        both.append(sum(found.sizes[name] for name in names & inside) / every)
    return both


@pytest.mark.parametrize("kind", MODELS)
def test_nine_tenths_of_what_is_not_an_embedding_are_represented(kind):
    found, embeddings = covered(kind)
    share, _ = shares(found, embeddings)
    assert share >= 0.9, found.report()


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_not_represented_is_named(kind):
    """Every parameter is in a layer, or its module is named with its size."""
    found, _ = covered(kind)
    inside = {name for names in found.layers.values() for name in names}
    named = found.report()
    for name in found.sizes.keys() - inside:
        module = name.rpartition(".")[0]
        assert f"{module} (" in named, name


if __name__ == "__main__":
    for each in MODELS:
        of_model, tables_of = covered(each)
        own, embedded = shares(of_model, tables_of)
        sys.stdout.write(
            f"{each}: {own:.1%} of what is not an embedding, {embedded:.1%} of embeddings, "
            f"{of_model.share:.1%} of all; left out: {of_model.report()}\n"
        )
