"""Figures of the probe `dipole`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Both sides of lemma 2 and of the Markov bound, by direction."""
    figure = Figure(figsize=(9.0, 3.6))
    left, right = figure.subplots(1, 2)
    tables = result.tables
    basis = f"index in the basis {result.options.get('basis', '')}"
    # Sizes span decades, shares do not.
    lemma = {"measured": tables["gradient-norm"], "bound": tables["bound"]}
    speed = "mean size of the dipole's gradient"
    curves(lemma, x="index", y=speed, xlabel=basis, yscale="log", axes=left)
    markov = {"measured": tables["exceedance"], "bound": tables["markov-bound"]}
    curves(markov, x="index", y="share of networks above eta", xlabel=basis, axes=right)
    excess = result.quantities["largest-excess"]
    caption = (
        "Measured values and their bounds by direction. Left: lemma 2; right: Markov's inequality. "
        f"Largest excess over the bound of lemma 2: {excess}."
    )
    title = "Learning speed of a dipole, and its bounds"
    return {"bounds": captioned(figure, caption, title=title)}
