#ifndef LEAT_IO_HTTP_H
#define LEAT_IO_HTTP_H

/* The longest time of making a connection, and of an answer with less than 64 bytes a second, before that is an error
 * that trying again may help against. Set by tests. */
extern long leat_http_connect_timeout_ms, leat_http_stall_s;

#endif
