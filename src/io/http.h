#ifndef LEAT_IO_HTTP_H
#define LEAT_IO_HTTP_H

/* How long a connection may take to be made, and how long an answer may bring less than 64 bytes a second, before that
 * is an error that trying again may help against. Set by tests. */
extern long leat_http_connect_timeout_ms, leat_http_stall_s;

#endif
