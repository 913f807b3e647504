"""Moments by rows: the same as by the matrix, at sizes whose matrix no machine holds."""

import pytest
import torch
from penchant_numerics.device import LiveBytes, memory
from penchant_numerics.inputs import GroupedMoment, directions_of, row_moments
from penchant_numerics.roles import Directions

HOST = {"device": "cpu", "dtype": torch.float64}


def rows(count=21, size=64, **kind):
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randn(count, size, generator=generator, **(kind or HOST))
    return drawn * torch.linspace(2, 0.1, size, **(kind or HOST)) + 0.3


@pytest.mark.parametrize("centred", [False, True])
def test_rows_give_what_the_matrix_gives(centred):
    g = rows()
    groups = GroupedMoment(64, device="cpu")
    groups.add(g)
    matrix = directions_of(groups, centred=centred)
    found = row_moments.directions_of_rows(g, centred=centred)
    torch.testing.assert_close(found.eigenvalues, matrix.eigenvalues, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(found.vectors, matrix.vectors, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.moment(), matrix.matrix, rtol=1e-12, atol=1e-13)
    assert found.trace == pytest.approx(matrix.trace, rel=1e-12)
    assert found.trace_stderr == pytest.approx(matrix.trace_stderr, rel=1e-12)


@pytest.mark.parametrize("centred", [False, True])
def test_rows_give_the_singular_values_and_vectors(centred):
    g = rows()
    found = row_moments.directions_of_rows(g, centred=centred)
    middle = g - g.mean(0) if centred else g
    _, singular, right = torch.linalg.svd(middle, full_matrices=False)
    rank = 21 - int(centred)
    assert len(found.eigenvalues) == rank
    torch.testing.assert_close(found.eigenvalues, singular[:rank].square() / 21)
    torch.testing.assert_close(
        (found.vectors @ right[:rank].T).abs(), torch.eye(rank, **HOST), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("centred", [False, True])
def test_leaving_out_parts_is_the_spectrum_of_the_other_vectors(centred):
    """21 vectors in 8 groups: the last five are in every spectrum, so that all have 19."""
    g = rows()
    found = row_moments.directions_of_rows(g, centred=centred).jackknife
    assert found.shape == (8, 21 - int(centred))
    for group in range(8):
        others = torch.stack([g[t] for t in range(21) if t % 8 != group or t >= 16])
        middle = others - others.mean(0) if centred else others
        singular = torch.linalg.svdvals(middle).square() / 19
        rank = 19 - int(centred)
        torch.testing.assert_close(found[group, :rank], singular[:rank])
        assert found[group, rank:].max() < 1e-12


def test_vectors_of_eigenvalues_that_are_rounding_are_orthonormal():
    g = rows(4)
    twice = torch.cat([g, g])
    found = row_moments.directions_of_rows(twice)
    product = found.vectors @ found.vectors.T
    torch.testing.assert_close(product, torch.eye(8, **HOST), rtol=0, atol=1e-12)
    assert found.eigenvalues[4:].max() < 1e-12


def test_products_of_parts_are_those_of_their_matrices():
    g = rows(9, 16)
    members = [torch.tensor([0, 3, 6, 7]), torch.tensor([1, 4]), torch.tensor([2, 5, 8])]
    table = row_moments.group_products(row_moments.gram(g), members)
    matrices = [g[own].T @ g[own] / len(own) for own in members]
    dense = [[(first * second).sum() for second in matrices] for first in matrices]
    torch.testing.assert_close(table, torch.tensor(dense, **HOST))


def test_pixels_of_a_large_image_take_megabytes():
    """8 vectors of 3 x 224 x 224 inputs: their matrix would be 181 GB."""
    g = rows(8, 3 * 224 * 224, device="cpu", dtype=torch.float32)
    with LiveBytes(peaks=True) as live:
        found = row_moments.directions_of_rows(g)
    assert live.peak < 100e6
    assert found.vectors.shape == (8, 150528)
    with pytest.raises(ValueError, match=r"second moment of 150528 inputs takes 506 GiB.* smaller"):
        found.moment()


def test_leading_pairs_have_no_moment():
    pairs = Directions(torch.ones(1), torch.ones(1, 2), 1.0, None, networks=3)
    assert pairs.moment() is None


def test_what_no_device_holds_is_refused_with_its_bytes():
    there = memory.capacity("cpu")
    memory.require(there, "cpu", what="a thing", hint="take another")
    with pytest.raises(ValueError, match="a thing takes .* GiB, the device has .*: take another"):
        memory.require(there + 1, "cpu", what="a thing", hint="take another")
