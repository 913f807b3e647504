"""The loss of several networks that differ in some parameters only; the others stay at w*."""

from __future__ import annotations

from torch import Tensor

from penchant_landscape.shared.network_energy import NetworkEnergy


class ModuleEnergy:
    """An `Energy` of `langevin` whose weights are those of a module.

    Args:
        energy: That of all parameters.
        coordinates: Where the module lies among them.
    """

    def __init__(self, energy: NetworkEnergy, coordinates: Tensor) -> None:
        self._energy = energy
        self._coordinates = coordinates
        self.centre = energy.centre[coordinates]

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The excess (halves, chains) and the gradient (chains, parameters of the module)."""
        every = self._energy.centre.repeat(len(weights), 1)
        every[:, self._coordinates] = weights
        excess, gradient = self._energy(every)
        return excess, gradient[:, self._coordinates]
