"""The probe `dipole`: how fast a network learns to tell x from x + v, and what bounds that."""

import numpy as np
import penchant
import torch
from penchant_numerics.device import safe
from penchant_numerics.inputs import MixedDerivative, input_gradients
from penchant_numerics.training import draw
from torch import Tensor

from penchant_nad.declarations.theory import Dipole
from penchant_nad.dipole import lemma_2
from penchant_nad.shared.bases import check_indices, indices_of, named_basis
from penchant_nad.shared.rank_correlations import largest_deviation, rank_correlation_of

SHARD = 8  # networks
SIDES = ("gradient-norm", "bound", "exceedance", "markov-bound")  # of lemma 2, of Markov


def run(options: Dipole, context: penchant.Context) -> penchant.Result:
    """Slopes v.grad f and sizes |M v| of every network and direction; every second bounds."""
    check_indices(context, networks=options.basis_networks)
    basis = named_basis(context, networks=options.basis_networks)
    indices = indices_of(options, basis)

    # All networks are measured at one point, along the same directions.
    shape = context.architecture.shape
    noise = torch.randn(shape, generator=context.generator("point"), device="cpu")
    shared = {"point": noise, "directions": basis.vectors[indices]}
    rows = list(
        context.map(slopes_and_sizes, networks=options.networks, shard_size=SHARD, shared=shared)
    )

    # Even networks are measured, odd ones give the bound.
    slopes = np.concatenate([row["slopes"] for row in rows])  # (networks, directions)
    sizes = np.concatenate([row["sizes"] for row in rows])
    if not slopes.any():
        raise penchant.Error(
            "the derivative along each of the directions is exactly zero in every network: a "
            "dipole that no network sees has no bound to compare with"
        )
    dipole = lemma_2.Dipole(options.alpha, options.beta)
    lemma = lemma_2.both_sides(slopes, sizes, dipole)
    markov = lemma_2.markov_sides(slopes, options.eta)
    tables = {
        name: penchant.Table(values, {"index": indices}, stderr=stderr, over="networks")
        for name, (values, stderr) in zip(SIDES, (*lemma, *markov))
    }
    tightness, error = lemma_2.tightness(slopes, sizes, dipole)
    quantities = {
        "largest-excess": _excess("largest-excess", lemma, context),
        "largest-markov-excess": _excess("largest-markov-excess", markov, context),
        "tightness": penchant.Quantity(
            tightness,
            stderr=error,
            over="networks (jackknife over pairs)",
            count=options.networks,
            df=options.networks // 2 - 1,
        ),
        **rank_correlation_of(lemma[0][0], lemma[1][0], context, over="directions"),
    }
    arrays = {"indices": np.array(indices)}
    if basis.eigenvalues is not None:
        arrays["eigenvalues"] = basis.eigenvalues[indices].numpy()
    return penchant.Result(quantities, arrays, tables=tables, conventions=_conventions(options))


def _conventions(options: Dipole) -> dict[str, str]:
    g = f"g(t) = {options.alpha / 2:g} t^2 + {options.beta:g} t"
    return {
        "dipole": f"first order in v, {g}, unit directions",
        "bound": "from other networks than the measured side",
        "eta": f"{options.eta:g} times the mean of v^T C v over the directions",
    }


def slopes_and_sizes(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """v.grad_x f and |M v| at the point, (networks, directions) each."""
    sampled = draw(context.architecture, indices, prepare=safe)
    networks = sampled.to(context.device, context.dtype)
    point = context.shared["point"].to(context.dtype)
    directions = context.shared["directions"].to(context.dtype)

    # Gradients of all networks at once, mixed derivatives one by one.
    gradients = input_gradients(networks, point[None])[:, 0]
    slopes = gradients @ directions.T
    mixed = MixedDerivative(networks.module, point)
    sizes = []
    for number in range(len(networks)):
        state = {name: value[number] for name, value in networks.state.items()}
        sizes.append(_sizes(mixed, state, directions))
    return {"slopes": slopes.double(), "sizes": torch.stack(sizes).double()}


def _sizes(mixed: MixedDerivative, state: dict[str, Tensor], directions: Tensor) -> Tensor:
    """|M v|; for many directions the matrix M^T M costs less than the products."""
    if 8 * len(directions) > mixed.size:
        products = directions @ mixed.gram(state)
        squares = (products * directions).sum(1)
        return squares.clamp(min=0).sqrt()  # rounding may be below zero

    # M v comes tensor by tensor of the parameters.
    images = mixed.apply(state, directions)
    total = directions.new_zeros(len(directions))
    for image in images.values():
        total = total + image.flatten(1).square().sum(1)
    return total.sqrt()


def _excess(
    name: str, sides: tuple[lemma_2.Side, lemma_2.Side], context: penchant.Context[Dipole]
) -> penchant.Quantity:
    """The largest excess of a measured side over its bound."""
    fields = largest_deviation(
        lemma_2.excess(*sides), generator=context.generator(name), two_sided=False
    )
    return penchant.Quantity(
        **fields, over="networks", count=context.options.networks, unit="standard errors"
    )
