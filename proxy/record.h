/* proxy/record.h - audit records: which kinds there are, who may write them, what fields they have
 *
 * A role puts a record together field by field and commits it to its ring; the recorder checks it
 * against these tables (kind allowed for the role, field known, type right, text within its cap),
 * stamps who wrote it and writes one line of JSON. Nothing in a record says which sandbox it is
 * from, but for the roles that serve several (FIELD sandbox).
 *
 * A record whose phase is "begin" (kind request) is held by the recorder and becomes a line of its
 * own only if the record with the same exchange is over RECORD_BEGIN_HOLD_MS away, or never comes.
 *
 * Ownership   the struct record holds its bytes; nothing to free.
 * Blocking    never.
 * Failure     sticky until record_commit(), which says what is wrong: ERR_FULL (ring full: wait for
 *             room), ERR_DENIED (the log cannot be written: refuse), ERR_LIMIT (a record over
 *             RING_RECORD_MAX: a bug, texts are cut to their cap), ERR_BUG (a field of another
 *             type, or twice).
 * Numbers     over INT64_MAX are written as that: readers of JSON know no larger ones.
 * Tests       tests/unit/proxy/test_record.c, fuzz/fuzz_record.c
 */
#ifndef PROXY_RECORD_H
#define PROXY_RECORD_H

#include "conf/buf.h"
#include "sandbox/ring.h"
#include "sandbox/roles.h"

#define RECORD_BEGIN_HOLD_MS 1000
#define BY(role) (1u << ROLE_##role)

/* kind, who may write it */
#define RECORD_KINDS(X)                                                                           \
	X(start,          BY(SUPERVISOR))                                                         \
	X(stop,           BY(SUPERVISOR))                                                         \
	X(sandbox_start,  BY(SUPERVISOR))                                                         \
	X(sandbox_stop,   BY(SUPERVISOR))                                                         \
	X(policy_load,    BY(SUPERVISOR))                                                         \
	X(policy_reject,  BY(SUPERVISOR))                                                         \
	X(worker_lost,    BY(SUPERVISOR))                                                         \
	X(dns,            BY(WORKER))                                                             \
	X(connect,        BY(WORKER))                                                             \
	X(connection,     BY(WORKER))                                                             \
	X(request,        BY(WORKER))                                                             \
	X(dial,           BY(DIALER))                                                             \
	X(credential,     BY(BROKER) | BY(WORKER))                                                \
	X(log_fault,      BY(RECORDER))   /* a torn line, or a role that broke these tables */     \
	X(checkpoint,     BY(RECORDER))   /* a signature over this line's seq and prev */         \
	X(rotated,        BY(RECORDER))   /* a file's last line */                                \
	X(continued,      BY(RECORDER))   /* a file's first line, by who put the one before aside */ \
	X(access_request, BY(SUPERVISOR)) /* a box asked for access, or an operator closed that */ \
	X(control,        BY(SUPERVISOR)) /* an operator asked for a change, or was refused */

/* name, type (STR, U64, BOOL), cap of a text in bytes (longer ones are cut and end in "...") */
#define RECORD_FIELDS(X)                                                                          \
	X(sandbox,       STR,  64)   /* only from roles that serve several */                     \
	X(phase,         STR,  16)   /* connection: open, close; request: begin, end */           \
	X(verdict,       STR,  16)                                                                \
	X(rule,          STR,  128)                                                               \
	X(rule_at,       STR,  512)                                                               \
	X(reason,        STR,  512)                                                               \
	X(refusal,       STR,  32)   /* the refusal's id, as the box saw it */                    \
	X(policy,        STR,  64)                                                                \
	X(name,          STR,  253)                                                               \
	X(type,          STR,  16)                                                                \
	X(rcode,         STR,  16)                                                                \
	X(answers,       STR,  512)                                                               \
	X(upstream,      STR,  64)   /* DNS server */                                             \
	X(cached,        BOOL, 0)                                                                 \
	X(connection,    U64,  0)                                                                 \
	X(exchange,      U64,  0)    /* number of the exchange, unique in its worker */           \
	X(stream,        U64,  0)                                                                 \
	X(destination,   STR,  253)  /* name or address that the box asked for */                 \
	X(synthetic,     STR,  46)                                                                \
	X(address,       STR,  46)   /* dialled */                                                \
	X(port,          U64,  0)                                                                 \
	X(via,           STR,  16)   /* connect, absolute, socks5: how the explicit proxy was asked */ \
	X(protocol,      STR,  16)                                                                \
	X(count,         U64,  0)                                                                 \
	X(suppressed,    U64,  0)                                                                 \
	X(tls,           STR,  16)   /* version towards the box, or "passthrough" */              \
	X(tls_upstream,  STR,  16)                                                                \
	X(sni,           STR,  253)                                                               \
	X(alpn,          STR,  16)                                                                \
	X(upstream_cert, STR,  64)   /* SHA-256 of the origin's certificate */                    \
	X(method,        STR,  32)                                                                \
	X(scheme,        STR,  8)                                                                 \
	X(host,          STR,  253)                                                               \
	X(path,          STR,  2048)                                                              \
	X(status,        U64,  0)                                                                 \
	X(credential,    STR,  128)                                                               \
	X(event,         STR,  32)   /* credential: granted, failed, stripped, refused */         \
	X(field,         STR,  64)   /* name of a stripped field, never its value */              \
	X(source,        STR,  16)                                                                \
	X(scrubbed,      U64,  0)                                                                 \
	X(bytes_up,      U64,  0)                                                                 \
	X(bytes_down,    U64,  0)                                                                 \
	X(ms,            U64,  0)                                                                 \
	X(ms_resolve,    U64,  0)                                                                 \
	X(ms_connect,    U64,  0)                                                                 \
	X(ms_tls,        U64,  0)                                                                 \
	X(ms_first_byte, U64,  0)                                                                 \
	X(proxy_error,   STR,  64)   /* Proxy-Status error type (RFC 9209 2.3) */                 \
	X(attempts,      STR,  512)                                                               \
	X(ended,         STR,  128)                                                               \
	X(version,       STR,  32)                                                                \
	X(config,        STR,  64)   /* digest of the settings */                                 \
	X(file,          STR,  512)                                                               \
	X(diagnostics,   STR,  4096)                                                              \
	X(isolation,     STR,  64)                                                                \
	X(rootfs,        STR,  512)                                                               \
	X(workspace,     STR,  512)                                                               \
	X(limits,        STR,  256)                                                               \
	X(command,       STR,  512)                                                               \
	X(exit,          U64,  0)                                                                 \
	X(role,          STR,  16)                                                                \
	X(pid,           U64,  0)                                                                 \
	X(signal,        U64,  0)                                                                 \
	X(seconds,       U64,  0)                                                                 \
	X(cpu_ms,        U64,  0)                                                                 \
	X(before,        STR,  64)   /* policy_load: the digest of what it replaces */            \
	X(number,        U64,  0)    /* of a request for access */                                \
	X(url,           STR,  4096) /* asked for */                                              \
	X(note,          STR,  512)  /* the operator's */                                         \
	X(peer_uid,      U64,  0)    /* who asked, over the control socket */                     \
	X(peer_pid,      U64,  0)                                                                 \
	X(found,         STR,  512)  /* start: what the one before has left */

enum record_kind {
#define X(name, by) RECORD_##name,
	RECORD_KINDS(X)
#undef X
	RECORD_KIND_COUNT
};

enum record_field {
#define X(name, type, cap) REC_##name,
	RECORD_FIELDS(X)
#undef X
	RECORD_FIELD_COUNT
};

struct record {
	enum err error;
	uint64_t has[(RECORD_FIELD_COUNT + 63) / 64];
	size_t n;
	unsigned char bytes[RING_RECORD_MAX];
};

/* Stamps the time (CLOCK_REALTIME, microseconds). */
void record_begin(struct record *r, enum record_kind kind);
/* An empty text is left out. */
void record_str(struct record *r, enum record_field f, struct str s);
void record_u64(struct record *r, enum record_field f, uint64_t v);
void record_bool(struct record *r, enum record_field f, bool v);
must_use enum err record_commit(struct record *r, struct ring *ring);
/* For the end of what has its begin on record: see ring_write_end(). */
must_use enum err record_commit_end(struct record *r, struct ring *ring);

/* For the recorder: what a record says of itself. */
struct json;
struct record_head {
	enum record_kind kind;
	uint64_t time_us;
	uint64_t exchange;
	bool has_exchange;
	bool begins;		/* kind request, phase "begin" */
	bool ends;		/* kind request, phase "end" */
	struct str sandbox;	/* what the record itself says: only roles that serve several may */
	struct str policy;
};

/* Checks @bytes for a writer of @role: ERR_DENIED for a kind or field that is not the role's to
 * write, ERR_SYNTAX or ERR_LIMIT for what record_commit() cannot have made. */
must_use enum err record_check(struct str bytes, enum role role, struct record_head *head);
/* After record_check() said OK: appends the fields to @json, an open object, but for sandbox and
 * policy, which are the caller's to stamp. */
void record_write_fields(struct str bytes, struct json *json);
const char *record_kind_name(enum record_kind k);

#endif
