#!/usr/bin/env bash
# Install the kernel and one plugin, nothing else, in a fresh environment, and run that plugin's tests: a shared
# environment would hide a dependency that the plugin does not declare. The line "tested with:" in a plugin's
# pyproject names plugins and packages that its tests (not its code) need.
set -euo pipefail
plugin="plugins/penchant-$1"
python="${2:-python3}"
[ -d "$plugin" ] || { echo "there is no $plugin; there are: $(ls plugins | sed 's/penchant-//' | tr '\n' ' ')" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
# Without compiling: most modules of the large packages are never imported.
install=("$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt)
packages=(./framework/penchant_numerics . ./plugins/penchant-import ./plugins/penchant-report ./plugins/penchant-testing "./$plugin")
for other in $(sed -n 's/^# tested with: *//p' "$plugin/pyproject.toml"); do
  if [ -d "plugins/penchant-$other" ]; then packages+=("./plugins/penchant-$other"); else packages+=("$other"); fi
done
"${install[@]}" setuptools pytest pytest-timeout
"${install[@]}" --no-build-isolation "${packages[@]}"
"$folder/venv/bin/penchant" plugins
"$folder/venv/bin/python" -m pytest -q "$plugin/tests"
