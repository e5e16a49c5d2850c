# `make` lists the targets. Each sets up what it needs, on a machine that has Python 3.11 and make only.

PYTHON ?= python3
BIN := .venv/bin
BIN40 := .venv-pyspark40/bin
# What `make matrix` and `make trial` test: versions of pyspark, each with a lock of its own, and of Python.
SPARKS ?= 40 41 42 43
PYTHONS ?= 3.11 3.12 3.13
PAIRS = --sparks $(SPARKS) --pythons $(PYTHONS)

# More than four workers are no faster: each starts a Spark and an Azurite of its own when its tests need them. Files run
# in the order of tests/conftest.py, those with Spark first, so that no worker is left with a long one at the end.
WORKERS ?= auto
PARALLEL = -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PYTEST ?=
# A selection may leave a run without a test, which pytest reports by exit code 5.
SELECTED = $(if $(PYTEST)$(CHANGED),|| test $$? -eq 5)

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-python-downloads \
	--no-emit-index-url --python-version 3.11
EXTRAS := --extra cli --extra control-messages --extra rocksdb --extra spark
# $(1) is a version of SPARKS.
lock_spark = $(COMPILE) $(UPGRADE) pyproject.toml $(EXTRAS) --group test -c requirements/pyspark$(1).in \
	-o requirements/pyspark$(1).lock
# Checked by mypy --strict; the tests with the exceptions of pyproject.toml.
TYPED := $(wildcard hatch_build.py adjunct_store arrow_avro azure_account azureblob_source control_messages coordination foundation pyspark_azureblob state_backup tools demo benchmarks tests)

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.PHONY: help auth setup lint docs links demo pipeline soak test spark crash histories fuzz permissions live matrix trial bench year wheel typed release notebooks check fmt lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what `make check` needs (each target installs what it needs itself, if it is missing)
	@$(PYTHON) -m tools.setup

# `setup-demo-azurite` sets up the parts `demo` and `azurite` of tools/setup.py.
setup-%:
	@$(PYTHON) -m tools.setup --quiet $(subst -, ,$*)

demo: setup-demo-azurite-native ## write a year of flights into blobs, read them back, compare row by row (LOG=INFO shows its log)
	@$(BIN)/python -m demo.flights --log $(or $(LOG),WARNING)

pipeline: setup-test-azurite-native .venv/spark-classes.jsa ## all parts as one system, while drivers, executors, disks and the emulator are lost (MINUTES=10 SEED=)
	@$(BIN)/python -m demo.pipeline --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

soak: setup-test-azurite-native .venv/spark-classes.jsa ## the same for long, with fewer faults: whether memory, handles, threads and requests grow (MINUTES=60 SEED=)
	@$(BIN)/python -m demo.pipeline --minutes $(or $(MINUTES),60) --pause 300 --output .demo/soak.html $(if $(SEED),--seed $(SEED))

# Java starts from such a file in half the time. Without one the tests pass too.
%/spark-classes.jsa: requirements/dev.lock requirements/pyspark40.lock
	@$*/bin/python -m tools.spark_classes $@

# Three on two cores: a test often waits for a process or for storage.
test: WORKERS := $(if $(filter auto,$(WORKERS)),3,$(WORKERS))
test: setup-test-check-notebooks-azurite-native ## all tests but those with a Spark and the slow ones (PYTEST="-k name" selects; CHANGED=1: for what has changed since main)
	$(if $(CHANGED),files=$$($(BIN)/python -m tools.changed) || exit 1; test -n "$$files" || exit 0; )$(BIN)/python -m pytest \
		$(PARALLEL) -m "not spark and not slow and not live" $(if $(CHANGED),$$files) $(PYTEST) $(SELECTED)

spark: setup-test-azurite-native-pyspark40 .venv/spark-classes.jsa .venv-pyspark40/spark-classes.jsa ## the tests with a Spark but the slow ones, then a part of them on Spark 4.0, the oldest supported
	$(BIN)/python -m pytest $(PARALLEL) -m "spark and not slow and not live" $(PYTEST) $(SELECTED)
	$(BIN40)/python -m pytest $(PARALLEL) -m "oldest_spark and not slow and not live" $(PYTEST) $(SELECTED)

crash: setup-test-docs-notebooks-azurite-native-browser .venv/spark-classes.jsa ## the slow tests: processes killed with SIGKILL, the guides, the notebooks
	$(BIN)/python -m pytest $(PARALLEL) -m "slow and not long and not alone" $(PYTEST) $(SELECTED)
	$(BIN)/python -m pytest -m alone $(PYTEST) $(SELECTED)

histories: setup-test-native ## 100,000 random histories of the commit protocol, a tenth of each other kind, with their events, and the tests with many (COUNT=, KIND=, SEED= shows one)
	$(BIN)/python -m tests.histories $(KIND) --processes 2 --count $(or $(COUNT),100000) \
		$(if $(SEED),--seed $(SEED) --shrink)
	$(if $(KIND)$(SEED),,$(BIN)/python -m pytest $(PARALLEL) -m long)

fuzz: setup-test-native ## give both decoders the same damaged bytes (MINUTES=30 SEED=)
	@$(BIN)/python -m tests.arrow_avro.fuzz --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED))

permissions: setup-test-azurite ## what permissions each feature needs: run with every SAS, each letter less; the table of docs/AZURE.md (ONLY=vacuum)
	@$(BIN)/python -m tests.permissions $(if $(ONLY),--only $(ONLY),--write)

live: setup-test-azurite ## the suite for a storage account: it says first what it does and costs (ON=azurite: on Azurite; RECORD=1 keeps the results)
	@$(BIN)/python -m tests.live --on $(or $(ON),azure) $(if $(RECORD),--record)

matrix: setup-test-azurite wheel ## the tests on pyspark 4.0 to 4.3 and Python 3.11 to 3.13, and `make trial` (SPARKS="41 42" PYTHONS="3.12" selects)
	@$(BIN)/python -m tools.matrix $(PAIRS) -- $(PARALLEL) $(PYTEST)

trial: setup-test-notebooks-azurite wheel ## the wheels alone in empty environments, on each pyspark and Python: round trips, the guides, the notebooks
	@$(BIN)/python -m tools.trial $(PAIRS)
	@$(BIN)/python -m tools.notebooks --alone

lint: setup-test-bench-notebooks-docs-check ## format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports

check: lint ## what CI runs: `make lint`, `make test`, `make spark`
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory spark

bench: setup-bench-test-notebooks-azurite-native-pyspark40 ## run all benchmarks
	@$(BIN)/python -m benchmarks

year: setup-bench-test-notebooks-native ## a year of one-minute batches, played in memory: requests, sizes, reads; a plot (DAYS=365)
	@mkdir -p .demo
	@$(BIN)/python -m benchmarks.year --days $(or $(DAYS),365) --output .demo/year.png

wheel: setup-release ## build wheels and source archives in dist/, check them and try them in an empty environment (TWICE=1: again, and compare)
	@.venv-release/bin/python -m tools.wheels $(if $(TWICE),--twice)

docs: setup-docs ## build the site in build/site: the documents, the Python reference, the commands; a broken link is an error
	@$(BIN)/python -m tools.site

links: setup-docs ## request every link of the documents to other hosts, and list the broken ones
	@$(BIN)/python -m tools.site --links

typed: setup-check-pyright ## check types from outside: a user's program with the installed wheel, by mypy and pyright
	@$(BIN)/python -m tools.typed

release: setup-release ## prepare a release: check, build and try it, and say what to commit, tag and upload (DRY=1)
	@.venv-release/bin/python -m tools.release $(if $(DRY),--dry-run)

auth: setup-test-azurite-native .venv/spark-classes.jsa ## credentials, TLS and proxies on the emulator and on stand-ins; prints what was tried
	@$(BIN)/python -m pytest $(PARALLEL) -m auth -p tests.azure_account.auth.tried tests/azure_account/auth $(PYTEST)

notebooks: setup-notebooks-test-azurite ## run the notebooks and store them with their output
	@$(BIN)/python -m tools.notebooks

fmt: setup-check ## format, and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup-check ## resolve the dependencies again (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) requirements/setup.in -o requirements/setup.lock
	$(COMPILE) $(UPGRADE) requirements/node.in -o requirements/node.lock
	$(COMPILE) $(UPGRADE) pyproject.toml $(EXTRAS) --group demo --group test --group notebooks --group check --group bench --group docs \
		-o requirements/dev.lock
	$(COMPILE) $(UPGRADE) --group release -o requirements/release.lock
	$(call lock_spark,40)
	$(call lock_spark,41)
	$(call lock_spark,42)
	$(call lock_spark,43)
	for folder in azurite browser pyright; do $(PYTHON) -m tools.node install --package-lock-only --prefix tools/$$folder; done

clean: ## remove everything that the targets made, including what `make setup` has downloaded
	rm -rf .venv .venv-pyspark* .venv-release .trial tools/*/node_modules build dist .clients .demo spark-warehouse artifacts metastore_db
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
