"""The sentence of hessian-spectrum: its largest eigenvalue, outliers, and negative part."""

import numpy as np
import penchant
import pytest
from penchant_class_structure.hessian_spectrum.figures import headline


def result(top):
    quantities = {
        "largest": penchant.Quantity(top[0], exact=True),
        "negative-mass": penchant.Quantity(0.046, stderr=0.017),
        "resolution": penchant.Quantity(0.092, exact=True),
    }
    return penchant.Result(quantities, {"top-eigenvalues": np.array(top)})


@pytest.mark.parametrize(
    ("top", "outliers"),
    [
        ([28.0, 20.0, 13.0, 6.0, 5.0], "3 are above the bulk (the next is 2.2 times smaller)"),
        ([9.0, 1.0, 0.9], "1 is above the bulk (the next is 9 times smaller)"),
        ([9.0, -1.0], "one is above the bulk"),
    ],
)
def test_outliers_lie_above_the_widest_gap(top, outliers):
    text = headline(result(top))
    assert text.startswith(f"The largest eigenvalue of the Hessian is {top[0]:.3g}; {outliers}")
    assert text.endswith("a share 0.046 ± 0.017 of all is below −0.092.")


def test_without_the_hessian_there_is_no_sentence():
    assert (
        headline(penchant.Result({"trace-gauss-newton": penchant.Quantity(1.0, exact=True)}))
        is None
    )
