"""Arrays whose rows are the same samples."""

import numpy as np
import pytest
import torch
from penchant_numerics.data import class_labels, count_aligned


def test_rows_are_counted_and_ids_compared():
    arrays = {"a": np.zeros((4, 2)), "b": torch.zeros(4, 3, 3, device="cpu"), "c": [1, 2, 3, 4]}
    assert count_aligned(arrays) == 4
    assert count_aligned(arrays, dict.fromkeys(arrays, [7, 5, 9, 2])) == 4


@pytest.mark.parametrize(
    ("arrays", "ids", "message"),
    [
        ({"a": [1, 2], "b": [1, 2, 3]}, None, "found 2 rows in 'a' and 3 in 'b'"),
        ({"a": 1.0}, None, "'a' must have a row for each sample"),
        ({"a": [1, 2], "b": [1, 2]}, {"a": [1, 2]}, "of 'a', 'b', found those of 'a'"),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, r"'a' has 2 rows, found sample ids of the shape \(3,\)"),
        ({"a": [1, 2]}, {"a": [1, 1]}, "must be different"),
        (
            {"a": [1, 2], "b": [1, 2]},
            {"a": [1, 2], "b": [1, 3]},
            "2 ids of 'a' and 2 of 'b', of which 1 differ: in row 1 2 and 3",
        ),
    ],
)
def test_rows_that_do_not_match_are_named(arrays, ids, message):
    with pytest.raises(ValueError, match=message):
        count_aligned(arrays, ids)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0.5], "found 0.5"), ([-1], "found -1"), ([[0, 1]], r"one number for each sample")],
)
def test_labels_that_are_no_classes_are_named(labels, message):
    with pytest.raises(ValueError, match=message):
        class_labels(labels)
    assert class_labels([0, 2]).tolist() == [0, 2]
