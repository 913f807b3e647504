#!/usr/bin/env bash
# Install the kernel and one plugin, nothing else, in a fresh environment, and run that plugin's tests: a shared
# environment would hide a dependency that the plugin does not declare. The line "tested with:" in a plugin's
# pyproject names the plugins that its tests (not its code) need.
set -euo pipefail
plugin="plugins/penchant-$1"
python="${2:-python3}"
[ -d "$plugin" ] || { echo "there is no $plugin; there are: $(ls plugins | sed 's/penchant-//' | tr '\n' ' ')" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
others=$(sed -n 's/^# tested with: *//p' "$plugin/pyproject.toml")
packages=(./framework/penchant_numerics . ./plugins/penchant-import ./plugins/penchant-report ./plugins/penchant-testing "./$plugin")
for other in $others; do packages+=("./plugins/penchant-$other"); done
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt setuptools pytest pytest-timeout
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --no-build-isolation -c constraints.txt "${packages[@]}"
"$folder/venv/bin/penchant" plugins
"$folder/venv/bin/python" -m pytest -q "$plugin/tests"
