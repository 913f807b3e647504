"""Arrays in place of a dataset."""

import numpy as np
import penchant
import pytest
import torch

KSG = {"estimators": {"mutual-information": ["ksg"]}}


def pair(rho, count=300, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    x = torch.randn(count, 1, generator=generator)
    return x, rho * x + (1 - rho**2) ** 0.5 * torch.randn(count, 1, generator=generator)


def measured(**options):
    return penchant.measure("mutual-information", **{**KSG, **options})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_give_what_a_dataset_of_them_gives(dtype):
    x, z = (each.double() for each in pair(0.8))
    expected = measured(dataset=((x, z), (x[:10], z[:10])), split="train", dtype=dtype)
    found = measured(x=x, z=z, dtype=dtype)
    for name, quantity in expected.quantities.items():
        assert found.quantities[name].numbers == quantity.numbers


def test_the_information_of_normal_pairs_is_found():
    result = measured(x=pair(0.8, 1500)[0], z=pair(0.8, 1500)[1])
    found = result.quantities["ksg"]
    assert abs(found.value + 0.5 * np.log(1 - 0.64)) < 4 * found.stderr


def test_pairs_that_do_not_match_are_refused():
    x, z = pair(0.8)

    def refused(message, **options):
        with pytest.raises(penchant.Error, match=message):
            measured(**options)

    refused("found 300 rows in 'x' and 299 in 'z'", x=x, z=z[1:])
    refused("found x alone", x=x)
    ids = np.arange(300)
    refused("of which 300 differ", x=x, z=z, sample_ids={"x": ids, "z": ids[::-1]})
    refused("takes x or a dataset", x=x, z=z, dataset=((x, z), (x, z)))
    refused("needs a dataset")
