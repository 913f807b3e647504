"""Figures of the probe `peak-ablation`."""

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, captioned, heat_map
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Spectrum and prediction over training, one panel per clip; their end; the peak itself."""
    return {
        "amplitude": _spectra(result),
        "learnt-share": _final(result),
        "prediction": _predictions(result),
        "peak": _peak(result),
    }


def _spectra(result: penchant.Result) -> Figure:
    samples = len(result.arrays["target"])
    figure = _panels(
        result,
        result.arrays["amplitude"],
        result.arrays["frequencies"],
        xlabel="frequency (cycles)",
        label="|DFT| / N",
        limits=(0, 1.2 / samples),
    )
    caption = (
        f"Amplitudes of the learnt function by step; the peak has {1 / samples:.3g} everywhere."
    )
    return captioned(figure, caption, title="The spectrum over training, by weight clip")


def _predictions(result: penchant.Result) -> Figure:
    values = result.arrays["prediction"]
    count = values.shape[-1]
    positions = np.arange(count) / count
    low = min(0.0, float(values.min()))
    high = max(0.1, float(values.max()))
    figure = _panels(
        result,
        values,
        np.round(positions, 2),
        xlabel="position z",
        label="prediction",
        limits=(low, high),
    )
    caption = "The learnt function of the first training; rows are training steps."
    return captioned(figure, caption, title="The learnt peak, by weight clip")


def _panels(
    result: penchant.Result,
    values: Any,
    columns: Any,
    *,
    xlabel: str,
    label: str,
    limits: tuple[float, float],
) -> Figure:
    """One map a clip, with one colour bar for all."""
    clips = result.arrays["weight-clips"]
    figure = Figure(figsize=(1.6 + 2.9 * len(clips), 3.6))
    axes = figure.subplots(1, len(clips), squeeze=False, sharey=True)[0]
    for number, (panel, clip) in enumerate(zip(axes, clips)):
        heat_map(
            values[number],
            columns=columns,
            rows=result.arrays["steps"],
            xlabel=xlabel,
            ylabel="" if number else "step",
            label=label,
            limits=limits,
            bar=False,
            axes=panel,
        )
        panel.tick_params(axis="x", labelsize=7)
        panel.set_title(_name(clip))
    figure.colorbar(axes[-1].images[0], ax=list(axes), label=label)
    return figure


def _name(clip: Any) -> str:
    """A bound in words; 0 is none."""
    if not clip:
        return "no clip"
    return f"clip {clip:g}"


def _final(result: penchant.Result) -> Figure:
    """What of every frequency is learnt at the end, with the limit of reach."""
    share = result.tables["learnt-share"]
    last = share.axes["step"][-1]
    figure = curves(
        {_name(clip): share.at(clip=clip, step=last) for clip in share.axes["clip"]},
        x="frequency",
        y="learnt share of the peak's wave",
        xlabel="frequency (cycles)",
        level=0.5,
        level_label="half of the peak",
    )
    figure.axes[0].axhline(1.0, color=FAINT, linewidth=0.8)
    reach = result.quantities["reach"]
    caption = f"Reach, the share of frequencies of which half is learnt, is {reach}."
    return captioned(figure, caption, title="Spectrum at the end of training")


def _peak(result: penchant.Result) -> Figure:
    """The target and its spectrum, the same at every frequency."""
    target = result.arrays["target"]
    figure = Figure(figsize=(9.0, 3.2))
    left, right = figure.subplots(1, 2)
    positions = np.arange(len(target)) / len(target)
    left.plot(positions, target, color=BLUE)
    left.set(xlabel="position z", ylabel="target")

    # constant over all frequencies
    transform = np.fft.rfft(target)
    spectrum = np.abs(transform) / len(target)
    cycles = np.arange(len(spectrum))
    right.plot(cycles, spectrum, color=BLUE)
    highest = 2 * spectrum.max()
    right.set(xlabel="frequency (cycles)", ylabel="|DFT| / N", ylim=(0, highest))
    caption = "A peak has the same amplitude at every frequency."
    return captioned(figure, caption, title="The target")
