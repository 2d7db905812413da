# Three commands do everything, set-up included: `make demo`, `make test` and `make docs`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start many processes: without bytecode each would compile all of fedhpo again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test tests test-matrix test-flower test-nvflare test-trackers release-check lint types docs clean

demo: $(VENV)/.installed
	$(BIN)/fedhpo tune examples/digits.toml

# Files of tests stay in memory where there is enough: most runs are durable, and waited for the disk.
ROOM := $(shell df --output=avail /dev/shm 2>/dev/null | tail -1)

# Lint and types are checked beside the tests, some of which wait for processes to start.
test: $(VENV)/.papers
	$(MAKE) --no-print-directory -j3 lint types tests

tests: $(VENV)/.papers
	# Two more than there are cores, for the same reason. One thread each.
	files=$$([ "$(ROOM)" -gt 4000000 ] 2>/dev/null && mktemp -d /dev/shm/fedhpo-tests.XXXX || mktemp -d); \
	trap 'rm -rf "$$files"' EXIT; \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist worksteal -n $$(($$(env -u OMP_NUM_THREADS nproc) + 2)) --basetemp="$$files/t" \
		--ignore tests/nvflare -m "not matrix"

# Every trainee at every place, workers, Ray and NVFlare included: some minutes.
test-matrix: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/matrix

# A deployment on this machine with TLS and node authentication: some minutes.
test-flower: $(VENV)/.installed
	$(BIN)/python tests/flower_deployment.py

# The tests of NVFlare's runtime, its simulator and a deployment with mutual TLS on this machine: some minutes.
test-nvflare: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/nvflare
	$(BIN)/python tests/nvflare_deployment.py

# Each tracker's own package with a local store, in an environment of its own: their pins conflict with ours.
test-trackers: $(VENV)/.installed
	$(BIN)/python tests/trackers/in_own_environments.py

# The documentation site, in build/site: notebooks executed, links checked, any warning an error.
docs: $(VENV)/.docs
	$(BIN)/python docs/_site/build.py

$(VENV)/.docs: $(VENV)/.papers
	$(BIN)/pip install --progress-bar on -c constraints.txt -e ".[docs]"
	touch $@

# Sdist and wheel built, installed into clean environments without extras and with each, tried; coverage.
release-check: $(VENV)/.papers
	$(BIN)/python benchmarks/release.py --coverage

lint: $(VENV)/.papers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python benchmarks/graph.py
	$(BIN)/python benchmarks/english.py

types: $(VENV)/.papers
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing: torch first (about 200 MB), then the rest; pip says how far it is"
	$(BIN)/pip install --progress-bar on -c constraints.txt torch==2.13.0
	$(BIN)/pip install --progress-bar on -c constraints.txt -e ".[dev]"
	touch $@

# The experiments, a project of their own.
$(VENV)/.papers: $(VENV)/.installed papers/pyproject.toml
	$(BIN)/pip install --progress-bar on -c constraints.txt -e ./papers
	touch $@

clean:
	rm -rf $(VENV) build dist
