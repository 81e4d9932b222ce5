/* proxy/version.h - which Exeat this is
 *
 * Ownership   static.       Blocking  never.       Failure  none.
 * Tests       tests/e2e
 */
#ifndef PROXY_VERSION_H
#define PROXY_VERSION_H

#define EXEAT_VERSION "0.1.0"

#endif
