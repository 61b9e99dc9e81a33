# `make demo` runs the main job; `make test` the tests before a commit, `make test-all` every test.
# All set up .venv by themselves.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOCK   := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" pyproject.toml

SBOM   := $(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible

.DEFAULT_GOAL := help
.NOTPARALLEL: # both parts of the tests would share the cores
unexport PYTHONDONTWRITEBYTECODE # each process of the tests would compile all modules anew
.PHONY: help setup deep spark demo test test-rest test-all mutation check format stubs docs lock sbom images bench clean

help:           ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: $(READY) ## the virtual environment, with everything that requirements.lock names

# By uv where the registry has it, else by pip: the same lock, the same hashes.
$(READY): pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@if test -x $(BIN)/uv; then \
	    install="$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python"; \
	else \
	    install="$(BIN)/python -m pip install --quiet --disable-pip-version-check"; \
	fi; \
	$$install --require-hashes -r requirements.lock && $$install --no-deps --no-build-isolation -e .
	@touch $@
	@echo "Ready. To have gencard and gencard-controller on the path: . $(BIN)/activate"

# Not in the lock: which build of torch fits depends on the machine. Its version is in pyproject.toml.
deep: $(READY)  ## torch, for the black boxes ctgan and pate-gan, into the environment
	@torch=$$(grep -oE 'torch==[0-9.]+' pyproject.toml) && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check "$$torch"

spark: $(READY) ## pyspark, which needs Java, for records in Spark, into the environment
	@pyspark=$$(grep -oE 'pyspark\[connect\]==[0-9.]+' pyproject.toml) && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check "$$pyspark"

demo: $(READY)  ## the main job, both sides, on a real survey; leaves demo/; VERBOSE=1 shows cards and audits in full
	@VERBOSE=$(VERBOSE) $(BIN)/python -m examples.demo

test: $(READY)  ## the tests that need only Python, in a quarter of the time of all: run them before a commit
	@$(BIN)/python -m tests.parts first

test-rest: $(READY) ## the tests that `make test` leaves out: services, databases, pages, R, attacks, long laws
	@$(BIN)/python -m tests.parts rest

test-all: test test-rest ## every test, with coverage of the core, analysis and measures

mutation: $(READY) ## 60 deliberate defects, of which the tests must notice 57
	@$(BIN)/python -m tests.mutation

check: $(READY) ## lint, format, types, protos, containers, manifests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/buf lint
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	@$(BIN)/kubernetes-validate --strict --quiet deploy/kubernetes/controller.yaml
	@$(BIN)/hadolint controller_service/Dockerfile analyst_client/Dockerfile

format: $(READY) ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

stubs:          ## the stubs of protos/, anew
	@./protos/generate

docs: $(READY)  ## the pages that are made from code, anew
	@$(BIN)/python -m docs.errors
	@$(BIN)/python -m docs.examples
	@$(BIN)/python -m docs.help
	@$(BIN)/python -m docs.house --write-tree
	@$(BIN)/python -m docs.reference

lock: $(READY)  ## newest versions of everything, with hashes
	@$(LOCK) --upgrade --extra controller --extra files --extra ibis --extra page --extra parquet --extra report --extra utility --group dev --group demo -o requirements.lock
	@$(LOCK) --constraints requirements.lock --extra controller --extra files --extra ibis --extra page -o controller_service/requirements.lock
	@$(LOCK) --constraints requirements.lock --extra files --extra parquet --extra report --extra utility -o analyst_client/requirements.lock

sbom: $(READY)  ## lists of all packages, with hashes, in CycloneDX: dist/*.cdx.json; needs no network
	@mkdir -p dist
	@for lock in requirements.lock controller_service/requirements.lock analyst_client/requirements.lock; do \
	    folder=$$(dirname $$lock | sed 's/^\.$$/gencard/'); \
	    $(SBOM) --output-file dist/$$folder.cdx.json $$lock || exit 1; \
	done

images:         ## both images, on a base of Debian's packages, and the story in them; as root, needs buildah
	@deploy/images

bench: $(READY) ## every benchmark: its seconds, and whether its targets are met
	@$(BIN)/python -m benchmarks

clean:          ## everything that was made here
	rm -rf $(VENV) .venv-stubs .venv-peers* demo dist .coverage* .parts.json .mypy_cache .pytest_cache .ruff_cache .hypothesis
