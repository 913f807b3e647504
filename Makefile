# One command for everything; each makes .venv by itself. PYTHON chooses the interpreter it is made with.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
P ?= example
DEVICE ?= cuda
PROCESSES ?= 1
SHELL := /bin/bash
# Tests start many processes, which must not compile everything again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo errors test test-slow test-lowest test-cuda check bench golden calibration soak sweep fuzz test-plugin wheels template docs pages gallery atlas format clean

$(VENV)/.installed: requirements.txt constraints.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -r requirements.txt
	touch $@

demo: $(VENV)/.installed  ## what three networks prefer, as a report
	$(BIN)/penchant run examples/quickstart.toml

test: $(VENV)/.installed  ## all tests but the slow ones, two at a time, a thread each
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

test-slow: $(VENV)/.installed  ## all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not bench"

test-lowest:  ## the oldest versions that the distributions declare, in an environment of its own
	@bash tests/tools/lowest.sh $(PYTHON)

test-cuda: $(VENV)/.installed  ## every probe and kernel on a GPU, or with DEVICE=emulated-cuda without one: a verdict, and tables
	@$(BIN)/python tests/tools/cuda_verdict.py --device $(DEVICE) --processes $(PROCESSES)

check: $(VENV)/.installed  ## lint, format, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo || $(BIN)/lint-imports

bench: $(VENV)/.installed  ## timings side by side, as ratios; on an idle machine
	@failed=0; for file in tests/benchmarks/bench_*.py; do echo "== $$file"; start=$$SECONDS; \
	  $(BIN)/python $$file || { echo "failed: $$file"; failed=1; }; echo "   $$((SECONDS - start)) s"; done; exit $$failed

golden: $(VENV)/.installed  ## numbers of every quick preset and the public surface, compared with what is stored
	$(BIN)/python tests/tools/golden.py

calibration: $(VENV)/.installed  ## what share is significant without an effect, for every kind of null; power; ten minutes
	OMP_NUM_THREADS=1 $(BIN)/python tests/tools/significance_calibration.py

errors: $(VENV)/.installed  ## stated errors beside the spread over 24 seeds, all probes; about an hour, resumes
	OMP_NUM_THREADS=1 $(BIN)/python tests/tools/error_table.py

soak: $(VENV)/.installed  ## ten minutes of kills, on Ray and in processes; at the end every number is the serial run's
	$(BIN)/python tests/tools/soak.py --kills 60 --seconds 600

sweep: $(VENV)/.installed  ## a crash before and after every file operation of a run, each resumed to the same bytes
	OMP_NUM_THREADS=1 $(BIN)/python tests/tools/sweep.py

fuzz: $(VENV)/.installed  ## damaged experiments, run folders, checkpoints and command lines, a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python tests/tools/fuzz.py

test-plugin:  ## kernel and one plugin alone in a fresh environment: make test-plugin P=nad
	@bash tests/tools/alone.sh $(P) $(PYTHON)

wheels: $(VENV)/.installed  ## install as people do: wheels of everything in a clean environment
	@OUT=$(OUT) bash tests/tools/wheels.sh $(BIN)/python

template:  ## what `penchant new plugin` writes, from plugins/penchant-example
	$(BIN)/python -c "from pathlib import Path; from penchant_tools.template import packed; Path('plugins/penchant-tools/src/penchant_tools/template.txt').write_text(packed(Path('plugins/penchant-example')))"

$(VENV)/.docs: $(VENV)/.installed docs/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r docs/requirements.txt
	touch $@

docs: $(VENV)/.docs  ## the site, warnings are errors: build/site/index.html opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/make/search_check.py

pages: $(VENV)/.installed  ## generated pages again: catalogue, gallery, atlas, tables of README
	$(BIN)/python docs/make/gallery.py
	$(BIN)/python docs/make/atlas.py
	$(BIN)/python docs/make/examples.py
	$(BIN)/python docs/make/catalogue.py

atlas: $(VENV)/.installed  ## what forty architectures prefer: runs examples/atlas.toml, writes docs/atlas
	-OMP_NUM_THREADS=1 $(BIN)/penchant run examples/atlas.toml --out runs/atlas
	$(BIN)/python docs/make/atlas.py runs/atlas

gallery: $(VENV)/.installed  ## what the papers claim and what comes out here: runs what is missing, writes the pages
	OMP_NUM_THREADS=1 $(BIN)/python docs/make/measure.py docs/gallery/runs.toml runs/gallery
	$(BIN)/python docs/make/gallery.py runs/gallery

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache
