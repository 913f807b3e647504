"""The dataset `file`: arrays of a file .npz, pictures of a folder of classes."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from PIL import Image


def data_of(path, **options):
    return testing.dataset({"name": "file", "path": str(path), **options})


def test_train_and_test_arrays_are_the_splits(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 1, 4, 4)).astype("float32")
    y = np.arange(30) % 3
    path = tmp_path / "data.npz"
    np.savez(path, x_train=x[:20], y_train=y[:20], x_test=x[20:], y_test=y[20:])
    data = data_of(path)
    torch.testing.assert_close(data.train.inputs, torch.from_numpy(x[:20]))
    assert data.test.labels.tolist() == y[20:].tolist()
    assert data.classes == 3


def test_one_pair_of_arrays_gets_a_test_split(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, images=np.zeros((50, 3, 5, 5), "uint8"), labels=np.array(["a", "b"] * 25))
    data = data_of(path)
    assert len(data.train.inputs) == 40 and len(data.test.inputs) == 10
    assert data.classes == 2


def test_a_folder_for_each_class_holds_its_pictures(tmp_path):
    for name, value in (("cat", 255), ("dog", 0)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(5):
            picture = Image.fromarray(np.full((6, 4, 3), value, "uint8"))
            picture.save(tmp_path / "data" / name / f"{number}.png")
    data = data_of(tmp_path / "data")
    assert tuple(data.shape) == (3, 6, 4)
    assert data.train.inputs[data.train.labels == 0].unique().tolist() == [1.0]
    Image.fromarray(np.zeros((5, 5, 3), "uint8")).save(tmp_path / "data/dog/6.png")
    with pytest.raises(penchant.Error, match="several sizes, such as 3 x 5 x 5 and 3 x 6 x 4"):
        data_of(tmp_path / "data")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((4, 2))}, "has no labels, found x: add an array called labels or y"),
        ({"a": np.zeros(3), "b": np.zeros(3)}, "expected one column such as image"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, arrays, message):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(penchant.Error, match=message):
        data_of(path)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(penchant.Error, match="there is no file or folder"):
        data_of(tmp_path / "nothing.npz")
    path = tmp_path / "data.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(penchant.Error, match=r"cannot be read as a file \.npz"):
        data_of(path)
    np.savez(path, x=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(penchant.Error, match=r"cannot be read as a file \.npz"):
        data_of(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(penchant.Error, match="has no pictures, expected a folder of pictures"):
        data_of(tmp_path / "empty")
