"""Trainings by the recipe of a job: of its networks, and of a probe's own on samples of its own."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from penchant.components.training import Training
from penchant.errors import Error
from penchant.execution.job.checkpoints import Checkpoints, Finished, best_rate
from penchant.execution.job.own_networks import OwnNetworks
from penchant.experiments.jobs import training_name
from penchant.seeds import derive

if TYPE_CHECKING:
    from penchant.execution.job.context import Context
    from penchant_numerics.data import Samples
    from torch import nn


@attrs.frozen(eq=False)
class Trainings:
    """What the recipe of a context's job trains."""

    context: Context[Any]

    def states(self, steps: Sequence[int] | None) -> Iterator[tuple[int, nn.Module]]:
        """Yield (step, network) along the training of the job; each state is saved."""
        context = self.context
        bound = context.runtime.job.architecture
        if bound is not None and bound.network_kind != "fresh":
            context.conventions["network"] = "the user's own, trained further"
        checkpoints = self.checkpoints(self.recipe(self._finished))
        network = None
        for step, network in checkpoints.states(self._untrained, steps):
            yield step, network
        if network is not None:
            self._warn_if_at_chance(network, context.data.train)

    def train(
        self,
        network: nn.Module,
        samples: Samples,
        *,
        seed: int,
        steps: Sequence[int] | None,
        test: Samples | None,
    ) -> Iterator[tuple[int, nn.Module]]:
        """Train a network in place on samples of the probe's own; see `Context.train`."""
        from penchant_numerics.training import Trainer

        def finished(training: Training) -> tuple[nn.Module, Samples]:
            if test is None:
                text = "learning_rates need test samples to be judged on, and this probe has none"
                raise Error(text)
            # A copy for every rate: all of them begin with the same weights.
            other = copy.deepcopy(network)
            Trainer(other, samples, training, seed=seed).run()
            return other, test

        trainer = Trainer(network, samples, self.recipe(finished), seed=seed)
        for step in [trainer.total] if steps is None else sorted(set(steps)):
            before = trainer.step
            trainer.run(until=step)
            # An early stop answers all later steps.
            if trainer.step > before or trainer.step == step:
                yield trainer.step, network
        self._warn_if_at_chance(network, samples)

    def recipe(self, finished: Finished) -> Training:
        """The training; of several learning rates the one with the smallest test error."""
        context = self.context
        if context.training is None:
            who = context.runtime.job.probe.component.name
            raise Error(f"the probe {who!r} must name 'training' in `needs` before it trains")
        if not context.training.learning_rates:
            return context.training
        best, context.conventions["learning rate"] = best_rate(context.training, finished)
        return best

    def checkpoints(self, training: Training) -> Checkpoints:
        """A training of the job's network, shared by all jobs that have the same."""
        runtime = self.context.runtime
        # Neither name nor seed depend on the probe: jobs that share a training share its network.
        name = training_name(runtime.job.network_key, training)
        return Checkpoints(
            runtime.folder / "networks" / name,
            self.context.data,
            training,
            seed=derive(runtime.job.seed, "training"),
            tell=functools.partial(runtime.progress.tell, "training steps"),
            link=runtime.link,
        )

    def _untrained(self) -> nn.Module:
        """The network that training begins with: number 0, or the user's own."""
        return OwnNetworks(self.context.runtime).fill(self.context.network(), 0)

    def _finished(self, training: Training) -> tuple[nn.Module, Samples]:
        """The network at the end of the job's training, and the samples it is judged on."""
        *_, (_, network) = self.checkpoints(training).states(self._untrained, None)
        return network, self.context.data.test

    def _warn_if_at_chance(self, network: nn.Module, samples: Samples) -> None:
        """Warn where a training learnt nothing, unless it had zero steps."""
        from penchant.execution.job.chance import learnt_nothing

        training = self.context.training
        if training is not None and training.steps != 0:
            text = learnt_nothing(network, samples)
            if text:
                self.context.warn(text)
