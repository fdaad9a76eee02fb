# Needs Python 3.11 or newer, and make. Everything else is installed into .venv.

PYTHON ?=
SUITE ?= claims
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
SERVING := $(VENV)/.serving
# Serving needs six packages of the hundred that the tests need. Where those are there, they do.
SERVER := $(if $(wildcard $(READY)),$(READY),$(SERVING))
SOURCES := src tests verification benchmarks docs/provider_page examples

# Thousands of processes are started; with it, each would compile duly and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run demo test test-quick test-wide test-full check format docs bench fuzz crash crash-quick setups setups-quick power simulate mutants upgrade storm storm-jobs storm-outbox clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(SERVER) ## set up and serve the sample shop on SQLite; ARGS="--port 9000" for duly serve
	@$(BIN)/duly serve examples/shop/app.py:app $(ARGS)

demo: $(SERVER) ## 20 seconds of webhooks while processes are killed with -9; then the books
	@$(BIN)/duly demo $(ARGS)

test: $(READY) ## set up, bring up real servers, run the tests here and on other Pythons; ARGS= for pytest
	@$(BIN)/python -m tests.support.servers --memory -- $(BIN)/python -m tests.support.everywhere $(ARGS)

test-quick: $(READY) ## the part that must hold for every user and release of Python; two minutes
	@$(BIN)/python -m tests.support.servers --memory -- $(BIN)/python -m tests.support.everywhere --quick

test-wide: $(READY) ## what make test leaves out: more drivers, providers and servers of the same, whole applications
	@DULY_WIDE=1 DULY_TEST_PYTHONS=main $(BIN)/python -m tests.support.servers --memory -- $(BIN)/python -m tests.support.everywhere $(ARGS)

test-full: $(READY) ## the same in its long form: full products, more examples, storms; an hour
	@DULY_LONG=1 $(BIN)/python -m tests.support.servers --memory -- $(BIN)/python -m tests.support.everywhere $(ARGS)

check: $(READY) ## ruff, mypy --strict, import-linter: no database, about a minute
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy --strict $(SOURCES)
	$(BIN)/lint-imports

format: $(READY) ## write the sources the way check wants them
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(READY) ## write the page of all providers from their profiles
	@$(BIN)/python -m docs.provider_page > $(VENV)/providers.md
	@mv $(VENV)/providers.md docs/providers.md

bench: $(READY) ## SUITE=claims, verify, ingest, rejections, jobs, outbox or growth: ratios in one run, JSON last; ARGS=
	@$(if $(filter verify,$(SUITE)),,$(BIN)/python -m tests.support.servers --) \
	  $(BIN)/python -m benchmarks $(SUITE) $(ARGS)

fuzz: $(READY) ## fuzz the signature schemes, 20 s each; ARGS="hmac --seconds 600" for one and longer
	@$(BIN)/python -c 'import atheris' 2>/dev/null \
	  || $(BIN)/python -m pip install -qq --disable-pip-version-check --only-binary :all: 'atheris>=3' \
	  || { echo "make: no atheris for $$($(BIN)/python -V): it has wheels for CPython 3.11 to 3.14" \
	    "on Linux; make clean, then make fuzz PYTHON=python3.11" >&2; exit 1; }
	@$(BIN)/python -m verification.fuzz $(ARGS)

crash: $(READY) ## the crash matrix: every statement and fault on every store; an hour and a half
	@$(BIN)/python -m tests.support.servers --memory pgbouncer -- $(BIN)/python -m verification.crash_matrix --pairs 20 --lanes 5 $(ARGS)

crash-quick: $(READY) ## the part of it that CI runs: every statement, one fault on each side; minutes
	@$(BIN)/python -m tests.support.servers --memory pgbouncer -- $(BIN)/python -m verification.crash_matrix --quick --lanes 4 $(ARGS)

setups: $(READY) ## every documented set-up, a minute each, calm and in a storm of faults; hours
	@$(BIN)/python -m tests.support.servers --memory postgres -- $(BIN)/python -m verification.setups --faults none --faults storm $(ARGS)

setups-quick: $(READY) ## the part of it that CI runs: the common set-ups, seconds each
	@$(BIN)/python -m tests.support.servers --memory postgres -- $(BIN)/python -m verification.setups --quick --lanes 3 $(ARGS)

power: $(READY) ## what a power cut may leave behind, state by state; needs strace and loop devices
	@$(BIN)/python -m verification.power_loss sqlite $(ARGS) || [ $$? -eq 3 ]
	@$(BIN)/python -m verification.power_loss postgres $(ARGS) || [ $$? -eq 3 ]

simulate: $(READY) ## 100,000 schedules, seed by seed, on a virtual clock; half an hour
	@$(BIN)/python -m verification.simulation --schedules 100000 --processes $$(getconf _NPROCESSORS_ONLN) $(ARGS)

mutants: $(READY) ## plant every known bug in a copy, and see that the proofs turn red; minutes
	@$(BIN)/python -m verification.mutation $(ARGS)

upgrade: $(READY) ## the release before and this one, as wheels, on one database under load; needs git history
	@$(BIN)/python -m verification.upgrade $(ARGS) || [ $$? -eq 3 ]

storm: $(READY) ## 1,000,000 deliveries on PostgreSQL, 200,000 on SQLite, in a storm of faults; an hour
	@$(BIN)/python -m tests.demo postgres --deliveries 1000000 --workers 4 --seed 1 --report docs/storms/postgres.md $(ARGS)
	@$(BIN)/python -m tests.demo sqlite --deliveries 200000 --workers 4 --seed 1 --report docs/storms/sqlite.md $(ARGS)

storm-jobs: $(READY) ## 20,000 jobs of every kind while workers are killed, on each store; minutes
	@DULY_LONG=1 DULY_STORM_JOBS=20000 $(BIN)/python -m tests.support.servers -- \
	  $(BIN)/python -m pytest tests/worker/faults/test_storms.py -k killed_at_random $(ARGS)

storm-outbox: $(READY) ## 5,000 messages from one app to another while both are killed, on each store; minutes
	@DULY_LONG=1 DULY_STORM_MESSAGES=5000 $(BIN)/python -m tests.support.servers -- \
	  $(BIN)/python -m pytest tests/relay/faults/test_two_apps.py $(ARGS)

clean: ## remove the environments, the caches and what was built
	rm -rf .venv .venv-* .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -rf .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Asked to run, not only looked up: a shim on PATH may stand for a Python that is not there.
# Prints the first candidate that is new enough and can make environments.
define find_python
for python in $(if $(PYTHON),'$(PYTHON)',python3 python3.14 python3.13 python3.12 python3.11 python \
    "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[1-9]*/bin/python3); do \
  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
  recent="$$python"; \
  "$$python" -c 'import ensurepip, venv' 2>/dev/null || continue; \
  break; \
done; \
if [ -z "$$recent" ]; then \
  echo "make: no Python 3.11 or newer found: install one, or name it with PYTHON=" >&2; exit 1; \
fi; \
if ! "$$recent" -c 'import ensurepip, venv' 2>/dev/null; then \
  echo "make: $$recent lacks venv: install it (Debian and Ubuntu: apt-get install python3-venv)" >&2; \
  exit 1; \
fi
endef

# An environment with pip in it; one that lost its Python is made anew.
define make_environment
if ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
  $(find_python); echo "make: $(VENV) from $$recent"; "$$recent" -m venv --clear $(VENV); \
fi
endef

PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

$(READY): pyproject.toml
	@$(make_environment)
	@echo "make: installing duly and what its tests need into $(VENV)"
	@$(PIP_INSTALL) --editable '.[all,dev]'
	@touch $(READY)

$(SERVING): pyproject.toml
	@$(make_environment)
	@echo "make: installing duly and what serving needs into $(VENV)"
	@$(PIP_INSTALL) --editable '.[serve,http]'
	@touch $(SERVING)
