# Each target makes the virtual environment it needs. PYTHON=… chooses another Python, EXTRAS=… other extras.

VENV ?= .venv
EXTRAS ?= dev,train
DEMO_FLAGS ?=
FIND_PYTHON = for candidate in python3 python3.13 python3.12 python3.11; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$candidate; exit; fi; done
PYTHON ?= $(shell $(FIND_PYTHON))
BIN = $(VENV)/bin
BASE = $(VENV)/.installed
DEV = $(VENV)/.installed-$(EXTRAS)

.PHONY: demo .demo test slow parity .parity lint bench clean

demo:  ## train, pick and measure on a synthetic web: 10 minutes
	@$(MAKE) --no-print-directory EXTRAS=train,studies .demo

.demo: $(DEV)
	@$(BIN)/webgpt demo $(DEMO_FLAGS)

test: $(DEV)  ## everything but the long tests
	$(BIN)/python -m pytest -m "not slow"

slow: $(DEV)  ## the long tests
	$(BIN)/python -m pytest -m slow

parity:  ## our logits beside those of transformers, live
	$(MAKE) EXTRAS=dev,train,parity .parity

.parity: $(DEV)
	$(BIN)/python -m pytest tests/parity

lint: $(DEV)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)  ## the figures of the README, measured here
	$(BIN)/python -m experiments.bench_web

clean:
	rm -rf $(VENV) build *.egg-info

$(BASE): setup.py
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(DEV): $(BASE)
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@
