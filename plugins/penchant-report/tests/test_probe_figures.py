"""Lead figures of some probes at the width of a column; the slow conformance tests take every figure."""

import penchant
import pytest
from penchant_report.figure_faults import faults
from penchant_report.figures import figure_style

DATA = "two-blobs:distance=2.0"
PROBES = {
    "nad": {"architecture": "mlp", "shape": (1, 4, 4), "networks": 8},
    "weight-spectra": {"architecture": "lenet", "shape": (1, 16, 16)},
    "neural-collapse": {
        "architecture": "mlp:widths=[6,6]",
        "dataset": DATA,
        "training": {"steps": 3},
    },
}


@pytest.mark.parametrize("name", PROBES)
def test_a_figure_can_be_read_in_a_column(name):
    result = penchant.measure(name, **PROBES[name])
    figures = result.figures()
    lead = next(iter(figures))
    with figure_style():
        figure = result.figure(lead, width="column")
        assert figure.get_size_inches()[0] == 3.25
        assert not faults(figure)
