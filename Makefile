# Targets for working on kwire and mockbroker. Each one installs what it needs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# The compiled accelerator, for the environment and for its sources; without a compiler it is left out.
READY := .venv/.accelerator
CLASS_ARCHIVE := .venv/spark-classes.jsa
SOURCES := kwire mockbroker tools tests
# Tests run in parallel, in two processes more than there are cores, since many wait for other processes; each may have a
# Spark of its own. WORKERS=0 runs them in one process.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
# The release of Kafka that `make oracle` compares with.
RELEASE ?= 4.4
# Where Python is configured to write no bytecode, each process of the tests would compile their sources again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help constraints demo test quick test-changed test-python test-lowest coverage check format generate docs sim oracle oracle-early foreign \
	fuzz-oracle fuzz-captures sanitize kill-test bench bench-compare clean

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): setup.cfg constraints.txt pyproject.toml setup.py tools/setup_venv.sh
	@PYTHON="$(PYTHON)" bash tools/setup_venv.sh
	@touch $@

$(READY): $(STAMP) $(wildcard kwire/accelerator/src/*)
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

demo: $(READY)  ## Run a cluster with a live page, five share consumers and a fault; write a capture, and a report with Spark.
	@$(BIN)/python -m tools.demo

# Classes of Spark that the tests' sessions map instead of loading them; without Java they skip, and need none.
test quick test-changed coverage: export KWIRE_CLASS_ARCHIVE = $(CURDIR)/$(CLASS_ARCHIVE)
$(CLASS_ARCHIVE): $(READY)
	@rm -f $@
	@KWIRE_CLASS_ARCHIVE=$(CURDIR)/$@ $(BIN)/kwire report tests/captures/small_share.pcap -o .venv/report.html \
		> .venv/report.log 2>&1 || echo "==> Spark starts without stored classes: see .venv/report.log"

test: $(READY) $(CLASS_ARCHIVE)  ## Run all tests. TESTS=tests/kwire/records runs a part of them.
	@$(PYTEST) $(TESTS)

quick: $(READY)  ## Lint, check types and run the unit tests: less than a minute.
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(PYTEST) -q -m "not spark and not client and not slow" tests/tidy tests/kwire tests/mockbroker

test-changed: $(READY)  ## Run the tests of the modules that changed since BASE (default: main).
	@$(BIN)/python -m tools.changed_tests $(or $(BASE),main) -- -n $(WORKERS) --dist worksteal

test-python: $(READY)  ## Run the tests without Spark on another Python: make test-python PYTHON=python3.13.
	@PYTHON="$(PYTHON)" bash tools/test_python.sh

test-lowest: $(READY)  ## Run the quick unit tests and those of PySpark with the lowest versions that setup.cfg allows.
	@PYTHON="$(PYTHON)" WORKERS="$(WORKERS)" bash tools/test_lowest.sh

constraints:  ## Write constraints.txt: the newest versions that setup.cfg allows, with hashes.
	@bash tools/update_constraints.sh

coverage: $(READY)  ## Measure the coverage of the quick unit tests on the pure Python codec; fails below the bar of setup.cfg.
	@KWIRE_PURE=1 $(PYTEST) -q -m "not spark and not client and not slow" --cov --cov-report=term:skip-covered \
		tests/kwire tests/mockbroker

check: $(READY)  ## Lint, types, import contracts, and that generated files are current.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.structure
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.pictures --check

format: $(READY)  ## Format the code, sort imports and apply the safe fixes of the linter.
	@$(BIN)/ruff check --fix --quiet $(SOURCES) || true
	@$(BIN)/ruff format $(SOURCES)

generate: $(READY)  ## Write the generated code, pages and pictures.
	$(BIN)/python -m tools.generate
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.pictures

docs: $(READY)  ## Build the documentation site in out/docs.
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs out/docs
	@echo "out/docs/index.html"

sim: $(READY)  ## Run the simulator: make sim SEED=7 runs one seed, make sim SEEDS=5000 many.
	@$(BIN)/python -m mockbroker.sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200))

oracle: $(READY)  ## Compare the recorded answers with a real Apache Kafka: RELEASE=4.3 or 4.4. Needs Java and Maven.
	$(BIN)/python -m tests.conversations.live --release $(RELEASE) $(CONVERSATIONS)
	$(BIN)/python -m tests.conversations.live --release $(RELEASE) --generated $(or $(HISTORIES),10)
	$(BIN)/python -m tests.nodes.live --release $(RELEASE) $(STORIES)
	$(BIN)/python -m tests.support.captures.kafka_captures check

oracle-early: $(READY)  ## Compare with a real Apache Kafka 4.0.0 and its early access to share groups. Needs Java and Maven.
	$(BIN)/python -m tests.conversations.early
	$(BIN)/python -m tests.conversations.early --generated 10

foreign: $(READY)  ## Run Apache Kafka's own tests and franz-go's against mockbroker. Needs Java, Maven and Go.
	$(BIN)/python -m tests.foreign $(FOREIGN)

fuzz-oracle: $(READY)  ## Compare random requests with a real Apache Kafka: make fuzz-oracle PAIRS=20000 SEED=7. Needs Java and Maven.
	$(BIN)/python -m tools.oracle.fuzz --pairs $(or $(PAIRS),600) $(if $(SEED),--seed $(SEED)) $(FUZZ)

sanitize: $(READY)  ## Fuzz the accelerator, built with AddressSanitizer and UBSan: make sanitize SECONDS=1800.
	@$(BIN)/python -m tests.kwire.accelerator.sanitize tests.kwire.accelerator.differential \
		--messages 1000000000 --seconds $(or $(SECONDS),60) --seed $(or $(SEED),$(shell date +%j))

fuzz-captures: $(READY)  ## Read random mutations of captures in every way: make fuzz-captures CAPTURES=100000 SEED=7.
	@$(BIN)/python -m tests.kwire.capture.mutations --captures $(or $(CAPTURES),1000) $(if $(SEED),--seed $(SEED))

kill-test: $(READY)  ## Kill a broker with a data directory under load: make kill-test KILLS=1000 SEED=7 MODE=real.
	@$(BIN)/python -m tests.durability.kill --kills $(or $(KILLS),50) --seed $(or $(SEED),1) --mode $(or $(MODE),node)

bench: $(READY)  ## Measure beside the peers and write docs/performance.md.
	$(BIN)/python -m tools.bench

bench-compare: $(READY)  ## Compare the times of this checkout with those of another commit: make bench-compare BASE=main.
	$(BIN)/python -m tools.bench.compare --base "$(BASE)" $(COMPARE)

clean:  ## Remove the virtual environment and everything that was built.
	rm -rf .venv build dist *.egg-info out
