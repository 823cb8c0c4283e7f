# SPDX-License-Identifier: MIT
# A short front to CMake. `make help` lists what there is.
.PHONY: all debug check nightly mutants bench install wheel uninstall format help clean

PREFIX ?= /usr/local

all: ## build the program: build/plimsoll
	@cmake --preset release >/dev/null && cmake --build --preset release

debug: ## build with the callers' contracts checked: build-debug/
	@cmake --preset debug >/dev/null && cmake --build --preset debug

check: ## every test, also under the sanitizers
	@scripts/check

nightly: ## the long tests whole, under the sanitizers, the mutants, and a minute of fuzzing for each target
	@scripts/nightly

mutants: ## changes one constant at a time; a fast test must fail each time
	@scripts/mutants

bench: all ## the benchmarks, as ratios within one run
	@scripts/bench

install: all ## program, library, headers, manual page, completion: under PREFIX=/usr/local
	@cmake --install build --prefix "$(PREFIX)"

wheel: ## what pip installs where there is no compiler: build-wheel/*.whl
	@scripts/wheel

uninstall: ## remove what the last make install installed
	@scripts/uninstall build

format: ## clang-format over the C files
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## remove what was built
	@rm -rf build build-*

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18
