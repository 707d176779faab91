#ifndef LEAT_IO_HTTP_H
#define LEAT_IO_HTTP_H

/* The longest time of an answer with less than 64 bytes a second, before that is an error that trying again may help
 * against. LEAT_REPLACEABLE. */
long leat_http_stall_s(void);

#endif
