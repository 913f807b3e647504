"""Figures of the probe `output-spread`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned


def draw(result: penchant.Result) -> dict[str, Figure]:
    """A histogram of the mean outputs."""
    figure = Figure(figsize=(5, 3))
    axes = figure.subplots()
    axes.hist(result.arrays["means"], bins=20)
    axes.set_xlabel("mean output of a network")
    axes.set_ylabel("networks")
    spread = result.quantities["spread"]
    # The caption stands below the figure in the report.
    caption = f"Mean outputs of fresh networks; their standard deviation is {spread}."
    title = "Outputs of fresh networks"
    return {"means": captioned(figure, caption, title=title)}
