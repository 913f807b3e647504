"""Whether a probe is given samples is what it says, for every probe that is installed."""

import penchant
import pytest
from penchant.plugins import discovery
from penchant_testing.takes import check_data_cell

PROBES = [each.component for each in discovery.load().registrations("probe")]


@pytest.mark.parametrize("cls", PROBES, ids=lambda cls: cls.name)
def test_data_are_taken_as_a_probe_says(cls):
    check_data_cell(cls, {})


def test_a_probe_that_says_otherwise_is_caught(monkeypatch):
    cls = next(each for each in PROBES if each.name == "hessian-spectrum")
    monkeypatch.setattr("penchant_testing.takes.takes_data", lambda _: "no")
    with pytest.raises(AssertionError, match="hessian-spectrum takes samples, and says 'no'"):
        check_data_cell(cls, {})
    assert issubclass(cls, penchant.Probe)
