# Every target sets up what it needs: a virtual environment in .venv, with the pins of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
DEMO_STAMP := $(VENV)/.installed-demo
# One thread per process: two threads on a busy machine are much slower than one.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Some virtual machines announce AMX and forbid it: half precision would end the process.
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
# Modules are compiled once: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-house test-all audit constraints lint format bench docs designs bundled ci-setup timm clean

help: ## show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(STAMP) $(DEMO_STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

$(STAMP): EXTRAS := dev
$(DEMO_STAMP): EXTRAS := hf,sklearn,text

demo: $(DEMO_STAMP) ## install what it needs, study the bundled models and write build/demo/report.html
	$(BIN)/holdfast demo

# The core, of which every line and branch must be covered: what counts, bounds and certifies, without frameworks.
CORE := agreement bounds boolean calls certification completions distributions evaluation masking/function \
	masking/image/pixels mus neighborhood outputs plans prices randomness selection smoothing validation witness words
comma := ,
space := $(subst ,, )
CORE_FILES := $(subst $(space),$(comma),$(foreach room,$(CORE),src/holdfast/$(room).py src/holdfast/$(room)/*))

# What `make test` takes of tests/house: one test each of the browser and the README.
SMOKE := tests/house/test_report_browser.py::test_the_page_loads_without_an_error_and_without_a_request \
	'tests/house/test_readme.py::test_python_blocks_run_and_print_what_the_page_states[README.md]'
PYTEST := $(BIN)/python -m pytest -n auto -m 'not slow'

# With COVERAGE=1, as in continuous integration, `make test` counts what covers the core: its own tests and some of the edge.
COUNTED_EDGE := $(patsubst %,tests/edge/test_%.py,attribution_packages calibrate_inputs class_names cli_errors data_hf \
	exact_sparse exact_verbs foreign_files fuzz_files groups mask_image regressors resample timeout)

test: $(STAMP) ## run tests/core, tests/edge, the doctests, and a smoke test each of the browser and the README
ifdef COVERAGE
	$(PYTEST) --dist worksteal --cov=holdfast --cov-branch --cov-report= tests/core $(COUNTED_EDGE)
	$(BIN)/coverage report --include='$(CORE_FILES)' --fail-under=100
	$(PYTEST) --dist worksteal $(COUNTED_EDGE:%=--ignore=%) tests/edge src $(SMOKE)
else
	$(PYTEST) --dist worksteal tests/core tests/edge src $(SMOKE)
endif

test-house: $(STAMP) ## run the rest that is not slow
	$(PYTEST) --dist loadfile tests/house

test-all: $(STAMP) ## run every test, the slow theory and scale checks too
	$(BIN)/python -m pytest -n auto --dist loadfile -o faulthandler_timeout=0

audit: $(STAMP) ## look up known weaknesses of the packages in use (needs the network)
	.ci/audit $(BIN)

constraints: $(STAMP) ## pin in constraints.txt what is installed now; install newer packages and run the tests first
	$(BIN)/python .ci/constraints

lint: $(STAMP) ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## print every benchmark figure, write build/bench/*.json, fail on a missed ratio
	$(BIN)/python -m benchmarks

docs: $(STAMP) ## build the documentation site into build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

designs: $(STAMP) ## search the shipped stopping designs anew (about an hour)
	$(BIN)/python -m holdfast.plans.catalog src/holdfast/plans/designs.json

bundled: $(STAMP) ## train the bundled models anew (about a quarter of an hour)
	$(BIN)/python -m training

timm: build/timm/.installed ## what tests of timm's transformers need, in a folder of its own

# torchvision, which timm imports, must be that of the torch in constraints.txt; it would break what else is installed.
build/timm/.installed: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps --target build/timm \
		timm==1.0.31 torchvision==0.28.0
	touch $@

ci-setup: $(STAMP) timm ## what a fresh machine needs before the others
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| echo "There is no chromium, and only root can install it: tests of pages will say so."

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
