"""What curvature operators cache: the process grows by what they say, and no more."""
# ruff: noqa: T201 (the numbers are shown with -s)

import json
import sys

import pytest

# in a process of its own, whose memory nothing else changes
MEASURE = """
import ctypes, gc, json, sys
from pathlib import Path
import torch
from torch import nn
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.curvature import Hessian

gc.freeze()  # looking through all of torch again and again would take longer than the rest
torch.set_num_threads(1)
torch.manual_seed(0)
wide = [nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 4)]
deep = [nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
deep += [nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 4)]
cases = {
    "wide": (nn.Sequential(*wide), torch.randn(1024, 256)),
    "deep": (nn.Sequential(*deep).eval(), torch.randn(512, 1, 16, 16)),
}


def resident():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return 4096 * pages


found = {}
for name, (network, inputs) in cases.items():
    labels = torch.arange(len(inputs)) % 4
    for make in (GaussNewton, Hessian):
        first = make(network, (inputs[:128], labels[:128]))
        first @ torch.ones(first.size)  # libraries and caches are loaded
        del first
        before = resident()
        operator = make(network, (inputs, labels), cache=2**33)
        found[f"{make.__name__}, {name}"] = {
            "cached": operator.cached,
            "claimed": operator.cached_bytes,
            "grown": resident() - before,
        }
        del operator
print(json.dumps(found))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_process_grows_by_what_is_said_to_be_kept(command, tmp_path):
    script = tmp_path / "measure.py"
    script.write_text(MEASURE)
    done = command(script, script=True)
    assert not done.returncode, done.stderr
    for name, case in json.loads(done.stdout).items():
        ratio = case["claimed"] / case["grown"]
        print(
            f"{name}: {case['cached']} batches, {case['grown'] / 2**20:.0f} MiB, ratio {ratio:.2f}"
        )
        assert case["cached"] == (8 if "wide" in name else 4)
        assert ratio == pytest.approx(1, abs=0.2)
