# The front door. Everything real is in CMake (CMakePresets.json), scripts/ and tests/.
.PHONY: help deps build run test conformance scenario-oracle bench package format lint fuzz clean

help:  ## show what can be done
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

deps:  ## install the Debian packages that building and testing need
	@scripts/deps.sh test

build:  ## build build/release/geminga
	@scripts/deps.sh
	@scripts/build.sh release geminga

run: build  ## build and start `geminga standalone` (data in ./data)
	@exec build/release/geminga standalone --data-dir ./data $(ARGS)

test: deps  ## build and run all tests; ends with "N passed, N failed"
	@python3 tests/run_all.py $(ARGS)

conformance: build  ## all suites of other projects' clients, in full
	@tests/conformance/run --full $(ARGS)

scenario-oracle:  ## the scenarios against the real Apache Pulsar
	@tests/scenario/run --target oracle $(ARGS)

bench: build  ## compare with Apache Pulsar; writes build/bench/latest.json
	@bench/run $(ARGS)

package: build  ## build/package/geminga_*.deb and geminga-*.tar.gz
	@scripts/package.sh

format:  ## clang-format over all sources
	@scripts/deps.sh test
	@git ls-files 'src/*.h' 'src/*.cc' 'tests/*.h' 'tests/*.cc' | xargs clang-format-14 -i

lint:  ## formatting, architecture, clang-tidy
	@scripts/deps.sh test lint
	@scripts/lint.sh

fuzz:  ## run each fuzz target for a minute
	@scripts/deps.sh fuzz
	@scripts/fuzz.sh

clean:  ## remove build/
	rm -rf build
