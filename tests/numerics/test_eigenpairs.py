"""Leading eigenpairs against eigh and SciPy: signs, residuals, convergence flags."""
# ruff: noqa: T201 (the numbers are shown with -s)

import numpy as np
import pytest
import torch
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.linear_algebra import (
    Applied,
    Dense,
    block_krylov_pairs,
    exact_pairs,
    lanczos_eigenpairs,
    leading_pairs,
    subspace_iteration,
)
from scipy.sparse.linalg import eigsh
from torch import nn


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def matrix(values, seed=0, dtype=torch.float64):
    Q = torch.linalg.qr(
        torch.randn(
            len(values), len(values), generator=generator(seed), device="cpu", dtype=torch.float64
        )
    ).Q
    return (Q * torch.as_tensor(values, device="cpu", dtype=torch.float64)) @ Q.T.to(dtype)


BULK = np.linspace(-1, 1, 60).tolist()


@pytest.mark.parametrize("method", [subspace_iteration, lanczos_eigenpairs])
def test_pairs_are_those_of_eigh_with_their_signs(method):
    A = matrix([-9.0, 7.0, 5.0, -4.0, *BULK])
    found = method(Dense(A), 4, generator=generator(), tolerance=1e-10)
    torch.testing.assert_close(
        found.values,
        torch.tensor([-9.0, 7.0, 5.0, -4.0], dtype=torch.float64),
        rtol=1e-9,
        atol=1e-9,
    )
    residuals = (A @ found.vectors - found.vectors * found.values).norm(dim=0)
    torch.testing.assert_close(found.residuals, residuals, rtol=1e-3, atol=1e-12)
    assert found.converged.all()
    torch.testing.assert_close(
        found.vectors.T @ found.vectors, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-10
    )
    print(f"{method.__name__}: {found.products} products")


def test_largest_leaves_negative_values_out():
    found = lanczos_eigenpairs(
        Dense(matrix([-9.0, 7.0, 5.0, *BULK])),
        2,
        generator=generator(),
        order="largest",
        tolerance=1e-9,
    )
    torch.testing.assert_close(
        found.values, torch.tensor([7.0, 5.0], dtype=torch.float64), rtol=1e-8, atol=1e-8
    )
    with pytest.raises(ValueError, match="found 'smallest' and 2"):
        lanczos_eigenpairs(Dense(matrix(BULK)), 2, generator=generator(), order="smallest")


@pytest.mark.parametrize("method", [subspace_iteration, lanczos_eigenpairs])
def test_what_has_not_converged_says_so(method):
    budget = {"iterations": 3} if method is subspace_iteration else {"products": 30}
    found = method(
        Dense(matrix(np.linspace(0, 1, 400).tolist())),
        5,
        generator=generator(),
        tolerance=1e-8,
        **budget,
    )
    assert not found.converged.all()
    assert (found.residuals[~found.converged] > 1e-8 * found.values.abs().max()).all()


def test_multiple_eigenvalues_and_closed_spaces_are_found():
    A = matrix([3.0, 3.0, 3.0, *[1.0] * 20])
    found = lanczos_eigenpairs(Dense(A), 4, generator=generator(), tolerance=1e-8)
    torch.testing.assert_close(
        found.values, torch.tensor([3.0, 3.0, 3.0, 1.0], dtype=torch.float64), rtol=1e-7, atol=1e-7
    )
    whole = lanczos_eigenpairs(Dense(A), 23, generator=generator())
    assert whole.converged.all()


def test_subspace_iteration_goes_on_from_earlier_pairs():
    A = Dense(matrix([9.0, 7.0, 5.0, *BULK]))
    first = subspace_iteration(A, 3, generator=generator(), tolerance=1e-6)
    again = subspace_iteration(A, 3, generator=generator(1), tolerance=1e-6, start=first.vectors)
    assert again.products < first.products


def test_scipy_finds_the_same_pairs_of_a_network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, x = (
            nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)).double(),
            torch.randn(40, 6).double(),
        )
    G = GaussNewton(network, (x, None), batch=16)
    theirs = np.sort(eigsh(G.to_scipy(), k=3, which="LM", return_eigenvectors=False))[::-1]
    for method in (subspace_iteration, lanczos_eigenpairs):
        ours = method(G, 3, generator=generator(), tolerance=1e-6)
        np.testing.assert_allclose(ours.values.numpy(), theirs, rtol=1e-8)


def test_single_precision_converges_to_its_tolerance():
    found = lanczos_eigenpairs(
        Dense(matrix([9.0, 7.0, *BULK]).float()), 2, generator=generator(), tolerance=1e-4
    )
    assert found.converged.all()
    assert found.values.tolist() == pytest.approx([9.0, 7.0], rel=1e-4)


@pytest.mark.parametrize("order", ["largest", "magnitude"])
def test_small_matrices_are_decomposed_and_large_ones_multiplied_with_the_same_result(order):
    A = matrix([-9.0, 7.0, 5.0, 4.0, *BULK])
    exact = leading_pairs(Dense(A), 3, order=order)
    found = leading_pairs(
        Dense(A), 3, order=order, dense_up_to=10, generator=generator(), tolerance=1e-10
    )
    assert exact.products == 0 < found.products
    torch.testing.assert_close(found.values, exact.values, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        (found.vectors.T @ exact.vectors).abs(),
        torch.eye(3, dtype=torch.float64),
        atol=1e-7,
        rtol=0,
    )
    assert (exact.residuals < 1e-12).all()


def test_an_operator_known_by_its_products_is_decomposed_too():
    A = matrix([7.0, 5.0, *BULK])
    operator = Applied(len(A), lambda rows: rows @ A, device="cpu", dtype=torch.float64)
    found = leading_pairs(operator, 2)
    assert found.products == 0
    assert found.values.tolist() == pytest.approx([7.0, 5.0])


def test_large_operators_need_a_generator_and_a_known_method():
    A = Dense(matrix(BULK))
    with pytest.raises(ValueError, match="expected a generator, found none"):
        leading_pairs(A, 2, dense_up_to=10)
    with pytest.raises(ValueError, match="found 'power'"):
        leading_pairs(A, 2, method="power")
    assert len(leading_pairs(A, 100).values) == len(BULK)  # as many as there are


def test_symmetrised_pairs_are_those_of_the_symmetric_part():
    A = matrix([7.0, 5.0, *BULK])
    skew = torch.triu(torch.full_like(A, 1e-3), 1)
    found = exact_pairs(A + skew - skew.T, 2, symmetrise=True)
    assert found.values.tolist() == pytest.approx([7.0, 5.0], abs=1e-12)
    assert (found.residuals > 1e-4).all()  # of the matrix as given, which is not symmetric
    assert exact_pairs(A + skew - skew.T, 2).values.tolist() != pytest.approx([7.0, 5.0], abs=1e-12)


def test_block_krylov_finds_the_pairs_in_few_passes():
    A = matrix([9.0, 8.0, 7.5, *np.linspace(0, 5, 100).tolist()])
    found = block_krylov_pairs(Dense(A), 3, generator=generator(), passes=30, tolerance=1e-9)
    assert found.converged.all()
    assert found.passes < 15
    assert found.values.tolist() == pytest.approx([9.0, 8.0, 7.5])
    residuals = (A @ found.vectors - found.vectors * found.values).norm(dim=0)
    torch.testing.assert_close(found.residuals, residuals, rtol=1e-3, atol=1e-12)
    short = block_krylov_pairs(Dense(A), 3, generator=generator(), passes=2, tolerance=1e-9)
    assert (short.passes, bool(short.converged.all())) == (2, False)
    again = leading_pairs(
        Dense(A), 3, method="block-krylov", dense_up_to=0, generator=generator(), tolerance=1e-9
    )
    assert torch.equal(again.values, found.values)


def test_block_krylov_stops_where_the_space_closes():
    A = matrix([3.0, 3.0, *[1.0] * 20])
    found = block_krylov_pairs(Dense(A), 2, generator=generator(), passes=30, tolerance=0.0)
    assert found.passes < 5
    assert found.values.tolist() == pytest.approx([3.0, 3.0])


def test_long_vectors_of_single_precision_are_unit_vectors():
    """Sums of millions of squares in single precision are wrong in the fourth digit."""
    size = 4_000_000
    ones = torch.full((size,), size**-0.5, dtype=torch.float64)
    signs = torch.where(torch.arange(size) % 2 == 0, ones, -ones)
    spread = torch.linspace(0.0, 1.0, size)

    def multiply(rows):
        made = rows * spread
        for value, vector in ((100.0, ones), (50.0, signs)):
            made = made + (value * (rows.double() @ vector)[:, None] * vector).to(rows)
        return made

    A = Applied(size, multiply, device=torch.device("cpu"), dtype=torch.float32)
    found = lanczos_eigenpairs(A, 2, generator=generator(), products=60, order="largest", width=6)
    vectors = found.vectors.double()
    assert (vectors.norm(dim=0) - 1).abs().max() < 1e-6
    exact = (vectors * multiply(vectors.T.float()).T.double()).sum(0)
    assert found.values.tolist() == pytest.approx(exact.tolist(), rel=1e-6)
    assert bool(found.converged.all())
