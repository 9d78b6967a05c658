# Each target sets up all it needs on a fresh machine with Python 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-browser test-wheel faults dist docs lint types tests clean

demo: $(VENV)/.demo
	$(BIN)/depthlr demo

test: lint types tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

tests: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# Its own target: it needs a browser, and fails where none can be had.
test-browser: $(VENV)/.browser
	command -v chromium || command -v chromium-browser || { apt-get update -q && apt-get install -y -q chromium; }
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/browser

# Kills, full disks, lost workers and damaged files, for about ten minutes.
faults: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.faults

# The documentation site, in build/site.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# A release: wheel and sdist in dist/.
dist: $(VENV)/.dev
	$(PIP) build
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# The wheel alone, in a fresh environment without development extras: README's Python, and two verbs.
test-wheel: dist
	rm -rf build/wheel-venv
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/pip install -q --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && wheel-venv/bin/python ../tests/test_readme.py
	cd build && wheel-venv/bin/depthlr transfer --rate 1e-3 --from 10 --to 20
	cd build && wheel-venv/bin/depthlr demo --steps 12 --seeds 1

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(PIP) -e '.[browser]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) -e '.[docs]'
	touch $@

# timm asks for torchvision, whose wheels ask for a CUDA build of torch; depth counting needs neither.
$(VENV)/.dev: $(VENV)/.demo
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps timm torchvision
	touch $@
