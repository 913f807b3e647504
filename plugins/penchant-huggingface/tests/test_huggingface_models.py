"""GPT-2, LLaMA, BERT and ViT from tiny configurations: built, differentiated twice, and covered by KFAC."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_huggingface.architectures.huggingface import build as build_model
from penchant_huggingface.declarations import HuggingFace
from penchant_numerics.curvature import GaussNewton, Hessian, loss_gradients, numbers_of
from penchant_numerics.layers import TangentFeatures, tangent_kernel
from penchant_numerics.training import ensembles
from torch import nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

VOCABULARY, POSITIONS = 23, 6
HIDDEN = ("hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=32")
MODELS = {
    "gpt2": (("n_layer=2", "n_head=2", "n_embd=16", "n_positions=8"), (POSITIONS,)),
    "llama": ((*HIDDEN, "num_key_value_heads=1"), (POSITIONS,)),
    "bert": ((*HIDDEN, "max_position_embeddings=8"), (POSITIONS,)),
    "vit": ((*HIDDEN, "patch_size=4"), (3, 8, 8)),
}


def build(name, seed=0, outputs=VOCABULARY, **options):
    config, shape = MODELS[name]
    component = HuggingFace.bind({"model_type": name, "config": config, **options})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(component, shape, outputs).eval()


def data_of(name, samples=3):
    torch.manual_seed(1)
    if name == "vit":
        return torch.randn(samples, 3, 8, 8), torch.randint(0, VOCABULARY, (samples,))
    tokens = torch.randint(0, VOCABULARY, (samples, POSITIONS + 1))
    return tokens[:, :-1], tokens[:, 1:]


# the architecture and the dataset share a name: each is tried below
test_conforms = testing.conformance("penchant-huggingface", small={"huggingface": None})


def test_the_architecture_conforms():
    config, shape = MODELS["vit"]
    with testing.strict_devices("penchant_huggingface"):
        testing.check_architecture("huggingface", shape=shape, model_type="vit", config=config)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_drawn_and_gives_logits(name):
    network, again, other = build(name), build(name), build(name, seed=1)
    inputs, _ = data_of(name)
    expected = (3, VOCABULARY) if name == "vit" else (3, POSITIONS, VOCABULARY)
    assert network(inputs).shape == expected
    assert torch.equal(network(inputs), again(inputs))
    assert not torch.equal(network(inputs), other(inputs))
    assert network.config._attn_implementation == "eager"
    # tokens that came as floating-point numbers are tokens
    assert torch.equal(network(inputs.float()), network(inputs))


def test_more_positions_than_a_model_has_are_refused_with_both_numbers():
    component = HuggingFace.bind({"model_type": "gpt2", "config": MODELS["gpt2"][0]})
    longest = build("gpt2").config.max_position_embeddings
    with pytest.raises(penchant.Error) as refused:
        build_model(component, (longest + 1,), VOCABULARY)
    assert str(refused.value) == (
        f"gpt2 has {longest} positions, found sequences of {longest + 1}: give the data "
        f"length = {longest}"
    )


def test_a_model_without_an_entry_for_each_position_goes_on():
    config, (length,) = MODELS["llama"]
    component = HuggingFace.bind({"model_type": "llama", "config": config})
    longest = build("llama").config.max_position_embeddings
    assert build_model(component, (longest + length,), VOCABULARY)


def test_a_language_model_on_images_is_told_what_to_give():
    component = HuggingFace.bind({"model_type": "gpt2", "config": MODELS["gpt2"][0]})
    with pytest.raises(penchant.Error, match="gpt2 takes tokens, found inputs of 1 x 32 x 32: .* "):
        build_model(component, (1, 32, 32), 10)


def test_weights_are_loaded_without_bars(tmp_path, capsys):
    build("gpt2").save_pretrained(tmp_path)
    capsys.readouterr()
    component = HuggingFace.bind({"model": str(tmp_path)})
    build_model(component, MODELS["gpt2"][1], VOCABULARY)
    assert "Loading weights" not in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_products_are_those_of_autodiff(name):
    network = build(name).double()
    inputs, labels = data_of(name, samples=2)
    if name == "vit":
        inputs = inputs.double()
    names = [
        each
        for each, _ in network.named_parameters()
        if "layers.1." in each or ".h.1." in each or "layer.1." in each
    ]
    few = [each for each in names if each.endswith("bias") or "norm" in each][:3]
    values = {each: network.get_parameter(each).detach() for each in few}

    def loss(values):
        outputs = functional_call(network, values, (inputs,))
        return functional.cross_entropy(outputs.reshape(-1, VOCABULARY), labels.flatten())

    blocks = hessian(loss)(values)
    rows = []
    for first in few:
        rows.append(
            torch.cat(
                [blocks[first][second].reshape(values[first].numel(), -1) for second in few], dim=1
            )
        )
    exact = torch.cat(rows).detach()
    H = Hessian(network, (inputs, labels), parameters=few)
    # GPT-2, LLaMA and ViT take softmax, or norms, in single precision whatever their weights have
    rounding = 1e-10 if name == "bert" else 1e-6
    assert float((H.dense() - exact).norm() / exact.norm()) < rounding

    def outputs(values):
        return functional_call(network, values, (inputs,)).reshape(-1, VOCABULARY)

    J = torch.cat([each.flatten(2) for each in jacrev(outputs)(values).values()], dim=2).detach()
    p = outputs(values).softmax(-1).detach()
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    exact = torch.einsum("nci,ncd,ndj->ij", J, inner, J) / len(J)
    G = GaussNewton(network, (inputs, labels), parameters=few).dense()
    assert float((G - exact).norm() / exact.norm()) < rounding


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_the_kernel_of_loss_gradients_is_that_of_autograd(name):
    network = build(name).double()
    inputs, labels = data_of(name)
    K = tangent_kernel(loss_gradients(network, (inputs, labels)), numbers_of(inputs))
    rows = []
    for x, y in zip(inputs, labels, strict=True):
        loss = functional.cross_entropy(network(x[None])[0], y)
        gradient = torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True)
        rows.append(torch.cat([each.flatten() for each in gradient]))
    g = torch.stack(rows)
    assert float((K - g @ g.T).norm() / K.norm()) < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_linear_layers_hold_nine_tenths_of_what_is_not_an_embedding(name):
    network = build(name)
    inputs, _ = data_of(name)
    features = TangentFeatures(network, inputs)
    sizes = {each: value.numel() for each, value in network.named_parameters()}
    embeddings = set()
    for module_name, module in network.named_modules():
        if isinstance(module, nn.Embedding):
            embeddings.add(f"{module_name}.weight")
    embeddings |= {each for each in sizes if each.endswith(("cls_token", "position_embeddings"))}
    others = sum(sizes[each] for each in features.others if each not in embeddings)
    every = sum(size for each, size in sizes.items() if each not in embeddings)
    assert 1 - others / every >= 0.9, [each for each in features.others if each not in embeddings]


def test_ensembles_equal_networks_built_one_by_one():
    config, shape = MODELS["vit"]
    bound = testing.architecture(
        {"name": "huggingface", "model_type": "vit", "config": config}, shape=shape
    )
    ensemble = ensembles.draw(bound, [0, 3])
    x = torch.randn(2, *shape)
    found = ensemble.map(lambda network: network(x))
    torch.testing.assert_close(found[1], bound(3)(x))


def test_a_folder_is_a_model(tmp_path):
    network = build("gpt2")
    network.save_pretrained(tmp_path / "model")
    inputs, _ = data_of("gpt2")
    component = HuggingFace.bind({"model": str(tmp_path / "model")})
    again = build_model(component, (POSITIONS,), VOCABULARY).eval()
    assert torch.equal(again(inputs), network(inputs))
    with pytest.raises(penchant.Error, match="a vocabulary of 23 tokens, found 30 outputs"):
        build_model(component, (POSITIONS,), 30)
    fresh = HuggingFace.bind({"model": str(tmp_path / "model"), "pretrained": False})
    assert build_model(fresh, (POSITIONS,), 30).eval()(inputs).shape == (3, POSITIONS, 30)


def test_refusals_name_what_was_found():
    shape = (POSITIONS,)
    cases = [
        ({"model_type": "gpt3"}, "no model_type 'gpt3'; did you mean 'gpt"),
        (
            {"model_type": "gpt2", "config": ["layers=2"]},
            "of gpt2 has no 'layers'; its fields are .*n_layer",
        ),
        ({"model_type": "gpt2", "config": ["n_layer"]}, 'must be "name=value"'),
        ({"model_type": "gpt2", "config": ["vocab_size=5"]}, "must not hold 'vocab_size'"),
        (
            {"model_type": "vit", "task": "causal-lm"},
            "vit has no model for causal-lm, found image-classification",
        ),
    ]
    for options, message in cases:
        with pytest.raises(penchant.Error, match=message):
            build_model(HuggingFace.bind(options), shape, VOCABULARY)
    with pytest.raises(penchant.Error, match="model or model_type, found neither"):
        HuggingFace.bind({})
    with pytest.raises(penchant.Error, match="found the shape 4 x 3"):
        build_model(HuggingFace.bind({"model_type": "gpt2"}), (4, 3), VOCABULARY)


def test_a_model_that_is_not_cached_says_how_to_get_it():
    options = HuggingFace.bind({"model": "no-such/model"})
    with pytest.raises(
        penchant.Error, match="neither a folder nor in the cache .*hf download no-such/model"
    ):
        build_model(options, (POSITIONS,), VOCABULARY)
