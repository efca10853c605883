# Everything a user or a developer runs. Each target first makes sure of what it needs (bin/setup), so a fresh clone
# needs no other step. Recipes `exec` their command: Ctrl-C reaches it, and make waits until it has cleaned up.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Some machines forbid Python its cache of compiled files. Every process of ours would then compile the engine, and
# every test process the tests, from the start: half of the time that tests take to be found.
unexport PYTHONDONTWRITEBYTECODE

python := .venv/bin/python
frontstage := .venv/bin/frontstage
heavy := spark or stack or browser
alone := not full and not spark and not stack and not browser
# One more process than cores: tests often wait for Postgres or a process of their own.
workers := $(shell echo $$(( $$(nproc) + 1 )))
spread := --dist loadfile --no-loadscope-reorder
not_fast := $(alone) and not slow
compile := ../.venv/bin/uv pip compile --quiet --python-version 3.11 --python-platform linux --generate-hashes \
	--no-header --no-annotate $(if $(UPGRADE),--upgrade)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: setup ## See it work: start everything, run 200,000 orders through Airflow, show the result, stop everything
	@exec $(frontstage) demo $(ARGS)

.PHONY: demo-correlations
demo-correlations: setup ## See streams meet streams: orders, payments, shipments through Airflow, held against the raw files
	@exec $(frontstage) demo-correlations $(ARGS)

.PHONY: up
up: setup ## Start the stack with a live order stream and print the address and login
	@exec $(frontstage) up $(ARGS)

.PHONY: down
down: ## Stop what `make up` started
	@if [ -x $(frontstage) ]; then exec $(frontstage) down $(ARGS); else echo "nothing to stop: there is no .venv"; fi

.PHONY: doctor
doctor: setup ## Check Java, jars, ports, disk, Postgres and Spark, one line each
	@exec $(frontstage) doctor $(ARGS)

# What needs no Spark, stack or browser runs first, the rest after it, two files at a time: a stack waits a lot, and starts
# on ports and in folders of its own. Files begin in the order of their names, so that the longest are not the last. The
# properties draw the same examples every time; `make test-fast` draws new ones. pytest ends with 5 when ARGS choose no
# test of a half.
.PHONY: test
test: ## Run all tests (ARGS="-k word" for some)
	@bin/setup --with-browser
	@$(python) -m pytest --hypothesis-profile=ci $(spread) -n $(workers) -m "$(alone)" $(ARGS); light=$$?; \
	$(python) -m pytest --hypothesis-profile=ci $(spread) -n 2 -m "not full and ($(heavy))" $(ARGS); heavy=$$?; \
	if [ $$light = 5 ]; then exit $$heavy; elif [ $$heavy = 5 ]; then exit $$light; else exit $$((light || heavy)); fi

.PHONY: test-fast
test-fast: setup ## Run the tests that need neither Spark nor the stack nor a browser, and are quick
	@exec $(python) -m pytest $(spread) -n $(workers) -m "$(not_fast)" $(ARGS)

# One line per case, last line `N passed, M failed`. What needs no Spark or stack runs in two processes.
.PHONY: faults
faults: setup ## Try every fault: kills, cut lines, full disks, damage, restores, hostile input (less than an hour)
	@exec $(python) -m tests.faults $(ARGS)

# What is too long for `make test`: the README's commands, the wheel in an Airflow of somebody else's, the compose file.
.PHONY: guides
guides: setup ## Run every guide and the README as they are written, in a fresh clone
	@exec $(python) -m pytest tests/dags/test_guides.py tests/dags/test_foreign_airflow.py tests/dags/test_compose_sites.py $(ARGS)

.PHONY: soak
soak: setup ## Run steadily with bursts for MINUTES=30 and see that nothing grows
	@exec $(python) -m bench.run soak --minutes $(or $(MINUTES),30) $(ARGS)

.PHONY: check
check: setup ## Lint, formatting, types, import contracts
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# Benchmarks keep their data under var/bench and their results as JSON and plots under bench/results.
.PHONY: bench-figures
bench-figures: setup ## Regenerate the paper's figures, ours beside the paper's (R=10M for the larger master)
	@exec $(python) -m bench.run figures --rows $(or $(R),1M) $(ARGS)

.PHONY: bench-peers
bench-peers: setup ## Compare with Spark over JDBC, Delta and cached, batched lookups, and the transport limit
	@exec $(python) -m bench.run peers $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: setup ## Compare whole micro-batches: ours, ours as it was, and a plain script (at most 25 minutes)
	@exec $(python) -m bench.run pipeline $(ARGS)

.PHONY: bench-overload
bench-overload: setup ## Measure arrivals of 1 to 10 times what a master store sustains, by ways to shed (at most 15 minutes)
	@exec $(python) -m bench.run overload $(ARGS)

.PHONY: bench-session
bench-session: setup ## Measure what settings of the JVM and of Spark's planner cost a micro-batch (about ten minutes)
	@exec $(python) -m bench.run session $(ARGS)

.PHONY: bench-auto
bench-auto: setup ## Compare auto with every single join: skew x batch size x store x warm or cold
	@exec $(python) -m bench.run grid $(ARGS)

.PHONY: bench-cold
bench-cold: setup ## Compare hot tuples in a front stage with hot pages in the page cache, R on disk
	@exec $(python) -m bench.run cold $(ARGS)

.PHONY: bench-pages
bench-pages: setup ## Measure what publishing, refreshing and reading ten million master rows cost
	@exec $(python) -m bench.run pages $(ARGS)

.PHONY: bench-biclique
bench-biclique: setup ## Regenerate the join-biclique's figures and compare with Spark's joins and DuckDB (at most 25 minutes)
	@exec $(python) -m bench.biclique $(ARGS)

.PHONY: bench-adhoc
bench-adhoc: setup ## Compare shared ad-hoc joins with separate Spark joins, Spark's streams and DuckDB (at most 25 minutes)
	@exec $(python) -m bench.adhoc $(ARGS)

.PHONY: bench-documents
bench-documents: setup ## Measure joins of JSON documents without a schema: partitions, local joins, SQL (about 15 minutes)
	@exec $(python) -m bench.documents $(ARGS)

.PHONY: bench-multiway
bench-multiway: setup ## Regenerate PMJoin's figures and ship a million tuples among three sites by every plan
	@exec $(python) -m bench.multiway $(ARGS)

.PHONY: setup
setup: ## Make the environment ready (every target that needs it does this by itself)
	@bin/setup

.PHONY: lock
lock: setup ## Resolve requirements/*.in into the lock files (UPGRADE=1 takes the newest allowed versions)
	cd requirements && $(compile) bootstrap.in -o bootstrap.lock
	cd requirements && $(compile) -c bootstrap.lock runtime.in -o runtime.lock
	cd requirements && $(compile) -c bootstrap.lock -c runtime.lock dev.in -o dev.lock
	@$(python) bin/pythons.py

.PHONY: vendored
vendored: setup ## Fetch the scripts and styles of others that requirements/vendored.toml names, from npm
	@exec $(python) bin/vendored.py --fetch

.PHONY: docs
docs: setup ## Build the documentation into var/site, offline, with every link checked (and docs/configuration.md)
	@$(python) -m etl.settings_reference
	@NO_MKDOCS_2_WARNING=1 exec $(python) -m mkdocs build --quiet

.PHONY: clean
clean: ## Remove the environment and caches; var/ (your data) stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path ./var -prune -o -name __pycache__ -type d -exec rm -rf {} +
