"""Two round clouds of points in the plane."""

import torch
from penchant_example.declarations import TwoBlobs
from penchant_numerics.data import Data, Samples

SAMPLES = 400  # half of them for training


def load(options: TwoBlobs, generator: torch.Generator) -> Data:
    """Target of the dataset `two-blobs`."""
    # Datasets are made on the host; the context moves them to its device.
    labels = torch.arange(SAMPLES, device="cpu") % 2
    inputs = torch.randn(SAMPLES, 2, generator=generator, device="cpu")
    # The clouds lie side by side, half the distance from the origin each.
    inputs[:, 0] += options.distance * (labels - 0.5)
    half = SAMPLES // 2
    train = Samples(inputs[:half], labels[:half])
    test = Samples(inputs[half:], labels[half:])
    return Data(train, test, classes=2)
