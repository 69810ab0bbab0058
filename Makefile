# Needs only make and a Python >= 3.11 with venv; everything else is installed into .venv.
#   make demo     one secure aggregation over a bundled table
#   make test     the test suite, notebooks included
#   make check    lint, format, types, import floors
# Another interpreter: make demo PYTHON=python3.13. Without the pins: make demo CONSTRAINTS=

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=

# The main job: 100 clients, each with the histogram of its part of the rows; a tenth drops out.
DEMO ?= privagg simulate secagg --data adult --column education \
	--clients 100 --dropout 0.1

BIN := $(VENV)/bin
PY := $(BIN)/python
PIN := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
PIP := $(PY) -m pip install -qq --disable-pip-version-check
# Code is installed in place, so that only a change of the requirements asks for a new install.
REQUIREMENTS := pyproject.toml $(CONSTRAINTS)
# Only its folder of pictures is read, by tests; none of what it needs is installed.
TEST_IMAGES := foolbox==3.3.4
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
# Workers share the cores: more threads in each would only get in the way.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -n $(PYTEST_WORKERS) --dist worksteal
MARKED := -n 0 --timeout 0 -v

# An environment of their own: peers pin versions of libraries that are ours, too.
PEERS_VENV ?= .venv-peers
PEERS := flwr python-flint gmpy2 galois
# multi-freq-ldpy and pure-ldp give strings to xxhash, and pure-ldp imports two more.
PEERS += multi-freq-ldpy pure-ldp statsmodels scikit-learn xxhash==3.5.0
# One part of `make bench`, or one area or claim of `make claims`: ONLY=prg, ONLY=sensor.
ONLY ?=

# An environment of its own: the compiler for CUDA takes 400 MB. Its version is that of the extra
# `gpu`; nvcc's wheel brings the assembler. No driver is needed.
PTX_VENV ?= .venv-ptx
PTX_TOOLS := numba-cuda==0.30.4 'nvidia-nvvm==13.0.*' 'nvidia-cuda-nvrtc==13.0.*' \
	'nvidia-cuda-nvcc==13.0.*' pytest pytest-timeout

.PHONY: help demo dev test check format sweep golden gpu ptx docs wheel-check release-check claims bench \
	bench-peers clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo         run the main job on a bundled table'
	@echo 'make test         run the tests and the notebooks (PYTEST_ARGS="-k name" selects)'
	@echo 'make check        ruff, mypy --strict, import-linter'
	@echo 'make format       let ruff rewrite'
	@echo 'make sweep        long sweeps'
	@echo 'make golden       long golden runs'
	@echo 'make ptx          compile every CUDA kernel in an environment of its own, without a device'
	@echo 'make gpu          run the tests of the CUDA kernels on a device, with the extra gpu'
	@echo 'make docs         build the pages as one site, build/docs/index.html, and check its links'
	@echo 'make wheel-check  build, check contents, install elsewhere, import every module from there'
	@echo 'make release-check  the same, and again with each extra: some ten minutes'
	@echo 'make claims       reproduce every figure that the pages state, and write docs/claims.md'
	@echo 'make bench        time ours beside peers, in an environment of theirs; write docs/benchmarks.md'
	@echo 'make bench-peers  only install that environment'
	@echo 'make dev          only install .venv with the development tools'
	@echo 'make clean        remove all that these commands made'

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "privagg needs Python >= 3.11, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made $(REQUIREMENTS)
	@echo 'Installing into $(VENV): about a minute the first time.'
	$(PIP) $(PIN) -e '.[plots]'
	@touch $@

# The extra `dev` holds `plots` too: after this, `make demo` has nothing left to install.
$(VENV)/.installed-dev: $(VENV)/.made $(REQUIREMENTS)
	@echo 'Installing into $(VENV), with development tools: two to five minutes the first time.'
	$(PIP) $(PIN) -e '.[dev]'
	$(PIP) --no-deps '$(TEST_IMAGES)'
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed
	$(BIN)/$(DEMO)

dev: $(VENV)/.installed-dev

test: dev
	$(PYTEST) $(if $(NOTEBOOKS),--nbmake) $(NOTEBOOKS) tests $(PYTEST_ARGS)

check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy scripts
	$(BIN)/lint-imports --no-logo

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sweep: dev
	$(PYTEST) $(MARKED) -m sweep tests $(PYTEST_ARGS)

golden: dev
	$(PYTEST) $(MARKED) -m golden tests $(PYTEST_ARGS)

$(PTX_VENV)/.installed: $(REQUIREMENTS) Makefile
	$(PYTHON) -m venv --clear $(PTX_VENV)
	$(PTX_VENV)/bin/python -m pip install -qq --disable-pip-version-check $(PIN) -e . $(PTX_TOOLS)
	@touch $@

ptx: $(PTX_VENV)/.installed
	$(PTX_VENV)/bin/python -m pytest -v tests/gpu/test_ptx.py $(PYTEST_ARGS)

gpu: dev
	$(PIP) $(PIN) -e '.[gpu]'
	$(PYTEST) $(MARKED) -m gpu tests/gpu $(PYTEST_ARGS)

RELEASE_CHECK := $(PY) scripts/release_check.py $(if $(CONSTRAINTS),--constraints $(CONSTRAINTS))

wheel-check: dev
	$(RELEASE_CHECK) --extra none

release-check: dev
	$(RELEASE_CHECK)

# Every warning is an error. Nothing is fetched.
docs: dev
	$(PY) -m sphinx -b html -W --keep-going -q -d build/doctrees docs build/docs
	$(PY) scripts/check_site.py build/docs

$(PEERS_VENV)/.installed: $(REQUIREMENTS)
	$(PYTHON) -m venv --clear $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e . $(PEERS)
	@touch $@

# CLAIMS=--fast leaves out what takes long.
claims: dev
	$(PY) scripts/claims.py run $(if $(ONLY),--only $(ONLY)) $(CLAIMS)

bench-peers: $(PEERS_VENV)/.installed

bench: dev bench-peers
	$(PY) scripts/benchmarks.py run --python $(PEERS_VENV)/bin/python $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) $(PEERS_VENV) $(PTX_VENV) docs/generated build dist out .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find privagg tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
