"""A comparison shows first what can be compared, and which options differ."""

import penchant
import pytest


def experiment(networks, *architectures):
    return {
        "architectures": [{"name": name} for name in architectures],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": networks}],
        "executor": "serial",
        "figures": False,
    }


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    penchant.run(experiment(8, "logistic", "perceptron"), out=folder / "before")
    penchant.run(experiment(16, "perceptron"), out=folder / "after")
    return penchant.compare(folder / "before", folder / "after")


def test_lines_begin_with_what_both_runs_have(comparison):
    first, differs, quantity, title, alone = comparison.lines()
    assert first == "output-spread: perceptron · two-blobs, before -> after"
    assert differs == "  differs: probe.networks: 8 against 16"
    assert quantity.startswith("  spread ")
    assert title == "in one run only"
    assert alone == "  output-spread: logistic · two-blobs is in before only"


def test_the_page_names_options_before_its_table_and_single_cells_last(comparison, tmp_path):
    page = comparison.write(tmp_path / "compare.html").read_text()
    options = page.index("probe.networks: 8 against 16")
    table = page.index("<table")
    alone = page.index("In one run only")
    assert options < table < alone
