# Everything that a newcomer needs. Each target installs what it lacks (Debian 12) through deploy/install-deps.sh.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
DATA ?= glyphs
SEED ?= 1
FUZZ_SECONDS ?= 60
FUZZ_RUNS ?= 0

.PHONY: all deps build deb test demo studies bench fuzz interop packages manifests containers asan tsan clang mutants clean

all: build

deps:
	deploy/install-deps.sh build test bench

build:
	deploy/install-deps.sh build
	cmake --preset release -DLIGHTCONE_TESTS=OFF -DLIGHTCONE_BENCH=OFF
	cmake --build build -j $(JOBS) --target lightcone lightcone-model lightcone-research

# Debian packages of the server and of its model programs, in build/package (docs/operate/packages.md).
deb: build
	deploy/install-deps.sh package
	cd build && cpack -G DEB

# The whole story on data that is drawn on the spot: train, embed, upgrade without backfilling, kill, compare.
# DATA=text:DIR tells it with texts and their embeddings by two models (docs/start/your-text-model.md).
demo: build
	build/bin/lightcone demo --data $(DATA) --seed $(SEED) --dir demo --json demo/result.json

# The long studies: the recipes sized for two cores, one after the other (docs/reference/recipes.md). Many hours;
# stopped, it goes on.
#   make studies OMNIGLOT=npy:DIR/background CIFAR100=cifar100:DIR
# What is not given is left out. STUDY_FLAGS=--dry-run tells what would be trained, and for how long.
STUDIES ?= studies
STUDY = build/bin/lightcone experiment $(STUDY_FLAGS) --out $(STUDIES)
studies: build
	$(STUDY) glyphs-cpu
ifdef OMNIGLOT
	$(STUDY) omniglot-cpu --data $(OMNIGLOT)
	$(STUDY) omniglot-ablations-cpu --data $(OMNIGLOT)
	$(STUDY) omniglot-sequential-cpu --data $(OMNIGLOT)
endif
ifdef CIFAR100
	$(STUDY) cifar100-cpu --data $(CIFAR100)
	$(STUDY) cifar100-ablations-cpu --data $(CIFAR100)
	$(STUDY) cifar100-cpu-seeds --data $(CIFAR100)
endif

test:
	deploy/install-deps.sh build test
	cmake --preset release -DLIGHTCONE_TESTS=ON -DLIGHTCONE_BENCH=OFF
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)

bench:
	deploy/install-deps.sh build bench
	cmake --preset release -DLIGHTCONE_TESTS=OFF -DLIGHTCONE_BENCH=ON
	cmake --build build -j $(JOBS) --target lightcone lightcone-model lightcone_bench
	mkdir -p build/bench
	build/bin/lightcone_bench --json build/bench/results.json --publish docs/benchmarks

# The decoders of files and wire values (tests/fuzz/CMakeLists.txt), each for $(FUZZ_SECONDS) seconds. With FUZZ_RUNS=N
# each has at most N executions, and the target fails when one had fewer. FUZZ_SECONDS=0: no limit.
fuzz:
	deploy/install-deps.sh build fuzz
	cmake --preset fuzz
	cmake --build build/fuzz -j $(JOBS) --target fuzzers
	FUZZ_RUNS=$(FUZZ_RUNS) tests/fuzz/run.sh build/fuzz/bin/fuzz $(FUZZ_SECONDS) $(JOBS)

# Stock Qdrant clients of npm against a server that is started for them, and backups in a bucket of npm's s3rver. Needs
# node 20 and npm's registry.
interop: build
	tests/interop/run.sh build
	tests/interop/s3.sh build

# The packages on a fresh Debian 12: installed, upgraded with data, removed and purged. As root; ports 7700 and 7701 of
# the loopback interface must be free. OLDER=lightcone_0.1.0_amd64.deb is the version that is upgraded; without it, one
# is made of the new package.
packages: deb
	deploy/install-deps.sh fresh
	tests/deploy/fresh_packages.sh $(addprefix --from ,$(OLDER)) \
	  "$$(ls -t build/package/lightcone_*.deb | head -n1)" "$$(ls -t build/package/lightcone-model_*.deb | head -n1)"

# Kubernetes manifests and the rendered Helm chart, by the schemas of Kubernetes. Needs node 20 and npm's registry.
manifests: build
	deploy/install-deps.sh manifests
	tests/deploy/schemas.sh build

# The image, started by the compose file and by the Kubernetes manifest. As root; no image registry is needed.
containers: build
	deploy/install-deps.sh containers
	tests/deploy/containers.sh build

asan:
	deploy/install-deps.sh build test
	cmake --preset asan
	cmake --build build/asan -j $(JOBS)
	LSAN_OPTIONS="suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0" \
	  ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS)

tsan:
	deploy/install-deps.sh build test
	cmake --preset tsan
	cmake --build build/tsan -j $(JOBS) --target tsan_tests
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp halt_on_error=1" \
	  ctest --test-dir build/tsan --output-on-failure --no-tests=error -L 'engine|store|index|trace'

# Whether the tests of recall see each mechanism that is taken away, one after the other.
mutants:
	deploy/install-deps.sh build test
	tests/index/mutants.py

# Lock annotations are checked by clang only.
clang:
	deploy/install-deps.sh build fuzz
	cmake --preset clang
	cmake --build build/clang -j $(JOBS)

clean:
	rm -rf build demo
