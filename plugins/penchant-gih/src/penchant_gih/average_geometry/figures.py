"""Figures of the probe `average-geometry`."""

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned, rows_as_images, spectrum

from penchant_gih.shared.containment import draw_matrix

SHOWN = 10  # directions at either end


def draw(result: penchant.Result) -> dict[str, Figure]:
    """G with its eigenvalues (figure 9), and its first and last directions."""
    figures = {"geometry": geometry(result), "directions": directions(result)}
    if "radial-shares" in result.tables:
        return {"waves": radial_shares(result), **figures}
    return figures


def radial_shares(result: penchant.Result) -> Figure:
    """Shares of the frequencies of a trained network's gradients, by their length."""
    shares = result.tables["radial-shares"]
    figure = Figure(figsize=(5.2, 3.6))
    axes = figure.subplots()
    radii = shares.coordinates("radius")
    errors = 2 * np.asarray(shares.stderr)
    axes.errorbar(radii, shares.values, errors, marker="o", markersize=3, label="gradients")
    null, spread = np.asarray(shares.null), np.asarray(shares.null_spread)
    axes.plot(radii, null, linestyle="--", color="0.5", label="pixels shuffled")
    axes.fill_between(radii, null - 2 * spread, null + 2 * spread, color="0.85", linewidth=0)
    axes.set_xlabel("waves across the input")
    axes.set_ylabel("share of the squared gradient")
    axes.legend()
    caption = (
        "How much of the squared input gradient is in waves of each length, beside gradients with "
        "their pixels in random order; bars and bands are two standard errors."
    )
    return captioned(figure, caption, title="Frequencies of the input gradients")


def geometry(result: penchant.Result) -> Figure:
    """G as a picture, and its eigenvalues with those of isotropic architectures."""
    arrays = result.arrays
    # Of very large inputs the matrix was never formed.
    if "geometry" in arrays:
        figure = Figure(figsize=(8.8, 3.8))
        left, right = figure.subplots(1, 2)
        draw_matrix(left, arrays["geometry"], "entry of G")
    else:
        figure = Figure(figsize=(5.2, 3.8))
        right = figure.subplots()
    spectrum(
        arrays["eigenvalues"],
        stderr=arrays["eigenvalues-stderr"],
        null=arrays.get("null-eigenvalues"),
        null_spread=arrays.get("null-eigenvalues-spread"),
        ylabel="eigenvalue of G",
        axes=right,
    )
    of, where = "fresh networks", "before training"
    if "radial-shares" in arrays:
        of, where = "samples, of one trained network", "of a trained network"
    caption = (
        f"The second moment of input gradients over {of}, and its eigenvalues. Dashed: an "
        "architecture without preferred directions."
    )
    return captioned(figure, caption, title=f"Average geometry {where}")


def directions(result: penchant.Result) -> Figure:
    """The leading and the trailing eigenvectors of G, in the shape of the input."""
    rows = result.arrays["directions"]
    # Where there are few directions, each is shown once.
    count = len(rows)
    leading = range(min(SHOWN, count))
    trailing = range(max(SHOWN, count - SHOWN), count)
    chosen = [*leading, *trailing]
    shape = result.shape or (rows.shape[1],)
    titles = [str(index) for index in chosen]
    figure = rows_as_images(rows[chosen], shape, titles=titles)
    caption = (
        "Eigenvectors of G by index: gradients are largest along the first and smallest along "
        "the last."
    )
    return captioned(figure, caption, title="Directions of the average geometry")
