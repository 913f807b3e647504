"""The digits that come with scikit-learn: the embedded real dataset."""

import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets.digits import load
from penchant_vision.declarations import Digits
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier


def draw(seed=0, **options):
    return as_data(load(Digits.bind(options), torch.Generator(device="cpu").manual_seed(seed)))


def test_all_samples_are_there_once():
    data = draw()
    images = torch.cat([data.train.inputs, data.test.inputs]).flatten(1) * 16
    stored = torch.from_numpy(load_digits().data).float()
    assert images.shape == (1797, 64)
    assert torch.equal(torch.unique(images, dim=0), torch.unique(stored, dim=0))
    assert data.shape == (1, 8, 8) and data.classes == 10
    assert data.train.inputs.min() == 0 and data.train.inputs.max() == 1


def test_test_part_is_a_fifth_of_every_class_and_the_same_for_every_seed():
    data = draw()
    shares = data.test.labels.bincount() / (
        data.test.labels.bincount() + data.train.labels.bincount()
    )
    assert (len(data.train.labels), len(data.test.labels)) == (1442, 355)
    assert shares.min() > 0.19 and shares.max() <= 0.2
    assert torch.equal(data.test.inputs, draw(seed=1).test.inputs)


def test_labels_belong_to_their_images():
    data = draw(per_class=100)
    neighbours = KNeighborsClassifier(1).fit(data.train.inputs.flatten(1), data.train.labels)
    assert neighbours.score(data.test.inputs.flatten(1), data.test.labels) > 0.95
