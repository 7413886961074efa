# Every command of the project. It needs Python 3.11 or newer and make; the rest goes into .venv.

PYTHON ?= python3
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The locked versions, so that a release of a dependency changes nothing here before `make lock`.
INSTALL := $(PIP) install --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve check demo test bench fuzz soak screenshot lock format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

serve: $(VENV)/runtime ## run the proxy; settings in ARGS="--store-url ..." or REPLAY_* variables
	@exec $(BIN)/reasoning-replay serve $(ARGS)

check: $(VENV)/runtime ## tell whether settings, upstream and store are fit to serve
	@$(BIN)/reasoning-replay check $(ARGS)

demo: $(VENV)/runtime ## show reasoning dropped and injected, without a key or a network
	@$(BIN)/reasoning-replay demo

# One recipe, so that -j cannot run the checks beside tests that measure time.
test: $(VENV)/dev ## all that CI asks: format, lint, types, import floors, tests, core coverage
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n 2 --cov --cov-report=term-missing

bench: $(VENV)/dev ## measure speed against nginx and a bare proxy; ARGS="--quick small stream" for less
	@$(BIN)/python -m tests.bench $(ARGS)

fuzz: $(VENV)/fuzz ## look for inputs that break a promise, a quarter of an hour; ARGS="--seconds 600 sse rows"
	@$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/dev ## half an hour of mixed load while Redis and upstream fail; ARGS="--minutes 2"
	@$(BIN)/python -m tests.soak $(ARGS)

screenshot: $(VENV)/dev ## take the pictures of the inspector anew, for this README (needs chromium)
	@$(BIN)/python -m tests.browser

# The newest versions that pyproject.toml allows, for every system. The image is built from the two
# locks with hashes. constraints.txt has all extras and no hashes: pip refuses those for an editable
# install.
LOCKED := $(BIN)/uv pip compile --quiet --upgrade --universal --no-header

lock: $(VENV)/dev ## renew the locked versions: requirements.lock, requirements-build.lock, constraints.txt
	@$(PIP) install 'uv>=0.11'
	$(LOCKED) --generate-hashes --extra otel --output-file requirements.lock pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build.in
	$(LOCKED) --generate-hashes --no-annotate --python-version 3.11 --output-file requirements-build.lock $(VENV)/build.in
	$(LOCKED) --no-annotate --strip-extras --all-extras --constraint requirements.lock --output-file constraints.txt pyproject.toml

format: $(VENV)/dev ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) dist .coverage .fuzz .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find proxy tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: made anew when a dependency has changed, and then from an empty folder.
$(VENV)/runtime: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.13" >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) .
	@touch $@

$(VENV)/dev: $(VENV)/runtime
	@echo "installing the development tools ..."
	@$(INSTALL) '.[dev]'
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@echo "installing the fuzzer ..."
	@$(INSTALL) '.[fuzz]'
	@touch $@
