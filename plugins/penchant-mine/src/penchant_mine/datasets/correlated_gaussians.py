"""Normal pairs with correlation rho: the dataset `correlated-gaussians`."""

from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_mine.datasets.splits import train_and_test
from penchant_mine.declarations.datasets import CorrelatedGaussians
from penchant_mine.shared.information.families import Setting, correlated


def load(options: CorrelatedGaussians, generator: Generator) -> Data:
    """Target of the dataset `correlated-gaussians`."""
    setting = Setting(options.inputs, options.inputs)

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        return correlated(setting, options.rho, count, stream)

    # x is the input and z the label, so that a network could predict one from the other.
    train, test = train_and_test(draw, generator, train=options.train, test=options.test)
    return Data(train, test, classes=0)
