"""Uniform x and z = f(x) + noise: the dataset `nonlinear-pair`."""

from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_mine.datasets.splits import train_and_test
from penchant_mine.declarations.datasets import NonlinearPair
from penchant_mine.shared.information.families import Setting, noisy_map


def load(options: NonlinearPair, generator: Generator) -> Data:
    """Target of the dataset `nonlinear-pair`."""
    setting = Setting(options.inputs, options.inputs, map=options.map)

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        return noisy_map(setting, options.noise_std, count, stream)

    # The label is the noisy image of the input under the map.
    train, test = train_and_test(draw, generator, train=options.train, test=options.test)
    return Data(train, test, classes=0)
