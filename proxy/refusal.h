/* proxy/refusal.h - the words of a refusal, the same for the box and for the log
 *
 * One table says for each reason: HTTP status, Proxy-Status error type (RFC 9209 2.3), TLS alert,
 * whether trying again can help, and the sentence. Each refusal has one id, made here; it stands in
 * the box's answer and in the record.
 *
 * Ownership   texts are static; output goes into the caller's buffers.
 * Blocking    never.       Failure  sticky in the buffers.
 * Tests       tests/unit/proxy/test_refusal.c
 */
#ifndef PROXY_REFUSAL_H
#define PROXY_REFUSAL_H

#include "proxy/fields.h"

enum retry { RETRY_NEVER, RETRY_LATER, RETRY_ASK };

/* name (as logged), HTTP status, Proxy-Status error, TLS alert, retry, title */
#define REFUSALS(X)                                                                               \
	X(policy,                   403, "http_request_denied",       49, ASK,   "Refused by policy") \
	X(no_sni,                   403, "http_request_denied",      112, NEVER, "No server name in the TLS hello") \
	X(sni_mismatch,             421, "http_request_denied",      112, NEVER, "The TLS server name is not the name that was resolved") \
	X(not_tls,                  400, "http_request_denied",       49, NEVER, "Not TLS, where the rule wants TLS") \
	X(not_http,                 400, "http_request_error",        49, NEVER, "Not HTTP") \
	X(bad_hello,                400, "http_request_denied",       50, NEVER, "Malformed TLS hello") \
	X(hello_too_long,           400, "http_request_denied",       50, NEVER, "TLS hello over the limit") \
	X(hello_timeout,            408, "http_request_denied",       80, LATER, "No complete TLS hello in time") \
	X(no_alpn,                  400, "http_request_denied",      120, NEVER, "None of the offered application protocols is spoken here") \
	X(no_leaf,                  503, "proxy_internal_error",      80, LATER, "No certificate could be made for the name") \
	X(host_mismatch,            421, "http_request_denied",        0, NEVER, "Host is not the name that was resolved") \
	X(bad_request,              400, "http_request_error",         0, NEVER, "Malformed HTTP request") \
	X(bad_host,                 400, "http_request_error",         0, NEVER, "Host is no host name") \
	X(ambiguous_path,           403, "http_request_denied",        0, NEVER, "A path that servers read in different ways") \
	X(method_refused,           403, "http_request_denied",        0, NEVER, "CONNECT and TRACE are always refused") \
	X(expectation_failed,       417, "http_request_error",         0, NEVER, "An expectation that is not met here") \
	X(headers_too_large,        431, "http_request_error",         0, NEVER, "Header fields over the limit") \
	X(uri_too_long,             414, "http_request_error",         0, NEVER, "Request target over the limit") \
	X(not_implemented,          501, "http_request_error",         0, NEVER, "Not a transfer coding that is understood here") \
	X(version_not_supported,    505, "http_request_error",         0, NEVER, "Not a version of HTTP that is spoken here") \
	X(request_timeout,          408, "http_request_error",         0, LATER, "The request was not complete in time") \
	X(proxy_loop,             502, "proxy_loop_detected",        0, NEVER, "The gateway itself: nothing is proxied there") \
	X(socks_unsupported,      501, "http_request_denied",        0, NEVER, "Of SOCKS, only CONNECT of version 5, without authentication, is spoken here") \
	X(foreign_credential,       403, "http_request_denied",        0, NEVER, "The request brought a credential of its own") \
	X(credential_denied,        403, "http_request_denied",        0, ASK,   "The credential may not go there") \
	X(credential_unavailable,   502, "proxy_configuration_error",  0, LATER, "The credential has no usable value") \
	X(credential_plaintext,     403, "http_request_denied",        0, NEVER, "A credential is not put on over plain HTTP") \
	X(answer_undecodable,       502, "http_response_content_coding", 0, NEVER, "The answer came in a coding that cannot be searched for the credential") \
	X(log_unavailable,          503, "proxy_internal_error",      80, LATER, "The audit log cannot be written") \
	X(too_many_connections,     503, "connection_limit_reached",  80, LATER, "Too many connections from this sandbox") \
	X(too_many_dials,           503, "connection_limit_reached",  80, LATER, "Too many connections to origins are under way for this sandbox") \
	X(too_many_grants,          429, "http_request_denied",        0, LATER, "More requests with a credential than this sandbox may send in a second") \
	X(limit_reached,            429, "http_request_denied",       80, LATER, "A limit of the rule is reached") \
	X(upload_too_large,         413, "http_request_denied",        0, NEVER, "More is sent than the rule lets through") \
	X(download_too_large,       502, "http_response_body_size",    0, NEVER, "The answer is larger than the rule lets through") \
	X(internal,                 503, "proxy_internal_error",      80, LATER, "Exeat cannot do this now") \
	X(dns_failed,               502, "dns_error",                 80, LATER, "The name could not be resolved") \
	X(dns_timeout,              504, "dns_timeout",               80, LATER, "The name could not be resolved in time") \
	X(destination_prohibited,   502, "destination_ip_prohibited", 49, NEVER, "The name resolves into a prohibited address range") \
	X(connection_refused,       502, "connection_refused",        80, LATER, "The origin refused the connection") \
	X(connection_timeout,       504, "connection_timeout",        80, LATER, "The origin did not answer in time") \
	X(destination_unreachable,  502, "destination_ip_unroutable", 80, LATER, "No route to the origin") \
	X(connection_terminated,    502, "connection_terminated",      0, LATER, "The origin closed the connection before it had answered") \
	X(tls_protocol,             502, "tls_protocol_error",         0, LATER, "The TLS handshake with the origin failed") \
	X(tls_alert,                502, "tls_alert_received",         0, LATER, "The origin ended the TLS handshake with an alert") \
	X(tls_certificate,          502, "tls_certificate_error",      0, NEVER, "The origin's certificate did not verify") \
	X(response_timeout,         504, "http_response_timeout",      0, LATER, "The origin did not answer the request in time") \
	X(answer_unread,            408, "http_request_error",         0, LATER, "The client did not read its answer in time") \
	X(response_incomplete,      502, "http_response_incomplete",   0, LATER, "The origin's answer broke off") \
	X(response_malformed,       502, "http_protocol_error",        0, NEVER, "The origin's answer is no valid HTTP") \
	X(response_headers_large,   502, "http_response_header_section_size", 0, NEVER, "The origin's header fields are over the limit") \
	X(upgrade_unsupported,      502, "http_upgrade_failed",        0, NEVER, "Upgrades are not carried yet")

enum refusal_reason {
#define X(name, status, error, alert, retry, title) REFUSAL_##name,
	REFUSALS(X)
#undef X
	REFUSAL_COUNT
};

#define REFUSAL_RETRY_S 5	/* for RETRY_LATER: when */
#define REFUSAL_HELP "http://exeat.internal/refusals"	/* where the box can look further */
#define REFUSAL_DETAILS_MAX 512	/* bytes of Proxy-Status details */
#define REFUSAL_PHRASE_MAX 320	/* apt cuts off at 360 */

struct refusal {
	enum refusal_reason reason;
	char id[17];			/* 16 hex digits */
	struct str rule;		/* the deciding rule's id, or "default"; empty where none decided */
	struct str why;			/* the rule's reason, or the exact error ("certificate has expired") */
	struct str host, method, path;	/* path without query */
	uint32_t retry_s;		/* when, for RETRY_LATER; 0: REFUSAL_RETRY_S */
};

/* Fills in a new random id. */
void refusal_id(struct refusal *r);
unsigned refusal_status(enum refusal_reason reason);
uint8_t refusal_alert(enum refusal_reason reason);
/* Our trouble, or the origin's, with what is allowed? Else it is a no. */
bool refusal_is_trouble(enum refusal_reason reason);
const char *refusal_name(enum refusal_reason reason);	/* "connection-refused": with hyphens, as logged */
const char *refusal_error(enum refusal_reason reason);	/* Proxy-Status error type */
const char *refusal_retry(enum refusal_reason reason);	/* "never", "later", "ask" */
/* The answer: fields (content-type, content-length, proxy-status, cache-control, retry-after where
 * trying later can help) and body (application/problem+json, RFC 9457). The problem's type is
 * "urn:exeat:refusal:" and the reason's name. */
void refusal_answer(const struct refusal *r, struct fields *fields, struct buf *body);
/* The same for gRPC, whose clients look at nothing else: status 7, "permission denied", for a no and
 * 14, "unavailable", for trouble and for what may pass later, with the phrase as its message. The
 * answer is a head alone, with status 200. */
void refusal_grpc(const struct refusal *r, struct fields *fields);
/* The reason phrase of the status line: title, rule, its reason, the id. Many clients show nothing
 * else of an answer that is an error. */
void refusal_phrase(const struct refusal *r, struct buf *out);
/* Removes from an origin's answer the marks that only Exeat's own may bear: members of Proxy-Status
 * that name exeat, and a Proxy-Status that is malformed (RFC 8941: it could be read either way). An
 * answer whose Proxy-Status does not name exeat is the origin's, whatever its body says. */
void refusal_strip_marks(struct fields *fields);

#endif
