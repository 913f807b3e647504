"""Everything marked `cuda`, a verdict in one sentence, and seconds of every probe: CPU and GPU.

Run it with `make test-cuda` on a machine with a GPU. The table is of small problems, on which a
GPU need not win; what it is for is to see a probe that takes far longer there than here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from penchant_testing.on_cuda import TABLE

HEAD = f"{'probe':32} {'CPU s':>9} {'GPU s':>9} {'CPU/GPU':>8}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the tests; the exit code is pytest's, or 2 where there is no GPU."""
    if not torch.cuda.is_available():
        _say(f"no verdict: torch {torch.__version__} finds no CUDA device here")
        return 2
    table = Path(tempfile.mkdtemp(prefix="penchant-cuda-")) / "table.txt"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", "cuda"]
    done = subprocess.run(command, env={**os.environ, TABLE: str(table)})
    lines = sorted(table.read_text().splitlines()) if table.is_file() else []
    _say("\n".join([HEAD, *lines]))
    name = torch.cuda.get_device_name(0)
    verdict = "everything conforms" if done.returncode == 0 else "some tests fail, see above"
    _say(f"verdict on {name}, torch {torch.__version__}: {verdict}; {len(lines)} runs timed")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
