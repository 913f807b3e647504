"""Probes on networks and data that are hard on them, in single against double precision.

    python tests/tools/adversarial_probes.py --probes nad geometry-evolution

Every probe that takes an architecture runs twice with the options of its plugin's conformance test,
which differ in nothing but `dtype`. A line of the table gives the largest difference of a quantity
between both runs, relative to its value (or its standard error, where that is larger), and the same
difference in standard errors: a training amplifies rounding, so after one only the latter counts.
Quantities that differ by more than 1e-2 although they are beyond three standard errors are named.
"""

import argparse
import contextlib
import functools
import importlib.util
import io
import math
import re
import sys
import time
import warnings
from pathlib import Path
from unittest import mock

import penchant
import penchant_testing as testing
import torch
from torch import nn

PLUGINS = Path(__file__).parents[2] / "plugins"
ORDER = (
    "nad",
    "gih",
    "mine",
    "tangent",
    "class-structure",
    "curvature",
    "spectral-bias",
    "representations",
    "landscape",
    "weights",
)
SECONDS = 20
TOLERATED = 1e-2
WELL_ABOVE = 3  # standard errors
TINY_SAMPLES = {"name": "import", "factory": testing.SAMPLES}
MIXED = {"directions": {"name": "mixed-derivative"}}

# ---- networks


class Attention(nn.Module):
    """Two heads of attention over the values of an input, then layer norm."""

    def __init__(self, inputs):
        super().__init__()
        self.embed, self.norm = nn.Linear(1, 4), nn.LayerNorm(4)
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)
        self.places = nn.Parameter(torch.randn(inputs, 4))

    def forward(self, x):
        tokens = self.embed(x.unsqueeze(-1)) + self.places
        mixed, _ = self.mix(tokens, tokens, tokens, need_weights=False)
        return self.norm(tokens + mixed).mean(1)


class Recurrent(nn.Module):
    """The last state of an LSTM along the values of an input."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(1, 4, batch_first=True)

    def forward(self, x):
        states, _ = self.cell(x.unsqueeze(-1))
        return states[:, -1]


def network(body, width, shape, outputs):
    """Any input flattened, `body(inputs)` that gives `width` values, and a linear layer."""
    return nn.Sequential(nn.Flatten(), *body(math.prod(shape)), nn.Linear(width, outputs))


def perceptron(*widths, norm=None):
    def body(inputs):
        layers = []
        for width in widths:
            layers += [nn.Linear(inputs, width), *([norm(width)] if norm else []), nn.Tanh()]
            inputs = width
        return layers

    return functools.partial(network, body, widths[-1])


def zero_weights(shape, outputs):
    found = perceptron(6)(shape, outputs)
    for value in found.parameters():
        nn.init.zeros_(value)
    return found


NETWORKS = {
    "layer-norm": perceptron(6, 6, norm=nn.LayerNorm),
    "group-norm": perceptron(6, 6, norm=functools.partial(nn.GroupNorm, 2)),
    "attention": functools.partial(network, lambda inputs: [Attention(inputs)], 4),
    "lstm": functools.partial(network, lambda inputs: [Recurrent()], 4),
    "depth-15": perceptron(*[6] * 14),
    "width-1": perceptron(1, 1),
    "zero-weights": zero_weights,
}

# ---- data


def duplicated(inputs, labels):
    """Every second sample again in the place of its neighbour."""
    kept = torch.arange(len(inputs), device="cpu") // 2 * 2
    return inputs[kept], labels[kept]


def absent_class(inputs, labels):
    """No sample of class 1."""
    return inputs[labels != 1], labels[labels != 1]


def constant(inputs, labels):
    return torch.ones_like(inputs), labels


DATA = {"duplicates": duplicated, "absent-class": absent_class, "constant-inputs": constant}


def changed(dataset, change):
    """The dataset with other training samples; None where it has no classes to be without."""
    data = testing.dataset(dataset)
    if change is absent_class and not data.classes:
        return None
    train = change(data.train.inputs, data.train.labels)
    test = (data.test.inputs, data.test.labels)
    return {"name": "import", "factory": lambda: (train, test)}


# ---- probes


def small_runs(plugin):
    """What the conformance test of a plugin gives to each of its components."""
    found = {}
    folder = PLUGINS / f"penchant-{plugin}" / "tests"
    (path,) = (
        each for each in folder.glob("test_*.py") if "testing.conformance(" in each.read_text()
    )
    sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(path.stem, path)

    def conformance(distribution, *, small, **others):
        found.update(small)

    with mock.patch.object(testing, "conformance", conformance):
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return found


def probes():
    """Rows of the table: its name, the probe, and what it is given beside the network."""
    for plugin in ORDER:
        small = small_runs(plugin)
        for registration in testing.registrations(f"penchant-{plugin}"):
            cls = registration.component
            if cls.kind != "probe" or not cls.has_axis("architecture"):
                continue
            runs = small[cls.name] if isinstance(small[cls.name], list) else [small[cls.name]]
            # A probe that can do without a network has one in the first of these.
            if "architecture" not in cls.needs:
                runs = [parts for parts in runs if "architecture" in parts]
            yield cls.name, cls, runs[0]
            if cls.name == "nad":
                yield "nad (mixed)", cls, {**runs[0], "estimators": MIXED}


def cases(cls, parts):
    """Names of networks and data with what the probe is given."""
    parts = dict(parts)
    if "dataset" in cls.needs or "architecture" not in cls.needs:
        parts.setdefault("dataset", TINY_SAMPLES)
    for name, factory in NETWORKS.items():
        yield name, {**parts, "architecture": {"name": "import", "factory": factory}}
    if "dataset" not in parts:
        return
    plain = {"name": "import", "factory": perceptron(6)}
    for name, change in DATA.items():
        dataset = changed(parts["dataset"], change)
        if dataset:
            yield name, {**parts, "architecture": plain, "dataset": dataset}


def quantities(cls, parts, dtype):
    """The quantities of a run."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        found = penchant.measure(cls.name, dtype=dtype, threads=1, time_limit=SECONDS, **parts)
    return found.quantities


def difference(single, double):
    """Between two quantities: relative to the value, and in standard errors (None without one)."""
    apart = abs(single.value - double.value)
    stderr = double.stderr or 0.0
    scale = max(abs(double.value), stderr)
    relative = apart / scale if scale else (math.inf if apart else 0.0)
    return relative, apart / stderr if stderr else None


def known(found):
    """The quantities that are not missing."""
    return {name: each for name, each in found.items() if not each.missing}


def compared(single, double):
    """A line of the table from the quantities of both runs."""
    single, double = known(single), known(double)
    shared = [name for name in double if name in single]
    if not shared:
        alone = sorted(single.keys() | double.keys())
        return f"ONLY IN ONE: {', '.join(alone)}" if alone else "all missing"
    apart = {name: difference(single[name], double[name]) for name in shared}
    worst = max(apart, key=lambda name: apart[name][0])
    relative, errors = apart[worst]
    line = f"{relative:10.1e}  {'-' if errors is None else format(errors, '.1e'):>8}  {worst}"
    wrong = [
        f"{name} {double[name].value:.4g}+-{double[name].stderr or 0:.1g} {each:.1e}"
        for name, (each, _) in apart.items()
        if each > TOLERATED and abs(double[name].value) > WELL_ABOVE * (double[name].stderr or 0)
    ]
    if wrong:
        line += f"  DIFFER ({len(wrong)} of {len(shared)}): {'; '.join(wrong[:4])}"
    if single.keys() != double.keys():
        line += f"  ONLY IN ONE: {', '.join(sorted(single.keys() ^ double.keys())[:4])}"
    return line


def refusal(error):
    """A failed run: what users can mend comes without a traceback."""
    text = re.sub(r"^\S+ failed: ", "", str(error))
    if getattr(error, "__notes__", None):
        return f"CRASH {text.splitlines()[0]}"
    return f"refused: {text[:40]}"


def outcome(cls, parts):
    """A line of the table."""
    try:
        single, double = (quantities(cls, parts, dtype) for dtype in ("float32", "float64"))
    except penchant.Error as error:
        return refusal(error)
    except Exception as error:
        return f"CRASH {type(error).__name__}: {str(error).splitlines()[0]}"
    return compared(single, double)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", nargs="*", help="only these rows")
    asked = parser.parse_args().probes
    print(f"{'probe':28}{'network':16}{'seconds':>8}{'difference':>12}{'of its stderr':>15}")
    for row, cls, parts in probes():
        if asked and row not in asked and cls.name not in asked:
            continue
        for name, given in cases(cls, parts):
            start = time.monotonic()
            line = outcome(cls, given)
            print(f"{row:28}{name:16}{time.monotonic() - start:8.1f}  {line}", flush=True)


if __name__ == "__main__":
    main()
