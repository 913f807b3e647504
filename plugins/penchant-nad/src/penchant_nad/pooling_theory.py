"""The probe `pooling-theory`: what pooling loses and how it bends the loss, frequency by frequency, in theory and in simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch

from penchant_nad import _pooling
from penchant_nad.directional_accuracy import binomial_stderr

SHARD = 8  # frequencies


def run(options: Any, context: Any) -> penchant.Result:
    """Simulate at every frequency and compare with the corrected theorem and lemma."""
    if options.size % options.stride or options.size < 4 * options.stride:
        raise penchant.Error(
            f"size must be a multiple of stride and at least four times it, found {options.size} and {options.stride}"
        )
    chosen = _pooling.frequencies(options.size, options.stride)[:: options.every]
    names = ("size", "stride", "prefilter", "epsilon", "sigma", "draws")
    shared = {name: getattr(options, name) for name in names}
    items = [
        {**shared, "frequencies": chosen[start : start + SHARD]}
        for start in range(0, len(chosen), SHARD)
    ]
    rows = list(context.map(simulated, items))
    arrays = {
        "frequency": np.array(chosen),
        **{name: np.concatenate([row[name] for row in rows]) for name in rows[0]},
    }
    arrays |= _theory(options, chosen)
    arrays["simulation-stderr"] = binomial_stderr(arrays["theory"], options.draws)
    arrays |= _curves(options, context, chosen)
    conventions = {
        "theorem 1": "Phi((eps/sigma) g) without the factors of the paper; frequencies with 2 l = 0 mod M are left out",
        "lemma 1": "with 1/S; curvature along phi_l and along theta_(l mod M)",
        "loss": "(y - f)^2, every step on fresh samples",
    }
    return penchant.Result(_quantities(options, arrays), arrays, conventions=conventions)


def _theory(options: Any, chosen: list[int]) -> dict[str, Any]:
    taps = _pooling.window(options.size, options.stride, options.prefilter)
    response = torch.fft.fft(taps).abs()
    accuracies = _pooling.bayes_accuracies(
        taps, options.stride, chosen, options.epsilon / options.sigma
    )
    phi, theta = _pooling.curvature_law(
        response, options.stride, chosen, epsilon=options.epsilon, sigma=options.sigma
    )
    zeta = (
        (options.epsilon / options.sigma) ** 2 * response[chosen].square() / response.max().square()
    )
    return {
        "theory": accuracies.corrected.numpy(),
        "theory-text": accuracies.text.numpy(),
        "theory-supplement": accuracies.supplement.numpy(),
        "zeta": zeta.numpy(),
        "curvature-theory": phi.numpy(),
        "theta-curvature-theory": theta.numpy(),
        "response": response[chosen].numpy(),
    }


def simulated(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracy and curvature at some frequencies."""
    taps = _pooling.window(item["size"], item["stride"], item["prefilter"])
    response = torch.fft.fft(taps).abs()
    known = {name: item[name] for name in ("epsilon", "sigma", "draws")}
    accuracies, curvatures = [], []
    for each in item["frequencies"]:
        noise = context.generator("noise", each)
        accuracies.append(
            _pooling.simulated_accuracy(taps, item["stride"], each, generator=noise, **known)
        )
        networks = context.generator("networks", each)
        curvatures.append(
            _pooling.measured_curvature(response, item["stride"], each, generator=networks, **known)
        )
    phi, phi_stderr, theta, theta_stderr = np.array(curvatures).T
    found = {
        "curvature": phi,
        "curvature-stderr": phi_stderr,
        "theta-curvature": theta,
        "theta-curvature-stderr": theta_stderr,
    }
    return {"simulation": np.array(accuracies), **found}


def _curves(options: Any, context: Any, chosen: list[int]) -> dict[str, Any]:
    """Loss curves at a few frequencies from the lowest to the highest."""
    picked = sorted({chosen[round(at)] for at in np.linspace(0, len(chosen) - 1, options.curves)})
    names = (
        "size",
        "stride",
        "prefilter",
        "epsilon",
        "curve_sigma",
        "steps",
        "batch",
        "learning_rate",
        "weight_std",
        "networks",
    )
    items = [
        {"frequency": each, **{name: getattr(options, name) for name in names}} for each in picked
    ]
    rows = list(context.map(trained, items))
    losses = np.stack([row["losses"] for row in rows])  # (frequencies, networks, steps)
    stderr = losses.std(1, ddof=1) / math.sqrt(options.networks)
    return {
        "curve-frequency": np.array(picked),
        "loss-curves": losses.mean(1),
        "loss-curves-stderr": stderr,
    }


def trained(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Loss curves of the linear model of pooling with the signal at one frequency."""
    response = torch.fft.fft(_pooling.window(item["size"], item["stride"], item["prefilter"])).abs()
    descent = _pooling.Descent(
        item["steps"], item["batch"], item["learning_rate"], item["weight_std"], item["networks"]
    )
    generator = context.generator("training")  # the same networks and noise for every frequency
    known = {"epsilon": item["epsilon"], "sigma": item["curve_sigma"], "generator": generator}
    losses = _pooling.loss_curves(response, item["stride"], item["frequency"], descent, **known)
    if not bool(torch.isfinite(losses).all()):
        raise penchant.Error(
            f"the linear model diverged at frequency {item['frequency']}: learning_rate {item['learning_rate']} is too large"
        )
    return {"losses": losses}


def _deviation(found: np.ndarray, expected: np.ndarray, stderr: np.ndarray) -> float:
    """The largest deviation in standard errors."""
    return float((np.abs(found - expected) / stderr).max())


def _quantities(options: Any, arrays: dict[str, Any]) -> dict[str, penchant.Quantity]:
    from scipy.stats import norm, spearmanr

    limit = {
        "null": float(norm.isf(0.005 / len(arrays["frequency"]))),
        "unit": "standard errors",
    }  # corrected two-sided 1 % point
    quantities = {}
    for name, version in (
        ("deviation", "theory"),
        ("text-deviation", "theory-text"),
        ("supplement-deviation", "theory-supplement"),
    ):
        stderr = binomial_stderr(arrays[version], options.draws)
        quantities[name] = penchant.Quantity(
            _deviation(arrays["simulation"], arrays[version], stderr), **limit
        )
    for name in ("curvature", "theta-curvature"):
        moved = arrays[f"{name}-stderr"] > 0  # no curvature at zeros of the filter
        value = _deviation(
            arrays[name][moved], arrays[f"{name}-theory"][moved], arrays[f"{name}-stderr"][moved]
        )
        quantities[f"{name}-deviation"] = penchant.Quantity(value, **limit)
    places = np.searchsorted(arrays["frequency"], arrays["curve-frequency"])
    effort = arrays["loss-curves"].mean(1)
    if len(places) > 2 and np.ptp(effort) > 0 and np.ptp(arrays["zeta"][places]) > 0:
        correlation = float(spearmanr(effort, -arrays["zeta"][places]).statistic)
        chance = {"null": 0.0, "null_stderr": 1 / math.sqrt(len(places) - 1)}
        spread = math.sqrt(max(0.0, 1 - correlation**2) / (len(places) - 2))
        quantities["loss-zeta-correlation"] = penchant.Quantity(
            correlation, stderr=spread, over="frequencies", count=len(places), **chance
        )
    return quantities


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy and curvature by frequency, and the loss curves."""
    from penchant_nad import pooling_figures

    return {
        "accuracy": pooling_figures.accuracy(result),
        "curvature": pooling_figures.curvature(result),
        "loss-curves": pooling_figures.loss_curves(result),
    }
