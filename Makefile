# Two commands do all the set-up on a machine that has Python 3.10 to 3.14 and make:
#
#   make demo    record a real training run, print its summary, serve the explorer
#   make test    install the test extras and pass the whole suite
#
# VENV=path uses another environment; a torch that it can import is kept.
# PYTHON=python3.12 chooses the interpreter of a new environment.
# SERVE=0 ends `make demo` after the summary; ARGS="--steps 100" reaches the demo itself.

VENV ?= .venv
PYTHON ?= python3
ARGS ?=
TESTS ?=
SERVE ?= 1

ifeq ($(SERVE),0)
override ARGS += --no-serve
endif

BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt tools/install.py

.PHONY: demo test test-ecosystem lint clean

demo: $(VENV)/.installed
	$(BIN)/neuron-explorer demo $(ARGS)

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(TESTS)

# Scripts of accelerate, peft, trl and diffusers on the emulated device; their newest releases.
test-ecosystem: $(VENV)/.installed-ecosystem
	$(BIN)/python -m pytest -m ecosystem tests/emulator_scripts

# Style, types and import rules; the suite checks the import rules too.
lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.installed: $(INPUTS)
	$(PYTHON) tools/install.py $(VENV)
	@touch $@

$(VENV)/.installed-test: $(INPUTS)
	$(PYTHON) tools/install.py $(VENV) --extra test
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-ecosystem: $(INPUTS)
	$(PYTHON) tools/install.py $(VENV) --extra test --extra ecosystem
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
