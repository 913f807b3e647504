"""Train and test samples of generated datasets, each split with its own random stream."""

from collections.abc import Callable

from penchant_numerics.data import Samples, streams
from torch import Generator, Tensor

TRAIN_FOR_A_TEST = 4  # training samples for each test sample, where no option says how many

Draw = Callable[[int, Generator], tuple[Tensor, Tensor]]


def train_and_test(
    draw: Draw, generator: Generator, *, train: int, test: int | None
) -> tuple[Samples, Samples]:
    """Both splits; the size of one does not change the samples of the other."""
    if test is None:
        test = max(1, train // TRAIN_FOR_A_TEST)
    # Streams of their own: more training samples leave the test samples as they are.
    for_train, for_test = streams(generator, 2)
    return Samples(*draw(train, for_train)), Samples(*draw(test, for_test))
