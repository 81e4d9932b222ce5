# Tests, lints, fuzz harnesses and benchmarks: how each is built and run.

UNIT    := $(wildcard tests/unit/*/test_*.c)
CONFINE := $(wildcard tests/confine/*.c)
FUZZ    := $(wildcard fuzz/fuzz_*.c)

# Every unit but the programs' mains, in one archive: a test links what it names.
LIB_SRCS  = $(filter-out proxy/main.c proxy/worker.c proxy/dialer.c proxy/broker.c proxy/recorder.c \
            proxy/reader.c sandbox/init.c,$(SRCS))
LIB       = $(O)/libexeat.a
TEST_PKGS := cmocka libevent_core yaml-0.1 jansson libnftnl libmnl libcap-ng libseccomp libssl libcrypto \
             libcares libpsl libnghttp2
TESTS      = $(UNIT:%.c=$(O)/%)
FUZZ_O    := build/fuzz
FUZZERS    = $(FUZZ:fuzz/%.c=$(FUZZ_O)/%)

$(LIB): $(call objects,$(LIB_SRCS))
	@rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)
$(O)/tests/unit/%: $(O)/tests/unit/%.o $(LIB)
	$(call SAY,LINK  $@)
	$(Q)$(LINK) -o $@ $< $(LIB) $(call libs,$(TEST_PKGS))
-include $(UNIT:%.c=$(O)/%.d) $(CONFINE:%.c=$(O)/%.d)

$(O)/tests/confine/%: $(O)/tests/confine/%.o $(LIB)
	$(call SAY,LINK  $@)
	$(Q)$(LINK) -o $@ $< $(LIB) $(call libs,$(TEST_PKGS))

# A harness twice: with libFuzzer to search, and with a small main to replay its corpus.
fuzz-lib:
	$(Q)$(MAKE) --no-print-directory MODE=fuzz CC=clang O=$(FUZZ_O) $(FUZZ_O)/libexeat.a
$(FUZZ_O)/fuzz_%: fuzz/fuzz_%.c fuzz-lib
	$(call SAY,LINK  $@)
	$(Q)clang -std=c11 -D_GNU_SOURCE -I. -g -O1 -fsanitize=fuzzer,address,undefined -o $@ $< \
	  $(FUZZ_O)/libexeat.a $(call libs,$(TEST_PKGS))
CF.fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LF.fuzz := -fsanitize=address,undefined
$(O)/fuzz/%: $(O)/fuzz/%.o $(O)/fuzz/replay.o $(LIB)
	$(call SAY,LINK  $@)
	$(Q)$(LINK) -o $@ $< $(O)/fuzz/replay.o $(LIB) $(call libs,$(TEST_PKGS))
REPLAYS = $(FUZZ:%.c=$(O)/%)

FUZZ_SECONDS ?= 120
fuzz: $(FUZZERS) ## search with every fuzz harness, FUZZ_SECONDS each
	$(Q)sh tests/fuzz.sh $(FUZZ_O) $(FUZZ_SECONDS)

# Some units are tried with the real programs beside them.
unit: all $(TESTS) $(REPLAYS)
	$(Q)sh tests/unit.sh $(O) $(TESTS)
	$(Q)sh tests/replay.sh $(O) $(REPLAYS)
confine-check: $(CONFINE:%.c=$(O)/%)
	$(Q)set -e; for t in $^; do $$t; done

check: ## everything that has to hold: lints, unit tests, fuzz corpora, confinement, end to end
	$(Q)sh conf/install-packages.sh build run demo check
	$(Q)MAKE='$(MAKE)' sh tests/check.sh

lint: ## folder layering; every header stands alone; mistakes that have a name
	$(Q)sh tests/lint/layering.sh
	$(Q)python3 tests/lint/names.py
	$(Q)python3 tests/lint/assertions.py
	$(Q)sh tests/lint/mistakes.sh
	$(Q)sh tests/lint/tests_exist.sh
	$(Q)set -e; for h in $(HDRS); do printf '#include "%s"\nextern int unit;\n' $$h | \
	  $(COMPILE) -x c -fsyntax-only -; done

bench: ## what a decision and a parsed head cost; with HARNESS=DIR, Exeat beside other proxies
	$(Q)$(MAKE) --no-print-directory MODE=release all bench-programs
	$(Q)sh tests/bench/bench.sh build/release
	$(Q)$(if $(HARNESS),bash tests/bench/proxies.sh build/release $(HARNESS) $(OPTIONS))
bench-wire: ## what a sandbox costs: time and memory of its wire and its worker, up to the 1,000th
	$(Q)$(MAKE) --no-print-directory MODE=release all
	$(Q)python3 tests/bench/wire.py build/release
BENCHES = $(patsubst %.c,$(O)/%,$(wildcard tests/bench/*.c))
$(O)/tests/bench/%: $(O)/tests/bench/%.o $(LIB)
	$(call SAY,LINK  $@)
	$(Q)$(LINK) -o $@ $< $(LIB) $(call libs,$(TEST_PKGS))
bench-programs: $(BENCHES)
.PHONY: unit confine-check bench-programs bench-wire fuzz-lib
