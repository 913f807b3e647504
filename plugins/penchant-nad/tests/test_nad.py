"""The probes as a user runs them: conformance, names, refusals, byte-identity."""

import penchant
import pytest
from penchant import testing

SMALL = {"shape": (1, 6, 6), "samples": 40}


@pytest.mark.parametrize("offer", testing.offers("penchant-nad"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


def test_nad_conforms(tmp_path):
    result = testing.check_probe("nad", tmp_path, keep_matrix=True, **SMALL)
    assert result.arrays["directions"].shape == (36, 36)
    assert result.arrays["second-moment"].shape == (36, 36)
    assert result.arrays["null-edges"].shape == (2,)


@pytest.mark.parametrize("method", ["impulse", "autograd"])
def test_nad_takes_every_method(tmp_path, method):
    estimators = {
        "directions": {"method": method, "point": "zero" if method == "autograd" else "gaussian"}
    }
    result = testing.check_probe("nad", tmp_path, processes=False, estimators=estimators, **SMALL)
    assert method in result.conventions["gradient"]


def test_directional_accuracy_conforms(tmp_path):
    options = {"indices": [0, 2, 5], "train": 64, "test": 64, "training": {"epochs": 2}, **SMALL}
    result = testing.check_probe("directional-accuracy", tmp_path, **options)
    assert result.arrays["index"].tolist() == [0, 2, 5]
    assert (result.arrays["eigenvalue"][:-1] >= result.arrays["eigenvalue"][1:]).all()


@pytest.mark.parametrize("basis", ["dft-cosine", "dft-sine", "random", "canonical"])
def test_directional_accuracy_takes_every_basis(basis):
    options = {
        "basis": basis,
        "every": 9,
        "train": 32,
        "test": 32,
        "training": {"epochs": 1},
        "shape": (1, 6, 6),
        "executor": "serial",
    }
    result = penchant.measure(
        "directional-accuracy", architecture={"name": "import", "factory": testing.TINY}, **options
    )
    assert ("frequency" in result.arrays) == basis.startswith("dft")
    if basis.startswith("dft"):
        assert result.arrays["frequency"].shape == (len(result.arrays["index"]), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indices": [40], "samples": 30}, "the input has 36 directions, found index 40"),
        (
            {"indices": [35], "samples": 30},
            "30 networks give 30 directions, found index 35; samples must be at least 36",
        ),
        (
            {"indices": [99], "basis": "dft-cosine"},
            "the basis dft-cosine has 20 directions, found index 99",
        ),
        ({"indices": [1, 1], "basis": "canonical"}, r"indices must differ, found \[1, 1\]"),
        (
            {"directions": [[1.0, 2.0]]},
            r"directions must be rows of 36 numbers, found an array of shape \[1, 2\]",
        ),
    ],
)
def test_directions_that_do_not_exist_are_refused(options, message):
    with pytest.raises(penchant.Error, match=message):
        architecture = {"name": "import", "factory": testing.TINY}
        penchant.measure(
            "directional-accuracy",
            architecture=architecture,
            shape=(1, 6, 6),
            executor="serial",
            **options,
        )


def test_out_of_memory_halves_the_chunk_and_says_so():
    import torch
    from penchant_nad.gradient_covariance import in_memory

    told = []

    def needs_little(chunk):
        if chunk > 16:
            raise torch.OutOfMemoryError("no memory")
        return torch.tensor(chunk)

    assert int(in_memory(needs_little, 64, told.append)) == 16
    assert told[0] == "out of memory: chunk halved from 64 to 32; last bits may differ"
    with pytest.raises(torch.OutOfMemoryError):
        in_memory(lambda chunk: needs_little(99), 64, told.append)


def test_more_networks_extend_fewer(tmp_path):
    few, many = (
        penchant.measure(
            "nad",
            architecture={"name": "import", "factory": testing.TINY},
            shape=(4,),
            samples=samples,
            keep_matrix=True,
            executor="serial",
        ).arrays["second-moment"]
        for samples in (32, 64)
    )
    rest = 2 * many - few
    assert few.shape == rest.shape == (4, 4)
    assert rest.diagonal().min() > 0, "the first 32 networks are part of the 64"


def test_several_outputs_are_refused():
    with pytest.raises(penchant.Error, match="needs one output or two logits, found 3 outputs"):
        penchant.measure(
            "nad",
            architecture={"name": "import", "factory": testing.TINY},
            shape=(4,),
            outputs=3,
            samples=4,
            executor="serial",
        )
