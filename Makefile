# Everything a newcomer types. Each target does its own set-up in .venv.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: demo test oracle oracle-early check bench docs clean

$(STAMP): setup.cfg pyproject.toml setup.py tools/setup_venv.sh
	@PYTHON="$(PYTHON)" bash tools/setup_venv.sh
	@touch $@

demo: $(STAMP)  ## The whole way: cluster, share consumers, capture, Spark, report.
	@$(BIN)/python -m tools.demo

test: $(STAMP)  ## All tests.
	@$(BIN)/python -m pytest

oracle: $(STAMP)  ## Ask a real Apache Kafka 4.3.0, live, what the tests have it say. Needs Java and Maven.
	$(BIN)/python -m tests.conversations.live $(CONVERSATIONS)
	$(BIN)/python -m tests.conversations.live --generated $(or $(HISTORIES),10)
	$(BIN)/python -m tests.nodes.live $(STORIES)
	$(BIN)/python -m tests.kwire.capture.kafka_captures check

oracle-early: $(STAMP)  ## Ask a real Apache Kafka 4.0.0 about its early access to share groups. Needs Java and Maven.
	$(BIN)/python -m tests.conversations.early
	$(BIN)/python -m tests.conversations.early --generated 10

check: $(STAMP)  ## Lint, types, import contracts, and that generated files are current.
	$(BIN)/ruff check kwire mockbroker tools tests
	$(BIN)/ruff format --check kwire mockbroker tools tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.pictures --check

docs: $(STAMP)  ## Write the parts of docs/ that come from the code.
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.pictures

bench: $(STAMP)  ## Measure beside the peers and write docs/performance.md.
	$(BIN)/python -m tools.bench

clean:
	rm -rf .venv build dist *.egg-info out
