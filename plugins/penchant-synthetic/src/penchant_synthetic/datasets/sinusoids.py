"""A sum of sinusoids on a line: y = sum_i A_i sin(2 pi k_i z + phi_i)."""

from penchant_numerics.data import Data, streams
from torch import Generator

from penchant_synthetic.declarations import Sinusoids
from penchant_synthetic.shared.embedding import embed
from penchant_synthetic.shared.waves import GRID, Wave, phase_stream, positions, splits


def load(options: Sinusoids, generator: Generator) -> Data:
    """Target of the dataset `sinusoids`."""
    for_phases, for_embedding = streams(generator, 2)
    arguments = positions(options.train)
    # What is to be learnt: a wave along the line.
    phases = phase_stream(options.draw, for_phases)
    wave = Wave(options.frequencies, options.amplitudes, phases)
    labels = wave(arguments).float()
    # The line, embedded in the input.
    line = arguments[:, None]
    inputs, convention = embed(line, options.input_shape, options.embedding, for_embedding)
    train, test = splits(inputs, labels)
    return Data(
        train,
        test,
        classes=0,
        conventions={"phases": f"draw {options.draw}", "grid": GRID, "embedding": convention},
    )
