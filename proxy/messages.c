#include "proxy/messages.h"

#include "conf/addr.h"

#define S ROLE_SUPERVISOR
#define W ROLE_WORKER
#define D ROLE_DIALER
#define B ROLE_BROKER
#define R ROLE_RECORDER
#define L ROLE_LAUNCHER

#define TEXT_MAX 1024
#define ADDRS_MAX (MSG_ADDRS_MAX * ADDR_PACKED)
#define PORTS_MAX (2 * 1024)
#define POLICIES_MAX 16

#define ROW(type_, from_, to_, phases_, struct_, ...)                                             \
	{ .type = MSG_##type_, .name = #type_, .from = (from_), .to = (to_), .phases = (phases_), \
	  .size = sizeof(struct struct_), __VA_ARGS__ }
#define FDS(min_, max_) .fds_min = (min_), .fds_max = (max_)

/* ROLE_ANY stands for whoever is at the channel's other end: READY comes from each role, SANDBOX
 * goes to two. */
const struct message_row exeat_messages[] = {
	ROW(WORKER_START, S, W, PHASE_START, msg_worker_start, .once = true,
	    FDS(FD_WORKER_POLICY + 1, FD_WORKER_POLICY + POLICIES_MAX), .fields = {
		F(struct msg_worker_start, STR, sandbox, MSG_SANDBOX_NAME_MAX),
		F(struct msg_worker_start, STR, link, 16),
		F(struct msg_worker_start, U32, ifindex, 0),
		F(struct msg_worker_start, U32, gateway, 0),
		F(struct msg_worker_start, U32, box, 0),
		F(struct msg_worker_start, STR, pool, ADDR_PORT_TEXT_MAX),
		F(struct msg_worker_start, U32, max_connections, 0),
		F(struct msg_worker_start, U32, max_headers, 0),
		F(struct msg_worker_start, U32, idle_ms, 0),
		F(struct msg_worker_start, U8, synced, 0),
		F(struct msg_worker_start, U64, memory, 0),
		F(struct msg_worker_start, U16, proxy_port, 0),
		F(struct msg_worker_start, STR, contact, MSG_CONTACT_MAX) }),
	ROW(DIALER_START, S, D, PHASE_START, msg_dialer_start, .once = true, FDS(3, 3), .fields = {
		F(struct msg_dialer_start, LIST, servers, 8),
		F(struct msg_dialer_start, U32, timeout_ms, 0),
		F(struct msg_dialer_start, LIST, names, 128),
		F(struct msg_dialer_start, LIST, own, MESSAGE_LIST_MAX),
		F(struct msg_dialer_start, U32, dials, 0),
		F(struct msg_dialer_start, U32, queued, 0) }),
	ROW(BROKER_START, S, B, PHASE_START, msg_broker_start, .once = true, FDS(4, 4), .fields = {
		F(struct msg_broker_start, U32, secrets, 0),
		F(struct msg_broker_start, U32, grants, 0),
		F(struct msg_broker_start, U32, queued, 0) }),
	ROW(RECORDER_START, S, R, PHASE_START, msg_recorder_start, .once = true, FDS(1, 2), .fields = {
		F(struct msg_recorder_start, STR, path, MSG_PATH_MAX),
		F(struct msg_recorder_start, U8, synced, 0),
		F(struct msg_recorder_start, U64, rotate_bytes, 0),
		F(struct msg_recorder_start, U32, rotate_seconds, 0),
		F(struct msg_recorder_start, U32, sandbox_bytes, 0) }),
	ROW(NURSERY_START, S, ROLE_NURSERY, PHASE_START, msg_nursery_start, .once = true, .fields = {
		F(struct msg_nursery_start, U8, trust_system, 0),
		F(struct msg_nursery_start, LIST, trust_files, 64) }),
	ROW(READ, S, ROLE_READER, PHASE_START, msg_read, .once = true, FDS(2, 2), .fields = {
		F(struct msg_read, STR, file, MSG_PATH_MAX),
		F(struct msg_read, U8, secrets_known, 0),
		F(struct msg_read, U8, quiet, 0),
		F(struct msg_read, LIST, secrets, MESSAGE_LIST_MAX),
		F(struct msg_read, LIST, secret_hosts, MESSAGE_LIST_MAX) }),
	ROW(READ_DONE, ROLE_READER, S, PHASE_START | PHASE_RUN, msg_read_done, .once = true, .fields = {
		F(struct msg_read_done, U8, ok, 0),
		F(struct msg_read_done, U32, errors, 0),
		F(struct msg_read_done, U32, warnings, 0),
		F(struct msg_read_done, STR, diagnostics, MSG_DIAGNOSTICS_MAX) }),
	ROW(READY, ROLE_ANY, S, PHASE_START | PHASE_RUN, msg_ready, .once = true, .fields = {
		F(struct msg_ready, U8, unused, 0) }),
	ROW(PING, S, ROLE_ANY, PHASE_RUN, msg_ping, .fields = { F(struct msg_ping, U32, id, 0) }),
	ROW(PONG, ROLE_ANY, S, PHASE_RUN, msg_ping, .fields = { F(struct msg_ping, U32, id, 0) }),

	ROW(LAUNCH, S, ROLE_ANY, PHASE_RUN, msg_launch, .fields = {
		F(struct msg_launch, U32, id, 0),
		F(struct msg_launch, U8, role, 0) }),
	ROW(LAUNCHED, ROLE_ANY, S, PHASE_RUN, msg_launched, FDS(0, 2), .fields = {
		F(struct msg_launched, U32, id, 0),
		F(struct msg_launched, U32, pid, 0),
		F(struct msg_launched, U32, code, 0) }),
	ROW(WIRE, S, L, PHASE_RUN, msg_wire, FDS(0, 1), .fields = {
		F(struct msg_wire, U32, id, 0),
		F(struct msg_wire, U32, index, 0),
		F(struct msg_wire, STR, netns, MSG_PATH_MAX) }),
	ROW(WIRED, L, S, PHASE_RUN, msg_wired, FDS(0, FD_WIRED_N), .fields = {
		F(struct msg_wired, U32, id, 0),
		F(struct msg_wired, U32, code, 0),
		F(struct msg_wired, STR, what, TEXT_MAX),
		F(struct msg_wired, STR, link, 16),
		F(struct msg_wired, U32, ifindex, 0),
		F(struct msg_wired, U32, gateway, 0),
		F(struct msg_wired, U32, box, 0) }),
	ROW(BOX, S, L, PHASE_RUN, msg_box, FDS(FD_BOX_N, FD_BOX_N), .fields = {
		F(struct msg_box, U32, id, 0),
		F(struct msg_box, STR, name, MSG_SANDBOX_NAME_MAX),
		F(struct msg_box, STR, rootfs, MSG_PATH_MAX),
		F(struct msg_box, STR, workspace, MSG_PATH_MAX),
		F(struct msg_box, STR, output, MSG_PATH_MAX),
		F(struct msg_box, LIST, kept, 8),
		F(struct msg_box, U32, nameserver, 0),
		F(struct msg_box, STR, ca_pem, MSG_PEM_MAX),
		F(struct msg_box, U32, arguments, 0),
		F(struct msg_box, U32, environment, 0),
		F(struct msg_box, U8, terminal, 0),
		F(struct msg_box, U64, memory, 0),
		F(struct msg_box, U32, processes, 0) }),
	ROW(BOXED, L, S, PHASE_RUN, msg_boxed, FDS(0, 1), .fields = {
		F(struct msg_boxed, U32, id, 0),
		F(struct msg_boxed, U8, ok, 0),
		F(struct msg_boxed, STR, text, TEXT_MAX) }),
	ROW(SOURCE, S, L, PHASE_RUN, msg_source, .fields = {
		F(struct msg_source, U32, id, 0),
		F(struct msg_source, STR, file, MSG_PATH_MAX) }),
	ROW(SOURCE_IS, L, S, PHASE_RUN, msg_source_is, FDS(0, 1), .fields = {
		F(struct msg_source_is, U32, id, 0),
		F(struct msg_source_is, STR, why, MSG_DIAGNOSTICS_MAX) }),
	ROW(KEEP_POLICY, S, L, PHASE_RUN, msg_keep_policy, FDS(1, 1), .fields = {
		F(struct msg_keep_policy, STR, digest, 64),
		F(struct msg_keep_policy, STR, file, MSG_PATH_MAX) }),
	ROW(ROTATE, S, L, PHASE_RUN, msg_rotate, .fields = { F(struct msg_rotate, U32, id, 0) }),
	ROW(ROTATED, L, S, PHASE_RUN, msg_log_file, FDS(0, 1), .fields = {
		F(struct msg_log_file, U32, code, 0) }),

	ROW(SANDBOX, S, ROLE_ANY, PHASE_RUN, msg_sandbox, FDS(FD_SANDBOX_POLICY + 1, FD_SANDBOX_POLICY + POLICIES_MAX),
	    .fields = {
		F(struct msg_sandbox, U32, sandbox, 0),
		F(struct msg_sandbox, U32, join, 0),
		F(struct msg_sandbox, STR, name, MSG_SANDBOX_NAME_MAX),
		F(struct msg_sandbox, STR, ca, MSG_SEALED_MAX) }),
	ROW(SANDBOX_CA, B, S, PHASE_RUN, msg_sandbox_ca, .fields = {
		F(struct msg_sandbox_ca, U32, sandbox, 0),
		F(struct msg_sandbox_ca, STR, pem, MSG_PEM_MAX),
		F(struct msg_sandbox_ca, STR, sealed, MSG_SEALED_MAX) }),
	ROW(SANDBOX_GONE, S, ROLE_ANY, PHASE_RUN, msg_sandbox_gone, .fields = {
		F(struct msg_sandbox_gone, U32, sandbox, 0) }),
	ROW(PEER, S, ROLE_ANY, PHASE_RUN, msg_peer, FDS(1, 1), .fields = {
		F(struct msg_peer, U32, sandbox, 0),
		F(struct msg_peer, U32, join, 0),
		F(struct msg_peer, U8, role, 0) }),
	ROW(POLICY, S, ROLE_ANY, PHASE_RUN, msg_policy, FDS(1, POLICIES_MAX), .fields = {
		F(struct msg_policy, U32, sandbox, 0) }),
	ROW(POLICY_TAKEN, ROLE_ANY, S, PHASE_RUN, msg_policy_taken, .fields = {
		F(struct msg_policy_taken, U32, sandbox, 0),
		F(struct msg_policy_taken, U8, ok, 0) }),
	ROW(SECRET, S, B, PHASE_START, msg_secret, FDS(1, 1), .fields = {
		F(struct msg_secret, STR, name, TEXT_MAX),
		F(struct msg_secret, U8, source, 0),
		F(struct msg_secret, STR, where, MSG_PATH_MAX),
		F(struct msg_secret, STR, hosts, MESSAGE_MAX / 2) }),
	ROW(SECRET_BAD, B, S, PHASE_START | PHASE_RUN, msg_secret_bad, .fields = {
		F(struct msg_secret_bad, STR, name, TEXT_MAX),
		F(struct msg_secret_bad, STR, why, TEXT_MAX) }),
	ROW(RING, S, R, PHASE_RUN, msg_ring, FDS(3, 3), .fields = {
		F(struct msg_ring, U32, number, 0),
		F(struct msg_ring, U8, role, 0),
		F(struct msg_ring, STR, sandbox, MSG_SANDBOX_NAME_MAX),
		F(struct msg_ring, STR, policy, 64) }),
	ROW(RING_END, S, R, PHASE_RUN, msg_ring_end, .fields = { F(struct msg_ring_end, U32, number, 0) }),
	ROW(RING_ENDED, R, S, PHASE_RUN, msg_ring_end, .fields = { F(struct msg_ring_end, U32, number, 0) }),
	ROW(RING_POLICY, S, R, PHASE_RUN, msg_ring_policy, .fields = {
		F(struct msg_ring_policy, U32, number, 0),
		F(struct msg_ring_policy, STR, policy, 64) }),
	ROW(DRAIN, S, R, PHASE_RUN, msg_drain, .fields = { F(struct msg_drain, U32, id, 0) }),
	ROW(DRAINED, R, S, PHASE_RUN, msg_drain, .fields = { F(struct msg_drain, U32, id, 0) }),
	ROW(LOG_STATE, R, S, PHASE_RUN, msg_log_state, .fields = {
		F(struct msg_log_state, U8, writable, 0),
		F(struct msg_log_state, U32, code, 0) }),
	ROW(LOG_FULL, R, S, PHASE_RUN, msg_log_full, .fields = { F(struct msg_log_full, U8, rotated, 0) }),
	ROW(LOG_FILE, S, R, PHASE_RUN, msg_log_file, FDS(0, 1), .fields = {
		F(struct msg_log_file, U32, code, 0) }),

	ROW(LEASE, W, S, PHASE_RUN, msg_lease, .fields = {
		F(struct msg_lease, U32, id, 0),
		F(struct msg_lease, STR, name, MSG_NAME_MAX),
		F(struct msg_lease, STR, ports, PORTS_MAX) }),
	ROW(LEASED, S, W, PHASE_RUN, msg_leased, .fields = {
		F(struct msg_leased, U32, id, 0),
		F(struct msg_leased, U8, ok, 0),
		F(struct msg_leased, U32, address, 0) }),
	ROW(ACCESS, W, S, PHASE_RUN, msg_access, .fields = {
		F(struct msg_access, U32, id, 0),
		F(struct msg_access, STR, method, 64),
		F(struct msg_access, STR, url, MSG_URL_MAX),
		F(struct msg_access, STR, reason, MSG_REASON_MAX) }),
	ROW(ACCESS_TAKEN, S, W, PHASE_RUN, msg_access_taken, .fields = {
		F(struct msg_access_taken, U32, id, 0),
		F(struct msg_access_taken, U32, number, 0),
		F(struct msg_access_taken, STR, why, TEXT_MAX) }),

	ROW(RESOLVE, W, D, PHASE_RUN, msg_resolve, .fields = {
		F(struct msg_resolve, U32, id, 0),
		F(struct msg_resolve, STR, name, MSG_NAME_MAX) }),
	ROW(RESOLVED, D, W, PHASE_RUN, msg_resolved, .fields = {
		F(struct msg_resolved, U32, id, 0),
		F(struct msg_resolved, U8, status, 0),
		F(struct msg_resolved, U8, cached, 0),
		F(struct msg_resolved, U32, ttl, 0),
		F(struct msg_resolved, U32, ms, 0),
		F(struct msg_resolved, STR, server, ADDR_PORT_TEXT_MAX),
		F(struct msg_resolved, STR, addrs, ADDRS_MAX),
		F(struct msg_resolved, STR, why, TEXT_MAX) }),
	ROW(DIAL, W, D, PHASE_RUN, msg_dial, .fields = {
		F(struct msg_dial, U32, id, 0),
		F(struct msg_dial, STR, name, MSG_NAME_MAX),
		F(struct msg_dial, U8, literal, 0),
		F(struct msg_dial, U16, port, 0) }),
	ROW(DIALED, D, W, PHASE_RUN, msg_dialed, FDS(0, 1), .fields = {
		F(struct msg_dialed, U32, id, 0),
		F(struct msg_dialed, U8, status, 0),
		F(struct msg_dialed, U8, resolve, 0),
		F(struct msg_dialed, STR, addr, ADDR_PACKED),
		F(struct msg_dialed, U64, ticket, 0),
		F(struct msg_dialed, U32, resolve_ms, 0),
		F(struct msg_dialed, U32, connect_ms, 0),
		F(struct msg_dialed, STR, attempts, TEXT_MAX) }),
	ROW(HANGUP, W, D, PHASE_RUN, msg_hangup, .fields = { F(struct msg_hangup, U64, ticket, 0) }),

	ROW(PUBKEY, W, B, PHASE_RUN, msg_pubkey, .once = true, .fields = {
		F(struct msg_pubkey, STR, spki, MSG_DER_MAX) }),
	ROW(LEAF, W, B, PHASE_RUN, msg_leaf, .fields = {
		F(struct msg_leaf, U32, id, 0),
		F(struct msg_leaf, STR, name, MSG_NAME_MAX),
		F(struct msg_leaf, U8, literal, 0) }),
	ROW(LEAF_IS, B, W, PHASE_RUN, msg_leaf_is, .fields = {
		F(struct msg_leaf_is, U32, id, 0),
		F(struct msg_leaf_is, U8, ok, 0),
		F(struct msg_leaf_is, STR, leaf, MSG_DER_MAX),
		F(struct msg_leaf_is, STR, ca, MSG_DER_MAX) }),
	ROW(GRANT, W, B, PHASE_RUN, msg_grant, .fields = {
		F(struct msg_grant, U32, id, 0),
		F(struct msg_grant, U64, ticket, 0),
		F(struct msg_grant, U8, proto, 0),
		F(struct msg_grant, STR, method, 64),
		F(struct msg_grant, STR, path, MSG_URL_PATH_MAX) }),
	ROW(GRANTED, B, W, PHASE_RUN, msg_granted, .secret = true, .fields = {
		F(struct msg_granted, U32, id, 0),
		F(struct msg_granted, U8, status, 0),
		F(struct msg_granted, U8, lasts, 0),
		F(struct msg_granted, STR, credential, TEXT_MAX),
		F(struct msg_granted, LIST, fields, 8),
		F(struct msg_granted, LIST, values, 8),
		F(struct msg_granted, LIST, patterns, 16) }),

	ROW(TICKET, D, B, PHASE_RUN, msg_ticket, .fields = {
		F(struct msg_ticket, U64, ticket, 0),
		F(struct msg_ticket, STR, name, MSG_NAME_MAX),
		F(struct msg_ticket, U8, literal, 0),
		F(struct msg_ticket, U16, port, 0),
		F(struct msg_ticket, STR, addr, ADDR_PACKED) }),
	ROW(TICKET_END, D, B, PHASE_RUN, msg_ticket_end, .fields = {
		F(struct msg_ticket_end, U64, ticket, 0) }),
	ROW(TICKETS_TOLD, D, B, PHASE_RUN, msg_tickets_told, .once = true, .fields = {
		F(struct msg_tickets_told, U8, unused, 0) }),

	ROW(SANDBOX_LOST, ROLE_ANY, S, PHASE_RUN, msg_sandbox_lost, .fields = {
		F(struct msg_sandbox_lost, U32, sandbox, 0),
		F(struct msg_sandbox_lost, U32, join, 0),
		F(struct msg_sandbox_lost, STR, why, TEXT_MAX) }),
	{ 0 },
};
