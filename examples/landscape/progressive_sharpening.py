"""Progressive sharpening of a small ResNet20, by forward passes and by the exact eigenvalue.

Full-batch gradient descent on images of CIFAR-10: sharpness rises until steps become unstable, at
2 / rate. Control: a rate too small for it. `PENCHANT_DATA` names the folder with CIFAR-10. Six
minutes on one core, stored in runs/progressive_sharpening, so that a second call only draws;
`--quick` takes digits, a narrower network and six states.
"""

import sys
import time
from pathlib import Path

import numpy as np
import penchant
import torch
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned
from penchant_numerics.pictures.pictures import Figure
from scipy import stats
from torch import nn
from torch.nn import functional

QUICK = "--quick" in sys.argv
RATES = {"sharpening": 0.02, "control": 1e-5}
STATES = 6 if QUICK else 50
EVERY = 2  # steps between states
STEPS = range(0, EVERY * STATES, EVERY)
FEW = STEPS[
    :: STATES // 5
]  # states of what is compared in seconds, and of the control's eigenvalue
OUT = Path("runs/progressive_sharpening") / ("quick" if QUICK else "full")
IMAGES = "digits:per_class=6" if QUICK else "cifar10:per_class=20,resize=16,standardize=true"
WIDTH = 2 if QUICK else 4  # channels of the first stage; the published network has 16


class Block(nn.Module):
    """Two convolutions beside a shortcut that drops positions and adds zero channels."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.added = stride, outputs - inputs
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        short = x[:, :, :: self.stride, :: self.stride]
        short = functional.pad(short, (0, 0, 0, 0, 0, self.added))
        return (self.layers(x) + short).relu()


def resnet20(shape, outputs):
    """The network of He et al., CVPR 2016, section 4.2, with fewer channels."""
    widths = [WIDTH, 2 * WIDTH, 4 * WIDTH]
    layers = [
        nn.Conv2d(shape[0], WIDTH, 3, padding=1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
    ]
    before = WIDTH
    for width in widths:
        for number in range(3):
            layers.append(Block(before, width, 2 if number == 0 and width != WIDTH else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))


def measure(rate, steps=STEPS, *, exact=True, out=None, random_directions=20):
    """Sharpness along the training with a rate."""
    return penchant.measure(
        "critical-sharpness",
        architecture=resnet20,
        dataset=IMAGES,
        training={
            "optimizer": "sgd",
            "momentum": 0.0,
            "schedule": "constant",
            "batch": 0,
            "steps": STEPS[-1],
            "learning_rate": rate,
        },
        eval_steps=list(steps),
        batch_norm="batch",  # as in a step of the full batch
        exact_limit=10**6 if exact else 0,
        random_directions=random_directions,
        out=out,
    )


def seconds(steps, *, exact):
    """CPU seconds of a measurement, the training included."""
    began = time.process_time()
    measure(RATES["sharpening"], steps, exact=exact, random_directions=0)
    return time.process_time() - began


def draw(results, of_control):
    """Both trainings; of the control the eigenvalue at a few states."""
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    eigenvalues = (results["sharpening"].tables["sharpness"], of_control.tables["sharpness"])
    for panel, (name, result), eigenvalue in zip(panels, results.items(), eigenvalues):
        critical = result.tables["critical-sharpness"]
        panel.plot(
            eigenvalue.axes["step"],
            eigenvalue.values,
            "s-",
            color=ORANGE,
            markersize=3,
            linewidth=1,
            label="largest eigenvalue",
        )
        panel.errorbar(
            critical.axes["step"],
            critical.values,
            yerr=2 * critical.stderr,
            fmt="o-",
            color=BLUE,
            markersize=3,
            linewidth=1,
            label="critical sharpness",
        )
        limit = 2 / RATES[name]
        if limit < 1e4:
            panel.axhline(limit, color=FAINT, linestyle=":", label="2 / rate")
        panel.set(xlabel="step of training", yscale="log", title=f"rate {RATES[name]:g}")
        panel.xaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("curvature")
    panels[0].legend(frameon=False, fontsize=8)
    caption = (
        "Full-batch gradient descent; critical sharpness with two standard errors over images. "
        "Right, the control: the same network and images, with a rate too small to sharpen."
    )
    return captioned(figure, caption, title="Progressive sharpening of a small ResNet20")


def report(name, result):
    """What is printed of one training."""
    critical = result.tables["critical-sharpness"].values
    passes = result.tables["forward-passes"].values
    print(f"{name}, rate {RATES[name]:g}, {len(critical)} states")
    print("    critical sharpness: first, largest, last", _three(critical))
    print(f"    forward passes of a state: mean {passes.mean():.1f}, most {passes.max():.0f}")
    for quantity in ("sharpening", "rank-correlation", "sharpness-ratio"):
        if quantity in result.quantities:
            print(f"    {quantity} {result.quantities[quantity]}")
    if "sharpness" in result.tables:
        report_exact(name, critical, result.tables)


def report_exact(name, critical, tables):
    """Both numbers until the limit of stability is reached, and from then on."""
    exact, limit = tables["sharpness"].values, 2 / RATES[name]
    print("    largest eigenvalue: first, largest, last", _three(exact))
    products = tables["hessian-products"].values
    print(f"    products with the Hessian of a state: mean {products.mean():.0f}")
    reached = np.flatnonzero(critical >= limit)
    if len(reached):
        first = reached[0]
        ranks = stats.spearmanr(critical[: first + 1], exact[: first + 1]).statistic
        print(f"    2 / rate = {limit:g} is reached at step {first * EVERY}", end=", ")
        print(f"rank correlation until then {ranks:.2f} of {first + 1} states", end=", ")
        print(f"mean from then on {np.nanmean(critical[first:]):.1f}")


def _three(values):
    return " ".join(f"{each:.3g}" for each in (values[0], np.nanmax(values), values[-1]))


def compare():
    """CPU seconds of a state, side by side."""
    training = seconds(STEPS[-1:], exact=False)
    critical = seconds(FEW, exact=False)
    both = seconds(FEW, exact=True)
    # the training and one state are in all
    forward, exact = (critical - training) / (len(FEW) - 1), (both - critical) / len(FEW)
    print(f"CPU seconds of a state: critical {forward:.2f}, largest eigenvalue {exact:.2f}", end="")
    print(f", {exact / forward:.0f} times as long")


def main():
    """Measure, print and draw."""
    torch.set_num_threads(1)
    results = {
        "sharpening": measure(RATES["sharpening"], out=OUT / "sharpening"),
        "control": measure(RATES["control"], exact=False, out=OUT / "control"),
    }
    for name, result in results.items():
        report(name, result)
    of_control = measure(RATES["control"], FEW, out=OUT / "control-exact")
    print("    largest eigenvalue", _three(of_control.tables["sharpness"].values))
    draw(results, of_control).savefig("progressive_sharpening.png", bbox_inches="tight", dpi=150)
    print("progressive_sharpening.png")
    compare()


if __name__ == "__main__":
    main()
