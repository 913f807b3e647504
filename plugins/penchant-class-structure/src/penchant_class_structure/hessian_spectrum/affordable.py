"""What of the spectra a network of the user's own is given by default: about a minute of two cores.

Where everything would take longer, as counted in operations before anything runs, the Hessian of
training samples is measured alone, with fewer products; where that is not enough, on fewer samples.
Nothing depends on how long anything took. `per_class` chooses the whole measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.hessian_spectrum.work_ahead import forward_operations, work_ahead
from penchant_class_structure.shared.own_samples import MOST_SAMPLES

if TYPE_CHECKING:
    import penchant

# Seconds of one core as they are counted. Searches end earlier and cores are faster: a third of it.
LONGEST = 300.0
FEWEST_SAMPLES = 100
CHEAP = {
    "split": "train",
    "matrices": ("hessian",),
    "starts": 1,
    "trace_samples": 16,
    "lanczos_steps": 32,
    "iterations": 6,
    "leading": 5,
}


def affordable(
    options: HessianSpectrum, context: penchant.Context, outputs: int
) -> tuple[HessianSpectrum, int | None]:
    """The options for a network of the user's own, and how many samples; None: as they say.

    Args:
        options: What was asked for.
        context: Of the probe.
        outputs: Of the network that are measured.

    Returns:
        The same options and None unless they are too many for a default.
    """
    if context.network_kind == "fresh" or options.per_class is not None:
        return options, None
    network = context.network()
    if sum(each.numel() for each in network.parameters()) <= options.exact_limit:
        return options, None
    available = len(context.data.train.labels)
    count = min(available, MOST_SAMPLES)
    forward = forward_operations(network, context.data.train.inputs)
    leading = options.leading or outputs
    whole = work_ahead(
        options, leading=leading, outputs=outputs, samples=[count, count], forward=forward
    )
    if whole.seconds(context.device) > LONGEST:
        cheaper = _cheaper(options)
        options = attrs.evolve(options, **cheaper)
        less = work_ahead(
            options,
            leading=options.leading or leading,
            outputs=outputs,
            samples=[count],
            forward=forward,
        )
        share = LONGEST / less.seconds(context.device)
        count = min(count, max(FEWEST_SAMPLES, int(share * count)))
        context.conventions["default"] = (
            f"about a minute of two cores, so {', '.join(cheaper)} have smaller values than for "
            "small networks; with per_class everything is measured"
        )
    if count < available:
        context.conventions["default samples"] = (
            f"{count} of {available:,}, chosen by the seed; per_class chooses others"
        )
    return options, count


def _cheaper(options: HessianSpectrum) -> dict[str, Any]:
    """Smaller options in place of those that were not chosen."""
    usual = {field.name: field.default for field in attrs.fields(HessianSpectrum)}
    usual |= HessianSpectrum.presets["quick"]
    return {name: value for name, value in CHEAP.items() if getattr(options, name) == usual[name]}
