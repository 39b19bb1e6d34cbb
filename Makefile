# Every target creates .venv itself: Python 3.11 or newer and make are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-to-run
DOCS_STAMP := $(VENV)/.installed-docs
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/ottla/records/*.pyx src/ottla/records/*.pxi)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Interpreters of pyenv, or those on PATH.
VERSIONS := 3.11 3.12 3.13 3.14
PYTHONS ?= $(foreach v,$(VERSIONS),$(or $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/$v.*/bin/python$v))),python$v))

.PHONY: help run test test-pure test-pythons test-cluster-long test-spark-long test-soak coverage check fmt \
	docs docs-pages dist bench bench-peers bench-quick fuzz simulate clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Ottla needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# Spark needs Java 17 or newer: if none is installed, one is installed as a wheel.
$(RUN_STAMP): $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[pipeline]'
	$(BIN)/python -c 'from ottla.pipeline.session.java import find_java; find_java()' 2>/dev/null || $(INSTALL) -e '.[java]'
	touch $@

$(STAMP): $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) -e '.[docs]'
	touch $@

run: $(RUN_STAMP)  ## run the orders example: three brokers, a generator and a Spark pipeline; data in ./data
	$(BIN)/python examples/orders/run.py

test: $(STAMP)  ## run the test suite, or a part of it (TESTS=tests/records)
	$(BIN)/python -m pytest $(TESTS)

test-pure: $(STAMP)  ## run the test suite without the compiled kernel (TESTS=tests/records)
	OTTLA_PURE=1 $(BIN)/python -m pytest $(TESTS)

test-pythons:  ## run the test suite on each installed Python (PYTHONS="python3.12 python3.13" TESTS=tests/records)
	@for python in $(PYTHONS); do \
	  if version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
	  then echo "Python $$version"; $(MAKE) test PYTHON=$$python VENV=.venv-$$version || exit 1; \
	  else echo "$$python is not installed: skipped"; fi; \
	done

test-cluster-long: $(STAMP)  ## run all cluster tests, including those that take minutes
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest tests/cluster

test-soak: $(STAMP)  ## run transactions under faults for minutes (OTTLA_SOAK_SECONDS=180 for each of five tests)
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest -s tests/txn_soak

test-spark-long: $(STAMP)  ## kill every process around the exactly-once Spark sinks, for minutes
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest -s tests/spark/test_spark_sink_*.py tests/spark/test_spark_lake.py

coverage: $(STAMP)  ## run the test suite with coverage, broker processes included; HTML in build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet -d build/coverage
	$(BIN)/coverage report

check: $(STAMP)  ## check formatting, lint, types, import contracts, file sizes and generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/tidy.py
	$(BIN)/python tools/docs_pages.py --check

fmt: $(STAMP)  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DOCS_STAMP)  ## build the documentation site in build/site; warnings are errors
	$(BIN)/zensical build --clean --strict

docs-pages: $(STAMP)  ## write the generated pages: configuration reference, compatibility tables
	$(BIN)/python tools/docs_pages.py

dist: $(STAMP)  ## build the sdist and the wheel in dist, and run the wheel in an empty environment without a compiler
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tools/check_dist.py dist

bench: $(STAMP)  ## measure speed and size; print a table, write bench/results/*.json
	$(BIN)/python -m bench

bench-peers: $(STAMP)  ## measure Ottla and Apache Kafka in turns; write docs/BENCHMARKS.md (KAFKA_HOME, or mvn downloads it)
	$(BIN)/python -m bench.peers --report docs/BENCHMARKS.md

bench-quick: $(STAMP)  ## measure the main scenarios of bench-peers in three minutes; write no report
	$(BIN)/python -m bench.peers --quick $(addprefix --only ,start produce consume latency small)

fuzz: $(STAMP)  ## send mutated recorded frames to a live broker for a minute (FUZZ_SECONDS=60)
	$(BIN)/python -m fuzzing --seconds $(or $(FUZZ_SECONDS),60)

simulate: $(STAMP)  ## run the simulator's scenarios with many seeds (SEEDS=20 FIRST=1 SCENARIO="groups groups-net")
	$(BIN)/python -m simulator --seeds $(or $(SEEDS),20) --first $(or $(FIRST),1) $(addprefix --scenario ,$(SCENARIO))

clean:  ## remove the environments and all build output
	rm -rf $(VENV) .venv-* build dist src/*.egg-info src/ottla/records/*.so src/ottla/records/*.c
