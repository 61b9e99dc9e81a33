# `make demo` runs the main job; `make test` every test. Both set up .venv by themselves.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help setup demo test check format stubs bench clean

help:           ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY) ## the virtual environment, with everything

$(READY): pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || true
	@if $(BIN)/python -m uv --version >/dev/null 2>&1; then \
	    $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock \
	    && $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-deps -e . ; \
	else \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock \
	    && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . ; \
	fi
	@touch $@

demo: $(READY)  ## the main job, both sides, on a real survey; leaves demo/
	@$(BIN)/python -m examples.demo

test: $(READY)  ## every test, with coverage of the core
	@$(BIN)/python -m coverage run -m pytest
	@$(BIN)/python -m coverage report

check: $(READY) ## lint, format, types, protos, containers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/buf lint
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	@$(BIN)/hadolint controller_service/Dockerfile analyst_client/Dockerfile

format: $(READY) ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

stubs:          ## the stubs of protos/, anew
	@./protos/generate

bench: $(READY) ## every benchmark, at full length
	@for name in count ipf audit stream; do $(BIN)/python -m benchmarks.$$name || exit 1; done

clean:          ## everything that was made here
	rm -rf $(VENV) .venv-stubs demo dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
