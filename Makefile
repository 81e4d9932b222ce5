# make [MODE=debug|release|asan|ubsan|cov] [V=1] all run check lint fuzz bench compdb install uninstall help
MODE   ?= debug
O      ?= build/$(MODE)
PREFIX ?= /usr/local
Q      := $(if $(V),,@)
SAY     = $(if $(V),,@echo "  $(1)")

CF.debug   := -O0 -g3
CF.release := -O2 -g -flto=auto -D_FORTIFY_SOURCE=2 -fPIE
CF.asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CF.ubsan   := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
CF.cov     := -O0 -g --coverage
LF.release := -flto=auto -pie -Wl,-z,relro,-z,now
LF.asan    := -fsanitize=address,undefined
LF.ubsan   := -fsanitize=undefined
LF.cov     := --coverage
WARN       := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
              -Wmissing-prototypes -Wswitch-enum -Wvla -Werror
LIBEXEC    := $(PREFIX)/libexec/exeat
UNITS      := $(PREFIX)/lib/systemd/system
MAN        := exeat.8 exeat.yaml.5 exeat-policy.5
COMPILE     = $(CC) -std=c11 -D_GNU_SOURCE -I. $(WARN) -fstack-protector-strong -fno-common \
              $(CF.$(MODE)) $(CPPFLAGS) $(CFLAGS)
LINK        = $(CC) $(LF.$(MODE)) $(LDFLAGS)

# ---- what is in which process: what is not listed is not in it ----
CONF := conf/str.c conf/buf.c conf/err.c conf/addr.c conf/hex.c conf/utf8.c conf/json.c conf/date.c \
                      conf/sort.c conf/amount.c
YAML := conf/arena.c conf/diag.c conf/yaml.c conf/schema.c
SETTINGS := conf/schema_show.c conf/schema_json.c conf/schema_man.c proxy/settings.c proxy/settings_rows.c \
                      proxy/settings_machine.c proxy/cmd_settings.c
POLICY := policy/name.c policy/path.c policy/ranges.c policy/digest.c policy/image.c policy/hosts.c \
                      policy/decide.c
PATTERN := policy/pattern.c
EXPLAIN := policy/explain.c policy/request_text.c policy/limits_text.c
COMPILER := $(PATTERN) policy/build.c policy/path_overlap.c policy/load.c policy/load_rule.c \
                      policy/load_hosts.c policy/load_credential.c policy/load_pairs.c \
                      policy/load_limits.c policy/load_limited.c policy/limits_text.c
CHANNEL := sandbox/roles.c sandbox/message.c sandbox/channel.c proxy/messages.c
ROLE := $(CONF) $(CHANNEL) proxy/role.c sandbox/confine.c sandbox/confine_rules.c
RECORD := sandbox/ring.c proxy/record.c

SRC.exeat := $(CONF) $(YAML) $(SETTINGS) $(POLICY) $(CHANNEL) $(RECORD) $(PATTERN) sandbox/notify.c \
                      sandbox/confine.c sandbox/confine_rules.c sandbox/spawn.c sandbox/wire.c \
                      sandbox/wire_sockets.c sandbox/wire_admit.c \
                      sandbox/netlink.c sandbox/rules.c sandbox/lease.c sandbox/box.c sandbox/bundle.c \
                      sandbox/host_root.c sandbox/keeper.c proxy/log_path.c proxy/log_read.c \
                      proxy/log_verify.c proxy/log_tail.c proxy/cmd_policy.c proxy/cmd_log.c \
                      proxy/log_line.c proxy/log_files.c proxy/log_write.c proxy/log_rotate.c \
                      proxy/log_key.c proxy/log_sign.c proxy/policy_store.c proxy/cmd_policy_show.c \
                      proxy/cmd_log_read.c proxy/log_query.c proxy/log_summary.c proxy/cmd_run.c proxy/reader_client.c \
                      proxy/supervisor.c proxy/supervisor_records.c proxy/parts.c proxy/rings.c \
                      proxy/succession.c proxy/sandboxes.c proxy/sandbox_worker.c proxy/policies.c \
                      proxy/launcher.c proxy/asker.c proxy/run.c proxy/role_start.c proxy/main.c proxy/usage.c \
                      sandbox/seccomp_profile.c sandbox/tree.c sandbox/box_files.c sandbox/box_root.c \
                      sandbox/java_store.c proxy/run_folders.c sandbox/cgroup.c sandbox/held_secret.c \
                      $(EXPLAIN) proxy/access_table.c proxy/access_rule.c proxy/access_show.c \
                      proxy/fields.c proxy/http1.c proxy/http1_write.c proxy/control.c \
                      proxy/control_request.c proxy/control_route.c proxy/control_fields.c \
                      proxy/control_records.c proxy/allowance.c proxy/control_listen.c \
                      proxy/control_api.c proxy/control_client.c \
                      proxy/serve_api.c proxy/serve_view.c proxy/serve.c proxy/cmd_serve.c \
                      proxy/machine.c proxy/aftermath.c proxy/show.c proxy/verbs.c proxy/cmd_status.c \
                      proxy/cmd_sandbox.c proxy/cmd_request.c proxy/cmd_reload.c proxy/box_exec.c \
                      sandbox/enter.c
SRC.exeat-worker := $(ROLE) $(POLICY) $(RECORD) broker/locked.c broker/secret.c broker/scrub.c \
                      sandbox/lease.c sandbox/nflog.c proxy/asks.c proxy/dns_msg.c proxy/dns_listen.c \
                      proxy/dns_judge.c proxy/dns_record.c proxy/dns_service.c proxy/tally.c \
                      proxy/refused.c proxy/hello.c proxy/fields.c proxy/http1.c proxy/http1_write.c \
                      proxy/refusal.c proxy/tls_io.c proxy/tls_provider.c proxy/tls_sessions.c proxy/tls_trust.c proxy/upstream.c proxy/pool.c proxy/kept_grant.c proxy/exchange.c \
                      proxy/foreign.c proxy/answer.c proxy/connection.c proxy/connections.c proxy/audit.c \
                      proxy/worker.c proxy/stream.c proxy/exchange_check.c proxy/exchange_answer.c \
                      proxy/exchange_record.c proxy/h1_box.c proxy/h1_origin.c proxy/connection_fsm.c \
                      proxy/connection_hello.c proxy/connection_record.c proxy/explicit.c proxy/socks5.c proxy/repeats.c proxy/nursery.c \
                      proxy/peers.c proxy/exchange_policy.c proxy/connection_policy.c \
                      proxy/connection_tunnel.c proxy/tunnel.c $(EXPLAIN) \
                      policy/list.c proxy/refusal_list.c proxy/params.c proxy/notice.c \
                      proxy/notice_connection.c proxy/notice_pages.c proxy/notice_policy.c \
                      proxy/h2.c proxy/h2_receive.c proxy/h2_send.c proxy/h2_flood.c proxy/h2_box.c \
                      proxy/connection_h2.c proxy/h2_origin.c proxy/limits.c proxy/exchange_limits.c
SRC.exeat-dialer := $(ROLE) $(POLICY) $(RECORD) proxy/audit.c proxy/resolver_cache.c proxy/resolver_query.c \
                      proxy/resolver.c proxy/dial.c proxy/dialer_ranges.c proxy/dialer_tickets.c \
                      proxy/dialer_job.c proxy/dialer_dial.c proxy/dialer_service.c proxy/dialer.c
SRC.exeat-broker := $(ROLE) $(POLICY) $(RECORD) broker/locked.c broker/secret.c broker/credential.c \
                      broker/der.c broker/ca.c broker/ca_seal.c proxy/tickets.c proxy/secret_table.c proxy/leaf_cache.c \
                      proxy/grant.c proxy/audit.c proxy/broker_asks.c proxy/broker_service.c proxy/broker.c
SRC.exeat-recorder := $(ROLE) $(RECORD) policy/digest.c proxy/log_line.c proxy/log_write.c proxy/log_sign.c \
                      proxy/recorder.c proxy/allowance.c proxy/journal.c proxy/journal_lines.c \
                      proxy/journal_held.c proxy/journal_batch.c
SRC.exeat-reader := $(ROLE) $(YAML) $(POLICY) $(COMPILER) proxy/reader.c
SRC.exeat-init := sandbox/init.c

PKG.exeat := libevent_core yaml-0.1 jansson libnftnl libmnl libcap-ng libseccomp libcrypto
PKG.exeat-worker := libevent_core libssl libcrypto libnghttp2 libcap-ng libseccomp libmnl
PKG.exeat-dialer := libevent_core libcares libcap-ng libseccomp libcrypto
PKG.exeat-broker := libevent_core libcrypto libcap-ng libseccomp
PKG.exeat-recorder := libevent_core libcap-ng libseccomp libcrypto
PKG.exeat-reader := libevent_core yaml-0.1 libpsl libcap-ng libseccomp libcrypto

PROGRAMS := exeat exeat-worker exeat-dialer exeat-broker exeat-recorder exeat-reader exeat-init
BINARIES := $(PROGRAMS:%=$(O)/%)
SRCS     := $(sort $(foreach p,$(PROGRAMS),$(SRC.$(p))))
HDRS     := $(wildcard conf/*.h policy/*.h sandbox/*.h broker/*.h proxy/*.h)
objects   = $(patsubst %.c,$(O)/%.o,$(1))
libs      = $(if $(1),$(shell pkg-config --libs $(1)))

.DEFAULT_GOAL := all
.PHONY: all run check lint compdb install uninstall man clean help deps fuzz bench FORCE
.SECONDARY:

all: $(BINARIES) ## build the programs

include tests/rules.mk

define program
$(O)/$(1): $(call objects,$(SRC.$(1)))
	$$(call SAY,LINK  $$@)
	$(Q)$$(LINK) -o $$@ $$(filter %.o,$$^) $$(call libs,$(PKG.$(1)))
endef
$(foreach p,$(filter-out exeat-init,$(PROGRAMS)),$(eval $(call program,$(p))))
# The one program that runs inside the box, whose libraries may be anyone's: static.
$(O)/exeat-init: $(call objects,$(SRC.exeat-init))
	$(call SAY,LINK  $@)
	$(Q)$(CC) -static -o $@ $^

$(O)/sandbox/init.o: COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -I. $(WARN) -O2 -g

$(O)/%.o: %.c $(O)/.flags
	@mkdir -p $(@D)
	$(call SAY,CC    $<)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<
$(O)/.flags: FORCE # a changed compiler or flag rebuilds, an unchanged one does not
	@mkdir -p $(@D); echo '$(COMPILE) $(LINK)' | cmp -s - $@ || echo '$(COMPILE) $(LINK)' > $@

deps: ## install what is missing (Debian packages)
	$(Q)sh conf/install-packages.sh build run

run: ## the main job, for real: a box, a policy, a credential, refusals, the log
	$(Q)sh conf/install-packages.sh build run demo
	$(Q)$(MAKE) --no-print-directory MODE=$(MODE) all
	$(Q)python3 tests/demo/demo.py $(O)

compdb: ## write compile_commands.json for clangd and clang-tidy
	$(Q){ s='['; for f in $(SRCS) $(UNIT); do printf '%s\n{"directory":"%s","file":"%s","command":"%s"}' \
	  "$$s" '$(CURDIR)' "$$f" '$(COMPILE) -c '"$$f"; s=','; done; printf '\n]\n'; } > compile_commands.json
install: ## build for release and install under DESTDIR/PREFIX
	$(Q)$(MAKE) --no-print-directory MODE=release all
	$(Q)install -D -m 0755 build/release/exeat $(DESTDIR)$(PREFIX)/bin/exeat
	$(Q)set -e; for p in $(filter-out exeat,$(PROGRAMS)); do \
	  install -D -m 0755 build/release/$$p $(DESTDIR)$(LIBEXEC)/$$p; done
	$(Q)set -e; for f in policy.yaml exeat.yaml; do \
	  install -D -m 0644 conf/examples/$$f $(DESTDIR)$(PREFIX)/share/doc/exeat/examples/$$f; done
	$(Q)set -e; for p in $(MAN); do \
	  install -D -m 0644 conf/man/$$p $(DESTDIR)$(PREFIX)/share/man/man$${p##*.}/$$p; \
	  sed -i 's|/usr/local/|$(PREFIX)/|' $(DESTDIR)$(PREFIX)/share/man/man$${p##*.}/$$p; done
	$(Q)install -d $(DESTDIR)$(UNITS)
	$(Q)sed 's|@PREFIX@|$(PREFIX)|' conf/systemd/exeat.service.in > $(DESTDIR)$(UNITS)/exeat.service
man: $(O)/exeat ## write those manual pages anew that are made of what the programs know
	$(Q)sh conf/man/make-pages.sh $(O) conf/man
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)
uninstall: ## take away what install has put there
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/exeat
	$(Q)rm -rf $(DESTDIR)$(LIBEXEC) $(DESTDIR)$(PREFIX)/share/doc/exeat $(DESTDIR)$(UNITS)/exeat.service
	$(Q)for p in $(MAN); do rm -f $(DESTDIR)$(PREFIX)/share/man/man$${p##*.}/$$p; done
clean: ## remove what was built
	rm -rf build compile_commands.json

-include $(SRCS:%.c=$(O)/%.d)
