"""Work of real size on a device: seconds and the most bytes alive.

Part of `make test-cuda`. It runs under the policy of a job, without TF32. Where the emulated device
takes a GPU's place everything is small, and seconds are those of the emulation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import penchant
import penchant_testing as testing
import torch
from penchant_numerics.curvature import Hessian
from penchant_numerics.data import Samples
from penchant_numerics.device import compiling, memory
from penchant_numerics.device.compilation import WORTHWHILE
from penchant_numerics.device.isolation import isolated
from penchant_numerics.training import Stacked, Trainer
from penchant_numerics.training.batched_training import SMALL as LARGEST_STACKED
from penchant_numerics.training.stacked_training import step_bytes
from penchant_testing.emulated_device import NAME, _counts

HEAD = f"{'work':52} {'seconds':>9} {'peak MiB':>9}"
REAL = {"networks": 100, "side": 32, "samples": 256, "stack": 32, "large": "resnet18"}
SMALL = {"networks": 2, "side": 16, "samples": 8, "stack": 2, "large": "resnet20"}
FAILED = "FAILED"  # how the line of a piece of work begins that did not end
STEPS = 5  # of a training, of which the median is taken
CLEARLY = 1.1  # ratio of seconds from which one way counts as faster than another


def table(device: str) -> Iterator[str]:
    """One line for each piece of work; a piece that fails says why."""
    sizes: dict[str, Any] = SMALL if device == NAME else REAL
    notes: list[str] = []
    with isolated(torch.device(device), notes.append):
        for work in (_nad, _hessian_product, _training, _compiled_step):
            try:
                yield from work(device, sizes)
            except Exception as error:
                first, _, _ = str(error).partition("\n")
                yield f"{FAILED} {work.__name__.strip('_')}: {type(error).__name__}: {first}"
            yield from (f"    {note}" for note in notes)
            notes.clear()


def _line(what: str, seconds: float, peak: int) -> str:
    return f"{what:52} {seconds:9.3f} {peak / 2**20:9.1f}"


def _nad(device: str, sizes: dict[str, Any]) -> Iterator[str]:
    side, networks, name = sizes["side"], sizes["networks"], sizes["large"]
    with _Measured(device) as measure:
        penchant.measure(
            "nad",
            architecture=name,
            shape=[3, side, side],
            networks=networks,
            device=device,
            executor="serial",
            figures=False,
        )
    yield _line(f"nad of {networks} {name}, 3 x {side} x {side}", measure.seconds, measure.peak)


def _hessian_product(device: str, sizes: dict[str, Any]) -> Iterator[str]:
    network, samples = _network(sizes["large"], device, sizes), _samples(device, sizes)
    operator = Hessian(network.eval(), samples)
    vector = torch.ones(operator.size, device=device)
    operator @ vector
    with _Measured(device) as measure:
        operator @ vector
    what = f"Hessian product of {sizes['large']}, {sizes['samples']} samples"
    yield _line(what, measure.seconds, measure.peak)


def _training(device: str, sizes: dict[str, Any]) -> Iterator[str]:
    """A step of a stack against a step of each network: the stack's convolutions are grouped."""
    recipe = penchant.Training(steps=STEPS, batch=32, learning_rate=0.01)
    for name in ("lenet", "resnet20"):
        samples = _samples(device, sizes)
        bytes_each = step_bytes(_network(name, device, sizes), samples, recipe)
        # a small card trains fewer, as a probe would
        count = min(sizes["stack"], memory.fitting(bytes_each, device))
        networks = [_network(name, device, sizes, seed=seed) for seed in range(count)]
        stack = Stacked(networks, [samples] * count, recipe, seeds=range(count))
        with _Measured(device) as measure:
            together = _median_step(stack._advance, device)
        yield _line(f"training step of {count} stacked {name}", together, measure.peak)
        del stack  # its bytes are not those of the loop
        trainers = [Trainer(each, samples, recipe, seed=0) for each in networks]

        def loop(trainers: list[Trainer] = trainers) -> None:
            for trainer in trainers:
                trainer._advance()

        with _Measured(device) as measure:
            alone = _median_step(loop, device)
        yield _line(f"training step of {count} {name} one by one", alone, measure.peak)
        if device == NAME:
            yield f"    one by one / stacked: {alone / together:.2f}, of the emulation and not of a GPU"
        else:
            yield from stacking_advice(alone / together, bytes_each)


def stacking_advice(ratio: float, bytes_each: int) -> Iterator[str]:
    """Which of both is faster, and what the rule for this device chooses.

    Args:
        ratio: Seconds of steps one by one over those of a stack.
        bytes_each: What a step of one network takes.
    """
    if 1 / CLEARLY < ratio < CLEARLY:
        yield f"    one by one / stacked: {ratio:.2f}, equally fast"
        return
    faster = "stacked" if ratio > 1 else "one by one"
    yield f"    one by one / stacked: {ratio:.2f}, {faster} is faster"
    chosen = "stacked" if bytes_each <= LARGEST_STACKED else "one by one"
    size, largest = bytes_each / 2**20, LARGEST_STACKED / 2**20
    rule = f"a step takes {size:.1f} MiB; up to {largest:.0f} MiB networks are stacked"
    if chosen == faster:
        yield f"    {rule}: the faster one is chosen"
        return
    yield f"    {rule}: the slower one is chosen, and no setting changes that;"
    yield "    SMALL in penchant_numerics/training/batched_training.py does: please report this"


def _compiled_step(device: str, sizes: dict[str, Any]) -> Iterator[str]:
    """A compiled step against a plain one, and from how many steps on compiling is won back."""
    if device == NAME:
        yield "compiled steps: torch compiles nothing for the emulated device"
        return
    recipe = penchant.Training(steps=WORTHWHILE, batch=32, learning_rate=0.01)
    seconds, first = {}, {}
    for kind, types in (("plain", ()), ("compiled", (torch.device(device).type,))):
        with compiling(*types):
            trainer = Trainer(
                _network("lenet", device, sizes), _samples(device, sizes), recipe, seed=0
            )
        _wait(device)
        start = time.perf_counter()
        trainer._advance()
        _wait(device)
        first[kind] = time.perf_counter() - start
        with _Measured(device) as measure:
            seconds[kind] = _median_step(trainer._advance, device)
        yield _line(f"training step of lenet, {kind}", seconds[kind], measure.peak)
    extra, gain = first["compiled"] - first["plain"], seconds["plain"] - seconds["compiled"]
    yield from compiling_advice(extra, gain)


def compiling_advice(extra: float, gain: float) -> Iterator[str]:
    """Whether compiling is won back.

    Args:
        extra: Seconds that compiling takes.
        gain: Seconds that every compiled step saves.
    """
    rule = f"trainings of at least {WORTHWHILE} steps are compiled"
    if gain <= 0:
        yield f"    compiling takes {extra:.1f} s and saves nothing, and {rule}:"
        yield "    penchant_numerics.device.compilation.compiling() switches it off; please report this"
        return
    yield f"    compiling takes {extra:.1f} s, won back after {extra / gain:.0f} steps; {rule}"


def _median_step(step: Callable[[], None], device: str) -> float:
    seconds = []
    for _ in range(STEPS):
        _wait(device)
        start = time.perf_counter()
        step()
        _wait(device)
        seconds.append(time.perf_counter() - start)
    # The first steps load kernels.
    return statistics.median(seconds[1:])


def _samples(device: str, sizes: dict[str, Any]) -> Samples:
    generator = torch.Generator(device="cpu").manual_seed(0)
    shape = (sizes["samples"], 3, sizes["side"], sizes["side"])
    inputs = torch.randn(shape, generator=generator, device="cpu")
    labels = torch.arange(len(inputs), device="cpu") % 10
    return Samples(inputs.to(device), labels.to(device))


def _network(name: str, device: str, sizes: dict[str, Any], *, seed: int = 0) -> Any:
    shape = (3, sizes["side"], sizes["side"])
    made = testing.architecture(name, shape=shape, outputs=10, seed=seed)
    return made.build(made.seed_of(0)).to(device)


class _Measured:
    """Seconds and the most bytes alive inside."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds = 0.0
        self.peak = 0

    def __enter__(self) -> _Measured:
        _wait(self.device)
        if self.device == NAME:
            _counts[-1].memory.reset_peak()
        else:
            torch.cuda.reset_peak_memory_stats()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *anything: object) -> None:
        _wait(self.device)
        self.seconds = time.perf_counter() - self._start
        emulated = self.device == NAME
        self.peak = _counts[-1].memory.peak if emulated else torch.cuda.max_memory_allocated()


def _wait(device: str) -> None:
    if device != NAME:
        torch.cuda.synchronize()
