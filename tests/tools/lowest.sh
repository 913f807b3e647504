#!/usr/bin/env bash
# Do the lower bounds hold? Install the oldest versions of what the distributions declare (torch and what others need
# in turn stay as in constraints.txt where they can) into an environment of its own, and run the tests there.
#     make test-lowest            TESTS="tests/kernel" limits it
set -euo pipefail
cd "$(dirname "$0")/../.."
python="${1:-python3}"
folder="${LOWEST:-build/lowest}"
mkdir -p "$folder"
[ -x "$folder/venv/bin/python" ] || "$python" -m venv "$folder/venv"
pip=("$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" -c constraints.txt setuptools packaging
"${pip[@]}" uv
grep '^torch==' constraints.txt >"$folder/torch.txt"
"$folder/venv/bin/uv" pip compile --quiet --no-header --no-annotate --resolution lowest-direct -c "$folder/torch.txt" \
  requirements.txt --output-file "$folder/all.txt"
# pip finds the build of torch for CPUs, which needs none of CUDA's packages.
grep -vE '^(-e|nvidia-|cuda-|triton)' "$folder/all.txt" >"$folder/constraints.txt"
"${pip[@]}" --no-build-isolation -c "$folder/constraints.txt" -r requirements.txt
"$folder/venv/bin/python" -m pip list --disable-pip-version-check --format=freeze >"$folder/installed.txt"
echo "$(grep -c == "$folder/installed.txt") packages: $(grep -E '^(attrs|click|numpy|pandas|scipy|torch|transformers)==' "$folder/installed.txt" | tr '\n' ' ')"
# Old libraries beside new ones warn of each other, so that warnings are no errors here.
# shellcheck disable=SC2086  # several tests
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -m pytest -q -n "${PROCESSES:-2}" --dist worksteal -W default ${TESTS:-}
