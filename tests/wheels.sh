#!/usr/bin/env bash
# Install as people do: wheels of the kernel and of every plugin in a clean environment, where nothing of this folder can
# be imported. Libraries such as torch are those of the environment whose python is given: its folder of packages is
# added, but not the editable installs of this repository, which only a path file of its own leads to.
set -euo pipefail
python="${1:-.venv/bin/python}"
python="$(cd "$(dirname "$python")" && pwd)/$(basename "$python")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Wheels of copies, so that no build folder is left behind, and none of before is packed.
mkdir "$folder/sources"
git ls-files -z framework plugins pyproject.toml README.md LICENSE | tar --null -T - -cf - | tar -xf - -C "$folder/sources"
for source in "$folder/sources" "$folder/sources/framework/penchant_numerics" "$folder"/sources/plugins/penchant-*; do
  "$python" -m build --wheel --no-isolation --outdir "$folder/wheels" "$source" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
done
echo "$(ls "$folder/wheels" | wc -l) wheels, $(du -sk "$folder/wheels" | cut -f1) kB"

# Installed where there is nothing else of ours.
"$python" -m venv --without-pip "$folder/clean"
clean="$folder/clean/bin"
"$python" -m pip --python "$clean/python" install --quiet --disable-pip-version-check --no-index --no-deps "$folder"/wheels/*.whl
packages="import sysconfig; print(sysconfig.get_path('purelib'))"
"$python" -c "$packages" >"$("$clean/python" -c "$packages")/libraries.pth"

cd "$folder/wheels"
"$clean/penchant" plugins --json >"$folder/plugins.json"
"$clean/python" - "$folder/plugins.json" <<'PYTHON'
import importlib.metadata
import json
import sys
import sysconfig
from pathlib import Path

import penchant

place = sysconfig.get_path("purelib")
assert Path(penchant.__file__).is_relative_to(place), penchant.__file__
installed = {each.name: each for each in importlib.metadata.distributions(path=[place])}
for name, each in installed.items():
    files = {path.name for path in each.files}
    assert {"LICENSE", "py.typed"} <= files, (name, sorted(files))
plugins = json.loads(Path(sys.argv[1]).read_text())
loaded = {each["distribution"] for each in plugins if each["status"] == "loaded"}
libraries = {"penchant", "penchant-numerics", "penchant-testing", "penchant-lightning"}
assert set(installed) - libraries <= loaded, (sorted(installed), plugins)
extras = set(importlib.metadata.metadata("penchant").get_all("Provides-Extra"))
lacking = {name.removeprefix("penchant-") for name in installed} - extras - {"penchant", "example"}
assert not lacking, f"no extra installs {lacking}"
print(f"{len(installed)} distributions, every entry point found")
PYTHON
"$clean/penchant" list probes | tail -1
"$clean/penchant" probe nad -a logistic --shape 1,4,4 -o networks=8 --executor serial --out "$folder/run" 2>/dev/null
test -s "$folder/run/report.html"
