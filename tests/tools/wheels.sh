#!/usr/bin/env bash
# Install as people do: wheels of the kernel and of every plugin in a clean environment, where nothing of this folder can
# be imported. Libraries such as torch are those of the environment whose python is given: its folder of packages is
# added, but not the editable installs of this repository, which only a path file of its own leads to.
# OUT names a folder that the wheels are copied to.
set -euo pipefail
python="${1:-.venv/bin/python}"
python="$(cd "$(dirname "$python")" && pwd)/$(basename "$python")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Wheels of copies, so that no build folder is left behind, and none of before is packed.
mkdir "$folder/sources"
git ls-files -z framework plugins pyproject.toml docs/registry.md LICENSE | tar --null -T - -cf - | tar -xf - -C "$folder/sources"
# Times in them are that of the commit: the same sources give the same bytes, which a second build shows.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
build() {
  cp -r "$folder/sources" "$folder/$1.sources"
  for source in "$folder/$1.sources" "$folder/$1.sources/framework/penchant_numerics" "$folder/$1.sources"/plugins/penchant-*; do
    "$python" -m build --wheel --no-isolation --outdir "$folder/$1" "$source" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  done
}
build wheels
build again
diff <(cd "$folder/wheels" && sha256sum -- *.whl) <(cd "$folder/again" && sha256sum -- *.whl) \
  || { echo "the same sources gave other wheels"; exit 1; }
echo "$(ls "$folder/wheels" | wc -l) wheels, $(du -sk "$folder/wheels" | cut -f1) kB, the same bytes twice"
[ -z "${OUT:-}" ] || { mkdir -p "$OUT" && cp "$folder"/wheels/*.whl "$OUT"; }

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
"$clean/penchant" probe nad -a lenet --shape 1,16,16 --out "$folder/run" 2>/dev/null
test -s "$folder/run/report.html"
"$clean/penchant" card mlp:widths=[20] -d digits --minutes 0.3 --seeds 2 --out "$folder/card"
test -s "$folder/card/card.html"
