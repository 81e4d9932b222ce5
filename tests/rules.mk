# Tests, lints, fuzz harnesses and benchmarks: how each is built and run.

UNIT    := $(wildcard tests/unit/*/test_*.c)
CONFINE := $(wildcard tests/confine/*.c)
FUZZ    := $(wildcard fuzz/fuzz_*.c)

# Every unit but the programs' mains, in one archive: a test links what it names.
LIB_SRCS  = $(filter-out proxy/main.c proxy/worker.c proxy/dialer.c proxy/broker.c proxy/recorder.c \
            proxy/reader.c sandbox/init.c,$(SRCS))
LIB       = $(O)/libexeat.a
TEST_PKGS := cmocka libevent_core yaml-0.1 jansson libnftnl libmnl libcap-ng libseccomp libssl libcrypto \
             libcares libpsl
TESTS      = $(UNIT:%.c=$(O)/%)
FUZZ_O    := build/fuzz
FUZZERS    = $(FUZZ:fuzz/%.c=$(FUZZ_O)/%)

$(LIB): $(call objects,$(LIB_SRCS))
	@rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)
$(O)/tests/unit/%: $(O)/tests/unit/%.o $(LIB)
	$(call SAY,LINK  $@)
	$(Q)$(LINK) -o $@ $< $(LIB) $(call libs,$(TEST_PKGS))
