"""Fine-tuned minus base against closed forms, numpy and other ways to store the same difference."""

import gc
import json
import weakref

import numpy as np
import penchant
import pytest
import torch
from penchant_weights.weight_spectra import stored_tensors as stored
from penchant_weights.weight_spectra.low_rank_factors import multiplied_out
from penchant_weights.weight_spectra.weight_difference import Base, random_direction
from safetensors.torch import save_file
from torch import nn

pytestmark = pytest.mark.usefixtures("without_report")


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def measured(file, base, **options):
    return penchant.measure(
        "weight-spectra", file=str(file), base=str(base), **{"shuffles": 3, **options}
    )


def saved(path, **tensors):
    save_file({name.replace("__", "."): each.contiguous() for name, each in tensors.items()}, path)
    return path


@pytest.fixture
def base(tmp_path):
    return saved(tmp_path / "base.safetensors", a__weight=normal(40, 30), b__weight=normal(25, 36))


def lora(folder, factors, **config):
    """An adapter as peft writes it."""
    folder.mkdir()
    tensors = {}
    for module, (A, B) in factors.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = A.contiguous()
        tensors[f"base_model.model.{module}.lora_B.weight"] = B.contiguous()
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


# ---- oracles


def test_the_difference_is_that_of_numpy(tmp_path, base):
    moved = {"a.weight": normal(40, 30) + 0.1 * normal(40, 30, seed=5), "b.weight": normal(25, 36)}
    moved["b.weight"][3] += 1
    torch.save(moved, tmp_path / "tuned.pt")
    result = measured(tmp_path / "tuned.pt", base)
    for row, (name, shape) in enumerate({"a.weight": (40, 30), "b.weight": (25, 36)}.items()):
        before = normal(*shape).numpy()
        difference = moved[name].numpy() - before
        sigma = np.linalg.svd(difference, compute_uv=False)
        found = result.arrays["singular-values"][row][: len(sigma)]
        np.testing.assert_allclose(found, sigma, rtol=1e-9, atol=1e-12)
        of_base = np.linalg.svd(before, compute_uv=False)
        assert result.arrays["relative-changes"][row] == pytest.approx(sigma[0] / of_base[0])
        norms = np.linalg.norm(difference) / np.linalg.norm(before)
        assert result.arrays["relative-norms"][row] == pytest.approx(norms)
    changes = result.arrays["relative-changes"]
    assert result.quantities["relative-change"].value == pytest.approx(changes.mean())


def test_the_overlap_is_that_of_projectors():
    before, difference = normal(40, 30), normal(40, 30, seed=3)
    # k = 3 leading vectors, as projectors from eigenvectors of the Gram matrices
    left = np.linalg.eigh((before @ before.T).numpy())[1][:, -3:]
    right = np.linalg.eigh((before.T @ before).numpy())[1][:, -3:]
    inside = left @ left.T @ difference.numpy() @ right @ right.T
    expected = np.square(inside).sum() / np.square(difference.numpy()).sum()
    found = Base.of(before).compared(difference, 1.0)
    assert found["base-overlap"] == pytest.approx(expected, rel=1e-9)
    # closed forms: the leading part lies inside, what is orthogonal to it outside
    U, s, Vh = torch.linalg.svd(before)
    leading = U[:, :3] @ torch.diag(s[:3]) @ Vh[:3]
    assert Base.of(before).compared(leading, 1.0)["base-overlap"] == pytest.approx(1)
    assert Base.of(before).compared(before - leading, 1.0)["base-overlap"] < 1e-20


def test_random_directions_have_the_norm_and_the_overlap_of_chance():
    before, difference = normal(40, 30), normal(40, 30, seed=3)
    base, generator = Base.of(before), torch.Generator("cpu").manual_seed(11)
    shares = []
    for _ in range(400):
        random = random_direction(difference, generator=generator)
        assert float(random.norm()) == pytest.approx(float(difference.norm()))
        shares.append(base.compared(random, 1.0)["base-overlap"])
    # k^2 / (n m) with a standard error of sqrt(2) k / (n m) over the draws
    expected, error = 9 / 1200, np.sqrt(2) * 3 / 1200 / 20
    assert abs(np.mean(shares) - expected) < 4 * error


# ---- the null


def test_a_random_difference_does_not_differ_from_its_null(tmp_path, base):
    significant, p = 0, []
    for seed in range(24):
        moved = {
            "a__weight": normal(40, 30) + 0.01 * normal(40, 30, seed=100 + seed),
            "b__weight": normal(25, 36) + 0.01 * normal(25, 36, seed=200 + seed),
        }
        result = measured(saved(tmp_path / "t.safetensors", **moved), base, shuffles=20, seed=seed)
        for name in ("relative-change", "base-overlap", "mp-distance", "stable-rank"):
            quantity = result.quantities[name]
            significant += quantity.is_significant
            p.append((quantity.value - quantity.null) / quantity.null_spread)
    # standard scores of 96 numbers: about normal
    assert significant <= 4
    assert abs(np.mean(p)) < 0.4 and 0.7 < np.std(p) < 1.5


def test_a_difference_of_low_rank_differs_from_its_null(tmp_path, base):
    factors = {"a": (normal(2, 30, seed=7), normal(40, 2, seed=8))}
    result = measured(lora(tmp_path / "lora", factors, lora_alpha=4, r=2), base, shuffles=10)
    assert result.quantities["stable-rank"].value <= 2
    assert result.quantities["stable-rank"].null > 8
    for name in ("stable-rank", "relative-change", "mp-distance"):
        assert result.quantities[name].is_significant


# ---- LoRA


def test_factors_give_what_the_merged_file_gives(tmp_path, base):
    A, B = normal(3, 30, seed=7), normal(40, 3, seed=8)
    for number, (config, scale) in enumerate(
        [
            ({"lora_alpha": 12}, 4.0),
            ({"lora_alpha": 12, "use_rslora": True}, 12 / 3**0.5),
            ({"lora_alpha": 12, "alpha_pattern": {"a": 3}}, 1.0),
        ]
    ):
        of_factors = measured(lora(tmp_path / f"lora{number}", {"a": (A, B)}, r=3, **config), base)
        merged = {"a__weight": normal(40, 30) + scale * B @ A, "b__weight": normal(25, 36)}
        of_merged = measured(saved(tmp_path / "merged.safetensors", **merged), base)
        assert (
            of_factors.tables["edges"].axes
            == of_merged.tables["edges"].axes
            == {"layer": ("a.weight",)}
        )
        for name in ("singular-values", "relative-changes", "base-overlaps", "relative-norms"):
            found, expected = of_factors.arrays[name], of_merged.arrays[name]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert any("the same as in the base: b.weight" in text for text in of_merged.warnings)


def test_a_convolution_and_an_embedding_are_what_torch_makes_of_their_factors():
    A, B = normal(2, 3, 3, 3), normal(5, 2, 1, 1, seed=1)
    inputs = normal(1, 3, 6, 6, seed=2)
    expected = nn.functional.conv2d(nn.functional.conv2d(inputs, A), B)
    memory = {
        "base_model.model.c.lora_A.weight": stored.of_memory(A),
        "base_model.model.c.lora_B.weight": stored.of_memory(B),
        "base_model.model.e.lora_embedding_A": stored.of_memory(normal(2, 50)),
        "base_model.model.e.lora_embedding_B": stored.of_memory(normal(8, 2, seed=4)),
        "base_model.model.head.modules_to_save.weight": stored.of_memory(normal(4, 4)),
    }
    products, whole = multiplied_out(memory, {"lora_alpha": 2})
    kernel = products["c.weight"].read()
    assert kernel.shape == products["c.weight"].shape == (5, 3, 3, 3)
    torch.testing.assert_close(nn.functional.conv2d(inputs, kernel), expected)
    tokens = torch.tensor([3, 7])
    after = nn.functional.embedding(tokens, normal(2, 50).T) @ normal(8, 2, seed=4).T
    torch.testing.assert_close(products["e.weight"].read()[tokens], after)
    assert list(whole) == ["head.weight"]


def test_a_network_is_compared_with_its_base(tmp_path):
    network = nn.Sequential(nn.Linear(30, 25), nn.Linear(25, 40))
    torch.save(network.state_dict(), tmp_path / "own.pt")
    before = {
        name: each + 0.1 * normal(*each.shape, seed=3) for name, each in network.named_parameters()
    }
    torch.save(before, tmp_path / "base.pt")
    options = {"base": str(tmp_path / "base.pt"), "shuffles": 2}
    of_network = penchant.measure(
        "weight-spectra", architecture=network, shape=(30,), outputs=40, **options
    )
    of_file = penchant.measure("weight-spectra", file=str(tmp_path / "own.pt"), **options)
    for name, values in of_file.arrays.items():
        np.testing.assert_array_equal(values, of_network.arrays[name])


# ---- a matrix


def test_a_matrix_gives_what_the_network_gives(tmp_path):
    network = nn.Sequential(nn.Linear(30, 25, bias=False)).double()
    weight = network[0].weight.detach().numpy()
    options = {"shuffles": 3, "dtype": "float64"}
    of_matrix = penchant.measure("weight-spectra", matrix=weight, **options)
    of_network = penchant.measure(
        "weight-spectra", architecture=network, shape=(30,), outputs=25, **options
    )
    np.save(tmp_path / "w.npy", weight)
    of_file = penchant.measure("weight-spectra", matrix=str(tmp_path / "w.npy"), **options)
    exact = ("singular-values", "mp-distances", "spikes-by-layer", "stable-ranks", "edges")
    for name in exact:
        np.testing.assert_array_equal(of_matrix.arrays[name], of_network.arrays[name])
        np.testing.assert_array_equal(of_matrix.arrays[name], of_file.arrays[name])


# ---- memory


@pytest.mark.parametrize("kind", ["safetensors", "pt", "lora"])
def test_one_tensor_of_each_file_is_held_at_a_time(monkeypatch, tmp_path, kind):
    names = [f"layer{number}" for number in range(5)]
    before = {f"{name}.weight": normal(40, 30, seed=3) for name in names}
    if kind == "pt":
        paths = tmp_path / "tuned.pt", tmp_path / "base.pt"
        torch.save({name: 2 * each for name, each in before.items()}, paths[0])
        torch.save(before, paths[1])
    else:
        paths = tmp_path / "tuned.safetensors", tmp_path / "base.safetensors"
        save_file({name: 2 * each for name, each in before.items()}, paths[0])
        save_file(before, paths[1])
    if kind == "lora":
        factors = {name: (normal(2, 30, seed=1), normal(40, 2, seed=2)) for name in names}
        paths = lora(tmp_path / "lora", factors, lora_alpha=2), paths[1]

    gc.freeze()  # looking through the whole process at every tensor takes longer than the rest
    alive, most = [], []
    own = stored._read_safetensors

    def read(file, name):
        tensor = own(file, name)
        gc.collect()
        alive.append(weakref.ref(tensor))
        most.append(sum(each() is not None for each in alive))
        return tensor

    monkeypatch.setattr(stored, "_read_safetensors", read)
    result = measured(*paths, shuffles=2)
    assert len(result.tables["edges"].axes["layer"]) == 5
    if kind == "pt":
        # mapped: pages of what is in use only, so that nothing is read here
        assert not most
    else:
        # one of each file; an adapter's tensor is its two factors
        assert len(most) == (10 if kind == "safetensors" else 15)
        assert max(most) <= (2 if kind == "safetensors" else 3)


# ---- refusals


def test_refusals_name_both_files_tensors(tmp_path, base):
    def refused(message, file, **options):
        with pytest.raises(penchant.Error, match=message):
            measured(file, base, **options)

    other = saved(tmp_path / "o.safetensors", a__weight=normal(40, 30), c__weight=normal(25, 36))
    refused("the file has c.weight, the base b.weight; choose by", other)
    shapes = saved(tmp_path / "s.safetensors", a__weight=normal(41, 30), b__weight=normal(25, 36))
    refused(r"a.weight has the shape \(41, 30\) in the file and \(40, 30\) in the base", shapes)
    same = saved(tmp_path / "e.safetensors", a__weight=normal(40, 30), b__weight=normal(25, 36))
    refused("must differ, found the same in both", same)
    one = {"a": (normal(2, 30), normal(40, 2))}
    refused("use_dora", lora(tmp_path / "dora", one, lora_alpha=2, use_dora=True))
    refused("'pissa', which", lora(tmp_path / "pissa", one, init_lora_weights="pissa"))
    refused("numbers lora_alpha, found 'x'", lora(tmp_path / "text", one, lora_alpha="x"))
    refused("the expression", lora(tmp_path / "e", one, lora_alpha=2, alpha_pattern={"(a+)+$": 1}))
    misfit = {"a": (normal(2, 30), normal(40, 3))}
    refused(r"found \(2, 30\) and \(40, 3\)", lora(tmp_path / "misfit", misfit, lora_alpha=2))
    refused(
        r"a.weight has the shape \(40, 31\)",
        lora(tmp_path / "w", {"a": (normal(2, 31), normal(40, 2))}),
    )
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    refused("bad.safetensors cannot be read", tmp_path / "bad.safetensors")
    with pytest.raises(penchant.Error, match="neither a file nor a base"):
        penchant.measure("weight-spectra", matrix=normal(30, 30), base=str(base))
    with pytest.raises(penchant.Error, match="two axes"):
        penchant.measure("weight-spectra", matrix=[1.0, 2.0])


def test_a_base_that_changes_is_measured_again(tmp_path, base):
    tuned, values = tmp_path / "tuned.safetensors", []
    saved(tuned, a__weight=normal(40, 30, seed=9), b__weight=normal(25, 36, seed=9))
    for seed in (0, 1):
        saved(base, a__weight=normal(40, 30, seed=seed), b__weight=normal(25, 36, seed=seed))
        result = measured(tuned, base, out=tmp_path / "run", figures=False)
        values.append(result.quantities["relative-change"].value)
    assert values[0] != values[1]


def test_factors_without_a_configuration_are_not_scaled(tmp_path, base):
    folder = lora(tmp_path / "lora", {"a": (normal(2, 30), normal(40, 2))}, lora_alpha=2)
    (folder / "adapter_config.json").unlink()
    result = measured(folder, base)
    assert any("are not scaled" in text for text in result.warnings)
    expected = np.linalg.svd((normal(40, 2) @ normal(2, 30)).numpy(), compute_uv=False)[0]
    assert result.arrays["singular-values"][0, 0] == pytest.approx(expected)


class _Opener:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_no_object_of_a_base_or_an_adapter_is_made(tmp_path, base):
    trace = tmp_path / "trace"
    torch.save({"a.weight": normal(40, 30), "x": _Opener(trace)}, tmp_path / "bad.pt")
    for paths in ((tmp_path / "bad.pt", base), (base, tmp_path / "bad.pt")):
        with pytest.raises(penchant.Error, match="bad.pt cannot be read as a checkpoint"):
            measured(*paths)
    assert not trace.exists()
