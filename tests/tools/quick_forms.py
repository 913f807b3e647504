"""What `--quick` changes in every experiment of examples/, as a Markdown table.

`python tests/tools/quick_forms.py` prints one row for each entry of each file, and ends with how
many labels stand for a measurement that another label has, too, which must be 0.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path

from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant_tools.quick import quick_form

EXAMPLES = Path(__file__).parents[2] / "examples"


def main() -> None:
    """Print the table."""
    # Without files nothing is read for a job's key.
    os.environ["PENCHANT_DATA"] = tempfile.mkdtemp()
    plugins = discovery.load()
    print("| file | jobs | entry | in the file -> in its quick form |")
    print("|---|--:|---|---|")
    files = sorted(EXAMPLES.rglob("*.toml"))
    repeated = 0
    for path in files:
        raw = quick_form(tomllib.loads(path.read_text()), plugins, path.name)
        jobs = build(raw, plugins, path.name).jobs("cpu")
        repeated += len(jobs) - len({job.key for job in jobs})
        for number, entry in enumerate(raw["probes"]):
            name = "" if number else f"{path.relative_to(EXAMPLES)} | {len(jobs)}"
            label = entry.get("label", entry["name"])
            print(f"| {name or ' | '} | {label} | {entry['quick'] or 'the same'} |")
    print(f"\n{len(files)} files; labels with the measurement of another label: {repeated}")


if __name__ == "__main__":
    main()
