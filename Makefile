# SPDX-License-Identifier: Apache-2.0
# A thin front of CMakePresets.json. `make help` lists what there is.
.DEFAULT_GOAL := help
.NOTPARALLEL:

# A job per core, but only as many as memory allows: an Asio translation unit wants up to 1.5 GB.
# The limit of a container counts as well as the free memory of the machine.
JOBS ?= $(shell { awk '/^MemAvailable/ {printf "%d\n", $$2 / 1572864}' /proc/meminfo; \
    awk '/^[0-9]/ {printf "%d\n", $$1 / 1610612736}' /sys/fs/cgroup/memory.max 2>/dev/null; \
    nproc; } | sort -n | awk 'NR == 1 {print ($$1 < 1) ? 1 : $$1}')

# CI refuses a warning of the optimising compiler; a user's newer compiler may have more of them.
WERROR := $(if $(CI),ON,OFF)

# Seconds that `make fuzz` gives to each target.
FUZZ_SECONDS ?= 60

CLANG_FORMAT ?= $(firstword $(foreach f,clang-format-14 clang-format,$(shell command -v $(f))))
FORMATTED = find include src tests bench cmake bindings -name '*.[ch]pp' 2>/dev/null

# Large ASLR entropy, as on Ubuntu, makes programs under the thread sanitizer refuse to start.
NO_ASLR = $(shell setarch -R true 2>/dev/null && echo setarch -R)

configure-release = cmake --preset release -DRONDO_WERROR=$(WERROR)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z -]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: build
build: ## install what is missing, build build/release/bin/rondo
	@scripts/bootstrap build
	@$(configure-release)
	@cmake --build --preset release -j $(JOBS) --target rondo_cli

.PHONY: test
test: build ## build all of it and run the tests
	@cmake --build --preset release -j $(JOBS)
	@ctest --preset release -j $(JOBS)
	@scripts/python test

.PHONY: python
python: ## install the Python package into build/venv
	@scripts/bootstrap build
	@scripts/python install

.PHONY: demo
demo: build ## build, then actors and a learner at work
	@build/release/bin/rondo demo

.PHONY: bench bench-quick
bench: bench-build ## ingestion beside id-echo and the machine's limit; 20 min; draws docs/benchmarks
	@python3 -B bench/ingest/run.py full --out docs/benchmarks/ingest.json
	@python3 -B bench/ingest/draw.py docs/benchmarks/ingest.json docs/benchmarks
	@python3 -B bench/ingest/report.py docs/benchmarks/ingest.json >docs/benchmarks/ingest.txt
bench-quick: bench-build ## the same with 8 connections, 4 sizes and 3 runs; 3 min
	@python3 -B bench/ingest/run.py quick --out build/bench/quick.json
.PHONY: bench-build
bench-build: build
	@cmake --build --preset release -j $(JOBS) --target bench_ingest

.PHONY: debug asan tsan clang
debug asan clang: ## build and run the tests with that preset of CMakePresets.json
	@cmake --preset $@
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -j $(JOBS)
tsan: ## the same under the thread sanitizer
	@cmake --preset $@
	@cmake --build --preset $@ -j $(JOBS)
	@$(NO_ASLR) ctest --preset $@ -j $(JOBS)

.PHONY: fuzz
fuzz: ## search for new failures, FUZZ_SECONDS=60 for each target
	@cmake --preset clang
	@cmake --build --preset clang -j $(JOBS)
	@scripts/fuzz build/clang/fuzz $(FUZZ_SECONDS)

.PHONY: format
format: ## format all C++ files in place
	@$(FORMATTED) | xargs $(CLANG_FORMAT) -i

.PHONY: check-format
check-format: ## fail if a file is not formatted
	@$(FORMATTED) | xargs $(CLANG_FORMAT) --dry-run --Werror

.PHONY: tidy
tidy: ## clang-tidy over the library, the CLI and the benchmarks
	@cmake --preset clang
	@scripts/tidy build/clang $(JOBS)

.PHONY: clean
clean: ## remove every build
	@rm -rf build
