"""Data that would be measured as something else, or need a network without bounds."""

import numpy as np
import penchant
import pytest
import torch
from penchant_import.declarations import ImportedDataset
from penchant_import.imported import load

INPUTS = np.arange(12.0).reshape(6, 2)
LABELS = np.array([0, 1, 0, 1, 0, 1])
MASKED = np.ma.masked_array(INPUTS, INPUTS > 10)
MASKED_LABELS = np.ma.masked_array(LABELS, LABELS == 1)


def loaded(source):
    return load(ImportedDataset(factory=source), torch.Generator())


@pytest.mark.parametrize(
    "source",
    [
        (MASKED, LABELS),
        (INPUTS, MASKED_LABELS),
        (list(MASKED), LABELS),
        ((INPUTS, LABELS), (MASKED, LABELS)),
        {"x": MASKED, "y": LABELS},
        {"x": INPUTS, "label": MASKED_LABELS},
        [(MASKED[index], LABELS[index]) for index in range(6)],
        [{"x": MASKED[index], "y": LABELS[index]} for index in range(6)],
    ],
)
def test_a_mask_is_not_dropped(source):
    with pytest.raises(penchant.Error, match=r"are a masked array with \d of \d+ values masked"):
        loaded(source)


def test_a_mask_is_not_dropped_from_a_result_either():
    with pytest.raises(penchant.Error, match="masked array"):
        penchant.Result(arrays={"means": MASKED})


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 0, 1, 0, 10**9]),
        np.array([0, 1, 0, 1, 0, 10**6]),
        np.array([[0], [1], [0], [1], [0], [10**9]]),
        np.array([[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 10**9]]),
    ],
)
def test_labels_that_need_a_network_without_bounds_are_refused(labels):
    inputs = torch.ones(6, 2, dtype=torch.int64) if labels.ndim == 2 else INPUTS
    with pytest.raises(penchant.Error, match="expected at most 1000000 classes; number them"):
        loaded((inputs, labels))


def test_the_largest_number_of_classes_is_taken():
    labels = np.array([0, 1, 0, 1, 0, 10**6 - 1])
    assert loaded((INPUTS, labels)).classes == 10**6
