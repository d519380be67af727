# The everyday commands. Each sets up what it needs: a virtual environment in .venv, filled by pip.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test test-all lint format coverage matrix wheel bench interop crash fuzz load setup clean

help:
	@echo "make demo     make a sample dataset, look inside, read training batches"
	@echo "make test     run the tests that take few minutes"
	@echo "make test-all run all tests that need nothing else; what must pass before a change lands"
	@echo "make lint     check format, style, types and the direction of imports"
	@echo "make coverage run the tests and measure what they cover"
	@echo "make matrix   run the tests on other Pythons, without extras, with the lowest versions"
	@echo "make wheel    build the wheel and check it"
	@echo "make bench    run the benchmarks beside their peers"
	@echo "make interop  check against LeRobot itself, in an environment of its own"
	@echo "make crash    stop every writer at every call that changes a file, and check what is left"
	@echo "make fuzz     feed hostile bytes to every parser"
	@echo "make load     many threads, processes, files and interrupts at once"
	@echo "make setup    the environment alone, with all extras"
	@echo "make clean    remove what the other targets made"

setup: $(READY)

# torch comes first and pinned, so that the ranges of the extras find it already there.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py

# Each worker takes a stretch of files, so that what a file shares is made once.
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long and not slow and not load and not network and not interop"

test-all: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not load and not network and not interop"

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(READY)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not slow and not load and not network and not interop"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# make matrix ONLY="core-3.12 lowest-*" WORKERS=2; all names: python .ci/matrix.py --list
matrix:
	$(PYTHON) .ci/matrix.py --workers $(or $(WORKERS),auto) $(foreach name,$(ONLY),'$(name)')

wheel:
	PYTHON=$(PYTHON) .ci/check-wheel

bench: $(READY)
	$(BIN)/python -m benchmarks.peers setup
	$(BIN)/python -m benchmarks

interop: $(READY)
	$(BIN)/python -m benchmarks.peers setup
	$(BIN)/python -m pytest -m interop

# Needs gcc, on Linux. Goes on where it was stopped; all writes of long runs: ARGS=--every
crash: $(READY)
	$(BIN)/python -m pytest -n 0 --hypothesis-profile whole tests/frames/test_damaged_tables.py
	$(BIN)/python -m tests.faults --state .crash --counts docs/reliability.json $(ARGS)
	$(BIN)/python -m tests.measured

# make fuzz SECONDS=3600 ARGS='--only info.json'
fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --group fuzz || echo "atheris does not install here: mutations are random"
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600) $(ARGS)
	$(BIN)/python -m tests.measured

load: $(READY)
	$(BIN)/python -m pytest -n 0 -m load tests/project/test_load.py

clean:
	rm -rf $(VENV) .venv-peers* .matrix .crash .fuzz .coverage .coverage.* demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
