"""Pickles of arrays are read whoever wrote them; anything that could run code is refused before it runs."""

import collections
import io
import os
import pickle
import struct

import numpy as np
import penchant
import pytest
from penchant_vision.files.pickled_arrays import read_arrays

ARRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)


def stored(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [ARRAY, np.asfortranarray(ARRAY), ARRAY.astype(">f4"), ARRAY.astype(np.int64)],
    ids=["C", "F", "big", "int64"],
)
def test_arrays_of_every_protocol_are_read(tmp_path, protocol, array):
    batch = {
        b"data": array,
        "labels": [1, 2, 3],
        b"label": b"training batch",
        "names": ("a", None, True, 2.5),
    }
    found = read_arrays(stored(tmp_path, pickle.dumps(batch, protocol=protocol)))
    np.testing.assert_array_equal(found["data"], array)
    assert (
        found["labels"] == [1, 2, 3]
        and found["names"] == ("a", None, True, 2.5)
        and found["label"] in (b"training batch", "training batch")
    )


def test_a_pickle_of_python_2_is_read(tmp_path):
    def text(value):
        return b"U" + bytes([len(value)]) + value

    number = b"J" + struct.pack("<i", -1)
    kind = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNN"
        + number
        + number
        + b"K\x00tb"
    )
    empty = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    )
    array = empty + b"(K\x01K\x03K\x04\x86" + kind + b"\x89" + text(ARRAY.tobytes()) + b"tb"
    content = b"\x80\x02}(" + text(b"data") + array + text(b"labels") + b"](K\x01K\x02K\x03eu."
    found = read_arrays(stored(tmp_path, content))
    np.testing.assert_array_equal(found["data"], ARRAY)
    assert found["labels"] == [1, 2, 3]


class Harm:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (lambda path: Harm(os.system, f"touch {path}"), "posix.system|nt.system"),
        (lambda path: Harm(eval, f"open({str(path)!r}, 'w')"), "(builtins|__builtin__).eval"),
        (lambda path: Harm(open, str(path), "w"), "_?io.open"),
        (lambda path: Harm(getattr, "text", "upper"), "(builtins|__builtin__).getattr"),
        (lambda path: collections.OrderedDict(data=1), "collections.OrderedDict"),
        (lambda path: np.float64(3), "numpy.*scalar"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_anything_else_is_refused_before_it_runs(tmp_path, harm, name, protocol):
    witness = tmp_path / "witness"
    path = stored(tmp_path, pickle.dumps({"data": ARRAY, "more": harm(witness)}, protocol=protocol))
    with pytest.raises(
        penchant.Error, match=f"found ({name}) in the pickle, expected only numpy arrays"
    ) as caught:
        read_arrays(path)
    assert str(caught.value).startswith(str(path)) and not witness.exists()


def test_arrays_of_objects_are_refused(tmp_path):
    path = stored(tmp_path, pickle.dumps({"data": np.array([{}, []], dtype=object)}))
    with pytest.raises(
        penchant.Error, match="found an array of object in the pickle, expected numbers"
    ):
        read_arrays(path)


def test_outside_references_are_refused(tmp_path):
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return "elsewhere" if value == "here" else None

    stream = io.BytesIO()
    Pickler(stream).dump({"data": "here"})
    with pytest.raises(penchant.Error, match="outside the pickle"):
        read_arrays(stored(tmp_path, stream.getvalue()))


@pytest.mark.parametrize(
    "content",
    [b"", b"no pickle", pickle.dumps({"data": ARRAY})[:-20], pickle.dumps([ARRAY])],
    ids=["empty", "text", "cut", "list"],
)
def test_what_is_no_dictionary_is_refused(tmp_path, content):
    with pytest.raises(penchant.Error, match="expected a dictionary of arrays"):
        read_arrays(stored(tmp_path, content))
