"""Modules of a network as a user names them: groups of parameters, by names or patterns.

A wrapper or a copy of a network has the same parameters in the same order under other names. So a
module is stored as positions in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.jacobians.parameters import Layout, select
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn


@dataclass(frozen=True)
class Modules:
    """Groups of parameters by the pattern that names each."""

    positions: dict[str, tuple[int, ...]]  # in the order of the network's parameters

    @classmethod
    def of(cls, network: nn.Module, patterns: Sequence[str]) -> Modules:
        """The parameters of each pattern (`parameters.select`).

        Args:
            network: The network whose names are meant.
            patterns: One for each module, all of them different.

        Returns:
            The modules; they may overlap, and need not hold all parameters.

        >>> network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        >>> Modules.of(network, ["0", "*.bias"]).positions
        {'0': (0, 1), '*.bias': (1, 3)}
        """
        if len(set(patterns)) < len(patterns):
            raise Refusal(f"parameters must differ, found {list(patterns)}")
        names = list(dict(network.named_parameters()))
        positions = {}
        for pattern in patterns:
            chosen = select(network, pattern)
            positions[pattern] = tuple(names.index(name) for name in chosen)
        return cls(positions)

    @classmethod
    def of_option(cls, patterns: Sequence[str], network: Callable[[], nn.Module]) -> Modules | None:
        """The modules that an option `parameters` names; None, and no network, without any."""
        return cls.of(network(), patterns) if patterns else None

    def __len__(self) -> int:
        return len(self.positions)

    def names(self, network: nn.Module) -> dict[str, tuple[str, ...]]:
        """Names of each module's parameters in a network that has them in the same order."""
        own = list(dict(network.named_parameters()))
        return {
            pattern: tuple(own[position] for position in chosen)
            for pattern, chosen in self.positions.items()
        }

    def coordinates(self, network: nn.Module) -> dict[str, Tensor]:
        """Where each module lies in the flat vector of all parameters, on their device.

        >>> network = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
        >>> Modules.of(network, ["1", "0.bias"]).coordinates(network)["0.bias"].tolist()
        [2, 3]
        """
        layout = Layout(dict(network.named_parameters()))
        every = torch.arange(layout.size, device=layout.device)
        coordinates = {}
        for pattern, names in self.names(network).items():
            rows = [every[layout.slices[name]] for name in names]
            coordinates[pattern] = torch.cat(rows)
        return coordinates
