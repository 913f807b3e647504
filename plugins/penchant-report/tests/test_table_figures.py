"""Figures of tables, for probes that draw none (`penchant_report.table_figures`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penchant
import pytest


def sizes(context: penchant.Context, item: dict[str, Any]) -> dict[str, float]:
    return {"size": item["network"] * item["scale"], "layer-size": float(len(item))}


@penchant.probe(
    needs="architecture",
    quantities={"size": "at scale 1"},
    tables={
        "by-scale[scale]": "size of the output by the scale of its input",
        "by-network[network, scale]": "the same for each network",
    },
)
def output_size(context: penchant.Context, networks: int = 3) -> dict[str, Any]:
    found = context.tables(sizes, network=range(networks), scale=(1.0, 2.0, 4.0))
    means = found["size"].mean("network", null=0.5)
    return {"size": means.at(scale=1.0).quantity(), "by-scale": means, "by-network": found["size"]}


def test_a_probe_without_a_drawing_has_a_figure_for_each_of_its_tables() -> None:
    result = penchant.measure(output_size, architecture="mlp", shape=(4,), outputs=1)
    figures = result.figures()
    assert list(figures) == ["by-scale", "by-network"]
    (axes,) = figures["by-scale"].axes
    (bars,) = axes.containers
    curve = bars.lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(curve.get_ydata(), result.arrays["by-scale"])
    assert axes.get_xlabel() == "scale"
    labels = [text.get_text() for text in figures["by-scale"].legends[0].get_texts()]
    assert labels == ["null"]
    expected = (
        "Size of the output by the scale of its input; bars and bands are standard errors over 3 "
        "networks."
    )
    assert figures["by-scale"].get_label() == expected
    lines = figures["by-network"].legends[0].get_texts()
    assert [text.get_text() for text in lines] == ["network 0", "network 1", "network 2"]


@penchant.probe(needs="architecture", tables={"size[network]": "size of the output"})
def sizes_alone(context: penchant.Context, networks: int = 3) -> penchant.Table:
    return context.tables(sizes, network=range(networks), scale=(1.0,))["size"].at(scale=1.0)


def test_the_page_of_a_table_alone_has_its_figure_and_no_empty_table(tmp_path: Path) -> None:
    penchant.measure(sizes_alone, architecture="mlp", shape=(4,), outputs=1, out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Size of the output." in page
    assert "Numbers of sizes-alone" not in page and "to compare these numbers with" not in page


def test_curves_come_before_what_they_are_compared_with() -> None:
    table = penchant.Table(
        [[1.0, 2.0], [3.0, 4.0]], {"kind": ("a", "b"), "x": (0, 1)}, null=[[0.0, 1.0]] * 2
    )
    (figure,) = penchant.Result(tables={"size": table}).figures().values()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["a", "b", "a, null", "b, null"]


def test_many_curves_are_a_map() -> None:
    numbers = np.arange(120.0).reshape(12, 10)
    table = penchant.Table(numbers, {"network": range(12), "scale": range(10)})
    (figure,) = penchant.Result(tables={"size": table}).figures().values()
    (image,) = figure.axes[0].images
    np.testing.assert_array_equal(image.get_array(), numbers)


def test_names_stand_beside_each_other_without_a_line() -> None:
    table = penchant.Table(
        [1.0, 3.0], {"layer": ("conv", "fc")}, stderr=[0.1, 0.2], over="networks"
    )
    (figure,) = penchant.Result(tables={"trace": table}).figures().values()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["conv", "fc"]
    assert axes.containers[0].lines[0].get_linestyle() == "None"


def test_a_result_without_tables_says_so() -> None:
    with pytest.raises(penchant.Error, match="it has no tables"):
        penchant.Result({"size": penchant.Quantity(1.0)}).figures()
