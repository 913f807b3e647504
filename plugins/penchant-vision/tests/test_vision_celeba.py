"""CelebA, from pictures made for it: the splits, the labels, the cut, and every fault named."""

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets.celeba import load, picture
from penchant_vision.declarations import CelebA
from PIL import Image
from torch.nn import functional


def write(root):
    """Four blue pictures whose middle square is red: two of split 0, one of splits 1 and 2."""
    folder = root / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    for number in range(4):
        image = Image.new("RGB", (178, 218), (0, 0, 255))
        image.paste((255, 0, 0), (0, 20, 178, 198))
        image.save(folder / f"{number}.png")
    splits = "0.png 0\n1.png 0\n2.png 1\n3.png 2\n"
    (folder.parent / "list_eval_partition.txt").write_text(splits)
    rows = "4\nBald Male\n0.png -1 1\n1.png -1 -1\n2.png 1 1\n3.png 1 -1\n"
    (folder.parent / "list_attr_celeba.txt").write_text(rows)
    return folder


def draw(root, **options):
    chosen = CelebA.bind({"root": str(root), "resize": 16, **options})
    return as_data(load(chosen, torch.Generator(device="cpu").manual_seed(0)))


def test_parts_labels_and_the_middle_square(tmp_path):
    write(tmp_path)
    data = draw(tmp_path)
    assert data.train.inputs.shape == (2, 3, 16, 16) and data.test.inputs.shape == (1, 3, 16, 16)
    assert data.train.labels.tolist() == [1, 0] and data.test.labels.tolist() == [0]
    red = torch.tensor([1.0, 0.0, 0.0], device="cpu")[:, None, None].expand(3, 16, 16)
    assert torch.allclose(data.train.inputs, red, atol=1e-6)
    assert data.conventions["label"] == "the attribute Male"


def test_counts_are_the_first_pictures_and_nothing_is_all(tmp_path):
    write(tmp_path)
    assert len(draw(tmp_path, train=1).train.labels) == 1
    assert len(draw(tmp_path, train=None).train.labels) == 2
    assert draw(tmp_path, resize=None).shape == (3, 178, 178)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_pixels_are_those_that_matplotlib_reads(tmp_path, suffix):
    from matplotlib.image import imread

    values = np.random.default_rng(0).integers(256, size=(40, 30, 3), dtype=np.uint8)
    path = tmp_path / f"noise.{suffix}"
    Image.fromarray(values).save(path)
    read = torch.from_numpy(imread(path).copy())
    whole = read.to(torch.float32) / 255 if read.dtype == torch.uint8 else read
    square = whole[5:35].permute(2, 0, 1)[None]
    expected = functional.interpolate(square, (16, 16), mode="bilinear", antialias=True)[0]
    assert torch.equal(picture(path, side=16), expected.clamp(0, 1))


def test_faults_are_named(tmp_path):
    folder = write(tmp_path)
    with pytest.raises(penchant.Error, match="no attribute 'Hat'.*there are Bald, Male"):
        draw(tmp_path, attribute="Hat")
    Image.new("L", (20, 20)).save(folder / "0.png")
    with pytest.raises(penchant.Error, match="0.png: found a picture of mode L, expected one in"):
        draw(tmp_path)
    (folder / "0.png").write_bytes(b"no picture")
    with pytest.raises(penchant.Error, match="0.png cannot be read"):
        draw(tmp_path)
    (folder / "0.png").unlink()
    with pytest.raises(penchant.Error, match="0.png cannot be read"):
        draw(tmp_path)


def test_lists_that_are_missing_or_short_are_named(tmp_path):
    folder = write(tmp_path).parent
    (folder / "list_attr_celeba.txt").write_text("1\nBald Male\n0.png -1 1\n")
    with pytest.raises(penchant.Error, match="no row for 1.png"):
        draw(tmp_path)
    (folder / "list_eval_partition.txt").write_text("0.png 0\n")
    with pytest.raises(penchant.Error, match="found no picture of split 2"):
        draw(tmp_path)
    with pytest.raises(penchant.Error, match="celeba: files not found") as caught:
        draw(tmp_path / "nowhere")
    assert "list_eval_partition.txt" in str(caught.value) and "download" not in str(caught.value)
