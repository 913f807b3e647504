"""`measure` on a network of your own: any callable that returns a module will do."""

import penchant
from torch import nn


def make(shape, outputs):
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * (height // 4) * (width // 4), outputs),
    )


if __name__ == "__main__":
    result = penchant.measure("nad", architecture=make, shape=(1, 16, 16), networks=64)
    print(result.quantities["effective-rank"])
    print("strongest direction:", result.arrays["directions"][0].round(3)[:8], "...")
