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
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

# Enough for most of tests/unit, in half a minute from a clone; what a test lacks, it is skipped for.
QUICK := click hypothesis inline-snapshot jinja2 jsonschema msgspec prometheus-client psycopg psycopg-binary \
    pydantic pytest pytest-timeout pytest-xdist rich tomli-w
$(VENV)/.installed-quick: requirements.txt requirements-dev.txt | $(BIN)/python
	$(PIP) --no-compile --constraint requirements.txt --constraint requirements-dev.txt $(QUICK)
	@touch $@

.PHONY: quick
quick: $(VENV)/.installed-quick ## Run the unit tests that need no engine, without building it
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m pytest $(or $(TESTS),tests/unit)

.PHONY: demo
demo: $(VENV)/.installed ## Investigate a server started by pgdyno: three to four minutes
	$(BIN)/pgdyno demo --budget $(BUDGET)

BUDGET ?= 2min

# Most tests wait for servers and disks, so there may be more of them than cores.
WORKERS ?= 6

.PHONY: build
build: $(VENV)/.installed-dev ## Install pgdyno, and what contributors need, in .venv

.PHONY: test
test: test-crates test-package ## Run all tests, on real servers: about a quarter of an hour

# With --keep-going, both are run although the first fails.
.PHONY: test-crates
test-crates: build
	$(CARGO) test --workspace --quiet

.PHONY: test-package
test-package: build
	$(PLAY) $(TESTS)

PLAY := $(BIN)/python tests/second_chance.py \
    --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# Fewer of them: make test-package TESTS='tests/unit -k spec'
TESTS ?=

.PHONY: test-long
test-long: build ## Run the tests that take long on any machine
	$(PLAY) -m long $(TESTS)

.PHONY: test-versions
test-versions: build ## Run the server part of the tests on each of PostgreSQL 14 to 19 found
	$(BIN)/python tests/each_version.py --numprocesses $(WORKERS) --dist loadfile -q

.PHONY: exam
exam: exam-loads exam-grades ## Diagnoses of real loads and of injected faults, on a quiet machine: about 40 minutes

.PHONY: exam-loads
exam-loads: build
	$(BIN)/python -m pytest tests/quiet

.PHONY: exam-grades
exam-grades: build
	PYTHONPATH=tests $(BIN)/python -m exam --seeds $(SEEDS) --cells '$(CELLS)' --versions $(VERSIONS) $(EXAM)

.PHONY: exam-random
exam-random: build ## Causes and loads that are drawn from seeds, 25 seconds each: SEEDS=12 SEED=first KINDS='missing index'
	PYTHONPATH=tests $(BIN)/python -m exam.drawn --seeds $(SEEDS) --seed $(SEED) --kinds '$(KINDS)' --versions $(VERSIONS) $(EXAM)

.PHONY: exam-again
exam-again: build ## Diagnose and grade again what KEPT='DIR …' has of drawn exams, by the rules as they are now
	PYTHONPATH=tests $(BIN)/python -m exam.drawn.again $(KEPT)

.PHONY: exam-captures
exam-captures: build ## Capture seven loads, make them again, and compare both: LOADS='tpcb-like,orders' SECONDS=8 ROUNDS=8
	PYTHONPATH=tests $(BIN)/python -m exam.captures --loads '$(LOADS)' $(SECONDS:%=--seconds %) $(ROUNDS:%=--rounds %) $(EXAM)

LOADS ?= *
SECONDS ?=
ROUNDS ?=
KEPT ?= kept
SEEDS ?= 1
SEED ?= 1
KINDS ?= *
CELLS ?= *
VERSIONS ?= 18,15

.PHONY: wheel
wheel: $(VENV)/.installed ## Build the package as a wheel, in dist/
	rm -rf dist
	$(PIP:install=wheel) --no-deps --no-build-isolation --wheel-dir dist .

.PHONY: lint
lint: build ## Check formatting, lint and types, Python and Rust
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

.PHONY: bench
bench: build ## Compare pgdyno with its peers, in pairs: about 30 minutes
	$(BIN)/python -m benches $(BENCH)

.PHONY: simulate
simulate: build ## Coverage and false verdicts of the statistics, by simulation: under a minute
	$(BIN)/python -m benches.simulate

# Each program says how to repeat what it found.
.PHONY: fuzz
fuzz: build ## Fuzz run files, specs, command lines, streams, signals; property tests
	printf '%s\n' $(FUZZ) | xargs -P $(WORKERS) -I PROGRAM \
	    $(BIN)/python tests/fuzz/PROGRAM.py --seconds $(FUZZ_SECONDS) $(FUZZ_SEED:%=--seed %)
	PGDYNO_TESTS_EXAMPLES=$(FUZZ_CASES) $(BIN)/python -m pytest -q --numprocesses $(WORKERS) -m hypothesis tests/unit \
	    --hypothesis-profile search --hypothesis-seed $(FUZZ_EXAMPLES)
	PROPTEST_CASES=$(FUZZ_CASES) PROPTEST_RNG_SEED=$(FUZZ_EXAMPLES) \
	    $(CARGO) test --workspace --quiet

FUZZ ?= run_files specs command_lines streams signals
FUZZ_SECONDS ?= 60
# A number, to see the same again; a new one each time without.
FUZZ_SEED ?=
FUZZ_CASES ?= 1000
# Of property tests, which have the same examples each time in `make test`.
FUZZ_EXAMPLES := $(strip $(or $(FUZZ_SEED),$(shell od -An -N4 -tu4 /dev/urandom)))

.PHONY: docs
docs: $(VENV)/.installed ## Regenerate the reference pages and the schemas
	$(BIN)/python docs/generate.py

.PHONY: clean
clean: ## Remove build results
	rm -rf $(VENV) dist target fuzz/target src/pgdyno/*.so
