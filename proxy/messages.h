/* proxy/messages.h - every message between Exeat's roles
 *
 * The channel names the sandbox: worker channels are made for one worker, so no message from a
 * worker says which sandbox it is. Requests carry an @id that the answer repeats; the asker chooses
 * it, the answerer does not interpret it.
 *
 * Ownership   str and list fields borrow (sandbox/message.h).
 * Blocking    never.       Failure  see sandbox/message.h.
 * Tests       tests/unit/proxy/test_messages.c walks the table by phase and direction;
 *             fuzz/fuzz_message.c decodes every row.
 */
#ifndef PROXY_MESSAGES_H
#define PROXY_MESSAGES_H

#include "sandbox/message.h"

extern const struct message_row exeat_messages[];

enum message_type {
	/* supervisor to a role: once, before it confines itself; then READY comes back */
	MSG_WORKER_START = 1,
	MSG_DIALER_START,
	MSG_BROKER_START,
	MSG_RECORDER_START,
	MSG_NURSERY_START,
	MSG_READ,		/* to the reader */
	MSG_READY,
	MSG_PING,		/* to any role: is it alive? */
	MSG_PONG,
	/* supervisor to launcher (LAUNCH of a worker: to the nursery) */
	MSG_LAUNCH,
	MSG_LAUNCHED,
	MSG_WIRE,		/* a box's wire, or one into a namespace that is there */
	MSG_WIRED,
	MSG_BOX,		/* a container on it */
	MSG_BOXED,
	MSG_SOURCE,		/* a policy's file is to be read */
	MSG_SOURCE_IS,
	MSG_KEEP_POLICY,	/* a policy's source is kept beside the log */
	MSG_ROTATE,		/* the log's file is put aside, and a new one opened */
	MSG_ROTATED,
	/* supervisor to dialer and broker: a sandbox is there, with its channels and policy */
	MSG_SANDBOX,
	MSG_SANDBOX_CA,		/* broker: the sandbox's CA certificate */
	MSG_SANDBOX_GONE,	/* it is over, or its worker is: all of it is forgotten */
	MSG_PEER,		/* to worker, dialer, broker: a dead one's successor's channel */
	MSG_POLICY,		/* to worker, dialer, broker: the sandbox's policy from now on */
	MSG_POLICY_TAKEN,
	MSG_SECRET,		/* to the broker, before READY: one secret's source */
	MSG_SECRET_BAD,
	MSG_RING,		/* to the recorder: a ring to read */
	MSG_RING_END,		/* its writer is gone: what is in it is written, and it is closed */
	MSG_RING_ENDED,
	MSG_RING_POLICY,	/* a digest that its records may name from now on */
	MSG_DRAIN,		/* to the recorder: write down all there is */
	MSG_DRAINED,
	MSG_LOG_STATE,		/* recorder: the log cannot be written, or can again */
	MSG_LOG_FULL,		/* recorder: rotate the file, or another writer has done so */
	MSG_LOG_FILE,		/* to the recorder: the new file */
	MSG_READ_DONE,
	/* worker and supervisor */
	MSG_ACCESS,		/* the box asks for something that it may not do */
	MSG_ACCESS_TAKEN,
	MSG_LEASE,
	MSG_LEASED,
	/* worker and dialer */
	MSG_RESOLVE,
	MSG_RESOLVED,
	MSG_DIAL,
	MSG_DIALED,
	MSG_HANGUP,
	/* worker and broker */
	MSG_PUBKEY,
	MSG_LEAF,
	MSG_LEAF_IS,
	MSG_GRANT,
	MSG_GRANTED,
	/* dialer to broker */
	MSG_TICKET,
	MSG_TICKET_END,
	MSG_TICKETS_TOLD,	/* once: all that were there before the channel was */
	/* dialer and broker to supervisor: a sandbox's worker broke the rules of its channel */
	MSG_SANDBOX_LOST,
};

/* Descriptors come in the order of these lists; FD_..._POLICY and what follows it: the images of
 * the policy stack. A ring is three: memory, wake, room. */
enum { FD_WORKER_TPROXY, FD_WORKER_DNS_UDP, FD_WORKER_DNS_TCP, FD_WORKER_NFLOG, FD_WORKER_LEASES,
       FD_WORKER_RING, FD_WORKER_DIALER = FD_WORKER_RING + 3, FD_WORKER_BROKER, FD_WORKER_POLICY };
/* OTHER: for the dialer the broker, for the broker the dialer. */
enum { FD_SANDBOX_WORKER, FD_SANDBOX_OTHER, FD_SANDBOX_POLICY };

#define MSG_NAME_MAX 253
#define MSG_SANDBOX_NAME_MAX 64
#define MSG_PATH_MAX 4096
#define MSG_SEALED_MAX 4096		/* a CA, sealed by the broker */
#define MSG_REASON_MAX 1024
#define MSG_URL_MAX 4096
#define MSG_CONTACT_MAX 1024	/* whom a box's people ask, in the operator's words */
#define MSG_DER_MAX 4096		/* a certificate, a public key */
#define MSG_PEM_MAX 8192
#define MSG_DIAGNOSTICS_MAX 8192	/* more than a record takes */
#define MSG_SECRETS_MAX 256		/* of all sandboxes together */
#define MSG_URL_PATH_MAX 32768
/* So many answers may a worker leave unread at one peer, which gives its sandbox up with the next:
 * a worker that asks without reading costs its peer no more. */
#define MSG_CREDITS 4096
#define MSG_CONNECTIONS_MAX 16384	/* of a box; each takes two descriptors of its worker */
#define MSG_ADDRS_MAX 16		/* addresses of one answer that are passed on */

struct msg_worker_start {
	struct str sandbox;
	struct str link;		/* the veth, in the gateway */
	uint32_t ifindex;
	uint32_t gateway, box;		/* host order */
	struct str pool;		/* the synthetic range, as text */
	uint32_t max_connections, max_headers, idle_ms;
	uint8_t synced;			/* a request waits until its record is on the disk */
	uint64_t memory;		/* bytes that it may have */
	uint16_t proxy_port;		/* of the gateway's address; 0: no explicit proxy */
	struct str contact;		/* for the notice page; may be empty */
};

struct msg_nursery_start {		/* what all workers have in common */
	uint8_t trust_system;
	struct str_list trust_files;	/* PEM, added to the system's */
};

struct msg_dialer_start {
	struct str_list servers;	/* "ADDR:PORT"; empty: the system's */
	uint32_t timeout_ms;
	struct str_list names;		/* "name=ADDR,ADDR": answered before any server */
	struct str_list own;		/* the host's own ranges: never dialled */
	uint32_t dials;			/* a sandbox may have under way */
	uint32_t queued;		/* bytes that may wait for its worker */
};

struct msg_broker_start {	/* descriptors: a ring's three, the key that CAs are sealed with */
	uint32_t secrets;		/* so many MSG_SECRET follow */
	uint32_t grants;		/* a sandbox gets in a second */
	uint32_t queued;		/* bytes that may wait for its worker */
};

struct msg_recorder_start {
	struct str path;	/* to be told; descriptors: the file, the signing key's file */
	uint8_t synced;			/* log.durability */
	uint64_t rotate_bytes;		/* 0: never */
	uint32_t rotate_seconds;	/* 0: never */
	uint32_t sandbox_bytes;		/* of a sandbox's records are written in a second */
};

struct msg_read {
	struct str file;		/* to be told; descriptors: file, memfd */
	uint8_t secrets_known;
	uint8_t quiet;			/* say nothing of a policy that loads */
	struct str_list secrets;	/* names */
	struct str_list secret_hosts;	/* for each, its hosts, separated by spaces */
};

struct msg_read_done {
	uint8_t ok;
	uint32_t errors, warnings;
	struct str diagnostics;		/* as printed, its first MSG_DIAGNOSTICS_MAX bytes */
};

struct msg_ready {
	uint8_t unused;
};

struct msg_ping {
	uint32_t id;
};

struct msg_launch {
	uint32_t id;
	uint8_t role;
};

struct msg_launched {			/* descriptors, where it was: channel, pidfd */
	uint32_t id;
	uint32_t pid;		/* a child of the supervisor, of a failed start, too; or 0 */
	uint32_t code;			/* errno; 0: it was started */
};

struct msg_wire {			/* descriptors: none, or a network namespace to attach to */
	uint32_t id;
	uint32_t index;			/* of the /30 */
	struct str netns;		/* a path of one to attach to, where no descriptor came */
};

struct msg_wired {			/* descriptors, where it worked: FD_WIRED_... */
	uint32_t id;
	uint32_t code;			/* errno; 0: it worked */
	struct str what;		/* the step that failed */
	struct str link;
	uint32_t ifindex;
	uint32_t gateway, box;		/* host order */
};
enum { FD_WIRED_NETNS, FD_WIRED_TPROXY, FD_WIRED_DNS_UDP, FD_WIRED_DNS_TCP, FD_WIRED_NFLOG,
       FD_WIRED_N };

struct msg_box {			/* descriptors: FD_BOX_... */
	uint32_t id;
	struct str name;		/* of the container and its folder */
	struct str rootfs, workspace;	/* empty: made, ephemeral */
	struct str output;	/* a file to write to, instead of FD_BOX_OUT and FD_BOX_ERR */
	struct str_list kept;		/* files that the box must not change */
	uint32_t nameserver;		/* host order */
	struct str ca_pem;
	/* So many texts each, ended by a 0, in FD_BOX_TEXTS. */
	uint32_t arguments, environment;
	uint8_t terminal;
	uint64_t memory;		/* bytes; 0: as the machine has it */
	uint32_t processes;
};
enum { FD_BOX_NETNS, FD_BOX_TEXTS, FD_BOX_IN, FD_BOX_OUT, FD_BOX_ERR, FD_BOX_N };

struct msg_boxed {			/* descriptor, where it works: the keeper's channel */
	uint32_t id;
	uint8_t ok;			/* 0: @text says why not */
	struct str text;		/* "container/runc 1.1.5" */
};

struct msg_source {
	uint32_t id;
	struct str file;
};

struct msg_source_is {		/* descriptor, where it was read: its bytes, sealed */
	uint32_t id;
	struct str why;			/* it was not */
};

struct msg_keep_policy {		/* descriptor: the source, as it came with SOURCE_IS */
	struct str digest;
	struct str file;		/* as it was compiled */
};

struct msg_rotate {
	uint32_t id;
};

struct msg_sandbox_gone {
	uint32_t sandbox;
};

struct msg_peer {			/* descriptor: the channel */
	uint32_t sandbox;		/* 0 to a worker: it has one only */
	uint32_t join;
	uint8_t role;			/* who is at its other end */
};

struct msg_policy {			/* descriptors: the images */
	uint32_t sandbox;
};

struct msg_policy_taken {
	uint32_t sandbox;
	uint8_t ok;
};

struct msg_ring_end {
	uint32_t number;
};

struct msg_ring_policy {
	uint32_t number;
	struct str policy;		/* digest; this one and the one before it are accepted */
};

struct msg_log_full {
	uint8_t rotated;	/* another writer has done it: only the new file is wanted */
};

/* MSG_LOG_FILE and MSG_ROTATED */
struct msg_log_file {		/* descriptor, where it worked: opened for reading and appending */
	uint32_t code;			/* errno; 0: it worked */
};

struct msg_access {
	uint32_t id;
	struct str method, url, reason;
};

struct msg_access_taken {
	uint32_t id;
	uint32_t number;		/* of the request; 0: @why not */
	struct str why;
};

struct msg_sandbox {
	uint32_t sandbox;		/* the supervisor's number for it */
	uint32_t join;		/* a number of its own for each worker that it has had */
	struct str name;
	struct str ca;		/* to the broker, of a sandbox that has one: as it was sealed */
};

struct msg_sandbox_ca {
	uint32_t sandbox;
	struct str pem;			/* empty: the broker could not take the sandbox */
	struct str sealed;		/* with its key, for the broker's successor alone */
};

enum secret_source { SECRET_FROM_FILE, SECRET_FROM_ENV };

struct msg_secret {
	struct str name;
	uint8_t source;			/* enum secret_source */
	struct str where;		/* path or variable, for errors to the operator */
	struct str hosts;		/* separated by spaces */
};

struct msg_secret_bad {
	struct str name;
	struct str why;
};

struct msg_ring {
	uint32_t number;		/* the supervisor's */
	uint8_t role;			/* who writes it: decides which kinds it may */
	struct str sandbox;		/* empty for roles that serve several */
	struct str policy;		/* digest in force, for a worker's ring */
};

struct msg_drain {
	uint32_t id;
};

struct msg_log_state {
	uint8_t writable;
	uint32_t code;			/* errno */
};

struct msg_lease {
	uint32_t id;
	struct str name;
	struct str ports;		/* u16 each, little endian: what the policy could allow */
};

struct msg_leased {
	uint32_t id;
	uint8_t ok;			/* 0: the table is full, or the kernel refused */
	uint32_t address;
};

enum resolve_status {
	RESOLVE_OK,
	RESOLVE_NODATA,
	RESOLVE_NXDOMAIN,
	RESOLVE_SERVFAIL,	/* upstream said so, or something that cannot be used */
	RESOLVE_TIMEOUT,
	RESOLVE_PROHIBITED,	/* every address lies in a prohibited range */
	RESOLVE_DENIED,		/* the dialer's own reading of the policy */
	RESOLVE_QUOTA,
};

struct msg_resolve {
	uint32_t id;
	struct str name;
};

struct msg_resolved {
	uint32_t id;
	uint8_t status;			/* enum resolve_status */
	uint8_t cached;
	uint32_t ttl;			/* seconds left */
	uint32_t ms;
	struct str server;		/* who said so, as text; "settings" for resolver.names */
	struct str addrs;		/* ADDR_PACKED bytes each, vetted ones only */
	struct str why;			/* the range's name, for RESOLVE_PROHIBITED */
};

enum dial_status {
	DIAL_OK,
	DIAL_REFUSED,		/* ECONNREFUSED from each address */
	DIAL_TIMEOUT,
	DIAL_UNREACHABLE,
	DIAL_NO_NAME,		/* does not resolve; @resolve says how */
	DIAL_PROHIBITED,	/* address in a prohibited range */
	DIAL_DENIED,		/* the dialer's own reading of the policy */
	DIAL_QUOTA,
	DIAL_FAILED,
};

struct msg_dial {
	uint32_t id;
	struct str name;		/* canonical name, or an address as text where @literal */
	uint8_t literal;
	uint16_t port;
};

struct msg_dialed {			/* one descriptor when DIAL_OK: connected, non-blocking */
	uint32_t id;
	uint8_t status;			/* enum dial_status */
	uint8_t resolve;		/* enum resolve_status, for DIAL_NO_NAME */
	struct str addr;		/* ADDR_PACKED: connected to, or tried last */
	uint64_t ticket;		/* names this connection to the broker */
	uint32_t resolve_ms, connect_ms;
	struct str attempts;		/* "203.0.113.10: connection refused; ..." for the log */
};

struct msg_hangup {
	uint64_t ticket;
};

struct msg_pubkey {
	struct str spki;		/* DER */
};

struct msg_leaf {
	uint32_t id;
	struct str name;		/* canonical name or address as text */
	uint8_t literal;
};

struct msg_leaf_is {
	uint32_t id;
	uint8_t ok;			/* 0: not to be allowed, or no signature */
	struct str leaf, ca;		/* DER; the CA's comes with a refusal, too */
};

enum grant_status {
	GRANT_NONE,		/* the deciding rule names no credential: send as it is */
	GRANT_OK,
	GRANT_DENIED,		/* the broker's own reading: not allowed, or not bound there */
	GRANT_NO_TICKET,	/* no such live connection */
	GRANT_UNAVAILABLE,	/* the secret has no usable value */
	GRANT_PLAINTEXT,	/* not over plain HTTP */
	GRANT_QUOTA,		/* more in one second than the sandbox may have */
};

struct msg_grant {
	uint32_t id;
	uint64_t ticket;		/* says name, address and port */
	uint8_t proto;			/* enum proto: https means verified TLS to the origin */
	struct str method, path;	/* as decided on */
};

struct msg_granted {
	uint32_t id;
	uint8_t status;			/* enum grant_status */
	uint8_t lasts;			/* for whatever is asked on this connection */
	struct str credential;		/* its name, for the record */
	struct str_list fields, values;	/* to set; what the box sent is dropped */
	struct str_list patterns;	/* what to look for in the answer */
};

struct msg_ticket {
	uint64_t ticket;
	struct str name;
	uint8_t literal;
	uint16_t port;
	struct str addr;		/* ADDR_PACKED */
};

struct msg_ticket_end {
	uint64_t ticket;
};

struct msg_tickets_told {
	uint8_t unused;
};

struct msg_sandbox_lost {
	uint32_t sandbox, join;		/* as they came: a later worker is not meant */
	struct str why;
};

#endif
