# Every command of the project. Only Python 3.11 or newer and make are needed; all else goes into .venv.

PYTHON ?= python3
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Locked versions: a new release of a dependency is used only after `make lock`.
INSTALL := $(PIP) install --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve check demo playground test test-all bench fuzz soak screenshot dist release-check image lock format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

serve: $(VENV)/runtime ## run the proxy; settings in ARGS="--store-url ..." or REPLAY_* variables
	@exec $(BIN)/reasoning-replay serve $(ARGS)

check: $(VENV)/runtime ## check settings, ports, upstream and store, with a way out for each problem
	@$(BIN)/reasoning-replay check $(ARGS)

demo: $(VENV)/runtime ## show an agent with and without the proxy; needs no key and no network
	@$(BIN)/reasoning-replay demo

playground: $(VENV)/runtime ## run a scripted API, the proxy, the inspector and some agents; needs no key and no network
	@exec $(BIN)/reasoning-replay demo --serve

# Faults of real servers, which wait for failovers, and tests of the tests' own tools and of the
# packaging: `make test` leaves them to `make test-all`.
APART := $(addprefix tests/,bench browser chart faults fuzz image monitoring soak)
# Three times as many as two cores: the product's tests mostly wait for sockets and processes. Those
# of the core never wait, so more workers than cores would only import everything once more.
WORKERS ?= 6

# Compiled modules are kept, also where the environment forbids it: each worker would compile all.
test test-all: export PYTHONDONTWRITEBYTECODE :=
# For `test` too, which is a part of it: every combination, and all random examples.
test-all: export REPLAY_TEST_ALL := 1

# One recipe, so that -j cannot run the checks in parallel with tests that measure time.
test: $(VENV)/dev ## format, lint, spelling, types, imports, tests of the product, core coverage
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto --maxprocesses $(WORKERS) --durations 5 --cov --cov-report=term-missing tests/core
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 10 --ignore tests/core $(APART:%=--ignore %)

test-all: $(VENV)/langchain test ## the rest as well: every combination and example, bench, fuzz, soak, chart, browser, image
	$(BIN)/pytest -n 2 $(APART)

bench: $(VENV)/dev ## measure speed against nginx and a bare proxy; ARGS="--quick small stream" for less
	@$(BIN)/python -m tests.bench $(ARGS)

fuzz: $(VENV)/fuzz ## search for inputs that break a promise, for ten minutes; ARGS="--seconds 600 sse document"
	@$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/dev ## half an hour of mixed load while Redis and upstream fail; ARGS="--minutes 2"
	@$(BIN)/python -m tests.soak $(ARGS)

screenshot: $(VENV)/dev ## take the pictures of the inspector for the README again (needs chromium)
	@$(BIN)/python -m tests.browser

dist: $(VENV)/backend ## build the source distribution, the wheel and, with helm, the chart package into dist/
	@rm -rf dist
	$(VENV)/backend/bin/python -m hatchling build -d dist
	@if command -v helm >/dev/null; then helm package helm --destination dist; \
	else echo "make dist: no chart package, because helm is not installed" >&2; fi

release-check: ## rehearse a release: build, install each artifact, check the page of the index, the chart and the workflows
	@PYTHON=$(PYTHON) .ci/release check

# Needs a builder that is not the engine itself: docker buildx create --use --driver docker-container.
# BuildKit sets the date of the image, and every later time in a layer, to that of the Dockerfile. An
# attestation would have the time of the build.
IMAGE  ?= reasoning-replay
OUTPUT ?= type=docker

image: ## build the image with the same digest each time; OUTPUT=type=registry IMAGE=HOST/NAME:TAG pushes it
	docker buildx build --build-arg SOURCE_DATE_EPOCH=$(shell sed -n 's/^ARG SOURCE_DATE_EPOCH=//p' Dockerfile) \
	  --provenance=false --sbom=false --tag $(IMAGE) --output $(OUTPUT),rewrite-timestamp=true $(ARGS) .

# The newest versions that pyproject.toml allows, for every system. The image is built from the two
# locks with hashes. constraints.txt has all extras and groups, and no hashes, because pip rejects
# hashes for an editable install.
LOCKED := $(BIN)/uv pip compile --quiet --upgrade --universal --no-header

lock: $(VENV)/dev ## update the locked versions: requirements.lock, requirements-build.lock, constraints.txt
	@$(PIP) install 'uv>=0.11'
	$(LOCKED) --generate-hashes --extra otel --output-file requirements.lock pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build.in
	$(LOCKED) --generate-hashes --no-annotate --python-version 3.11 --output-file requirements-build.lock $(VENV)/build.in
	$(LOCKED) --no-annotate --strip-extras --all-extras --group dev --group fuzz --group langchain --constraint requirements.lock --output-file constraints.txt pyproject.toml

format: $(VENV)/dev ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) dist .coverage .fuzz .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find proxy tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: made again when a dependency changes, and then from an empty folder.
$(VENV)/runtime: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.13" >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) .
	@touch $@

$(VENV)/dev: $(VENV)/runtime
	@echo "installing the development tools ..."
	@$(PIP) install 'pip>=25.1' # the first with dependency groups
	@$(INSTALL) '.[otel]' --group dev
	@touch $@

# The build backend alone, with the same locked versions as in the image.
$(VENV)/backend: requirements-build.lock
	@$(PYTHON) -m venv --clear $@
	@$@/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement $<
	@touch $@

$(VENV)/langchain: $(VENV)/dev
	@echo "installing LangChain for an end-to-end test ..."
	@$(INSTALL) . --group langchain
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@echo "installing the fuzzer ..."
	@$(INSTALL) . --group fuzz
	@touch $@
