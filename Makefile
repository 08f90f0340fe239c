# Everything a newcomer or a contributor types. Each target does its own set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
# The build finds its tools there.
export PATH := $(CURDIR)/$(BIN):$(PATH)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SOURCES := $(shell git ls-files 'crates/*.rs' 'crates/*.sql' 'crates/*.toml' Cargo.toml Cargo.lock pyproject.toml)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package with its engine, editable, from locked requirements.
$(VENV)/.installed: requirements.txt $(SOURCES) | $(BIN)/python
	$(PIP) -r requirements.txt
	@echo building the load engine
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(PIP) -r requirements-dev.txt
	@touch $@

.PHONY: demo
demo: $(VENV)/.installed ## Investigate a server started by pgdyno: three to four minutes
	$(BIN)/pgdyno demo --budget $(BUDGET)

BUDGET ?= 2min

.PHONY: test
test: $(VENV)/.installed-dev ## Run all tests, on real servers
	$(CARGO) test --workspace --quiet
	$(BIN)/python tests/second_chance.py -m "not exam" --numprocesses $(WORKERS) --dist loadfile

# Most tests wait for servers and disks, so there may be more of them than cores.
WORKERS ?= 3

.PHONY: exam
exam: $(VENV)/.installed-dev ## Tests with injected bottlenecks, for a quiet machine
	$(BIN)/python -m pytest tests/exam

.PHONY: wheel
wheel: $(VENV)/.installed ## Build the package as a wheel, in dist/
	rm -rf dist
	$(PIP:install=wheel) --no-deps --no-build-isolation --wheel-dir dist .

.PHONY: lint
lint: $(VENV)/.installed-dev ## Check formatting, lint and types, Python and Rust
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

.PHONY: bench
bench: $(VENV)/.installed-dev ## Compare pgdyno with its peers, in pairs: about 30 minutes
	$(BIN)/python -m benches $(BENCH)

# Each program says how to repeat what it found.
.PHONY: fuzz
fuzz: $(VENV)/.installed-dev ## Fuzz run files, specs, command lines, streams, signals; a minute each
	for each in $(FUZZ); do \
	    $(BIN)/python tests/fuzz/$$each.py --seconds $(FUZZ_SECONDS) $(FUZZ_SEED:%=--seed %) || exit 1; \
	done
	PROPTEST_CASES=$(FUZZ_CASES) $(CARGO) test -p pgdyno-wire --test protocol --quiet

FUZZ ?= run_files specs command_lines streams signals
FUZZ_SECONDS ?= 60
# A number, to see the same again; a new one each time without.
FUZZ_SEED ?=
FUZZ_CASES ?= 5000

.PHONY: docs
docs: $(VENV)/.installed ## Regenerate the reference pages and the schemas
	$(BIN)/python docs/generate.py

.PHONY: clean
clean: ## Remove build results
	rm -rf $(VENV) dist target fuzz/target src/pgdyno/*.so
