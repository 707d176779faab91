/*
 * The messages between a port and a consumer, through a socket that keeps messages apart (SOCK_SEQPACKET): rare things,
 * for batches go through the channel. A message is a head and at most LEAT_MESSAGE_MOST bytes behind it; texts are JSON
 * objects, and nothing in them is executed or trusted. Each side checks every length before it reads on.
 *
 *     consumer                          port
 *     HELLO {"want": "attach", ...} ->
 *                                    <- WELCOME {...} and the descriptors of struct leat_welcome_fds
 *     SEEK, ROWS, IDS, MAKE, ORDER  ->
 *                                    <- REPLY, or FAILED (a struct leat_error), with the number of what was asked
 *     HELLO {"want": "stat"|"stop"} ->
 *                                    <- REPLY
 *
 * Both sides end a connection that sends anything else. Versions are compared first: they are the same, or FAILED says
 * which they are, in a form that every version reads.
 */
#ifndef LEAT_PORT_MESSAGE_H
#define LEAT_PORT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_PORT_VERSION 3
#define LEAT_MESSAGE_MOST (UINT32_C(96) << 10) /* a socket takes that at once, as systems are set up */
#define LEAT_MESSAGE_FDS 3

enum leat_message_type {
    LEAT_MESSAGE_HELLO = 1,
    LEAT_MESSAGE_WELCOME,
    LEAT_MESSAGE_SEEK, /* struct leat_ask_seek -> struct leat_reply_rows */
    LEAT_MESSAGE_ROWS, /* struct leat_ask_rows -> struct leat_reply_rows */
    LEAT_MESSAGE_IDS,  /* struct leat_ask_batch -> int64 [n] */
    LEAT_MESSAGE_MAKE, /* struct leat_ask_batch -> struct leat_given */
    LEAT_MESSAGE_END,  /* nothing -> nothing: it wants no more, and keeps its batches */
    LEAT_MESSAGE_REPLY,
    LEAT_MESSAGE_FAILED,
    LEAT_MESSAGE_ORDER /* struct leat_ask_rows -> struct leat_reply_rows, once the order of that epoch is drawn */
};

struct leat_message_head {
    char magic[4]; /* "leat" */
    uint16_t version, type;
    uint32_t number; /* of the question; a reply has the same */
    uint32_t bytes;  /* behind the head */
};

/* The descriptors of a WELCOME, in this order. */
enum { LEAT_FD_MEMORY = 0, LEAT_FD_CHANNEL, LEAT_FD_WAKE };
/* With a HELLO that has "samples": so many ids, int64, and as many again in their order if it has "ordered". */
enum { LEAT_FD_SAMPLES = 0 };
/* With a REPLY that has no body: a text that is longer than a body can be. */
enum { LEAT_FD_TEXT = 0 };

/* The consumer reads on from the batch that has this row; batches from then on bear `stream`. */
struct leat_ask_seek {
    uint64_t epoch, row;
    uint32_t stream, reserved;
};
struct leat_ask_rows {
    uint64_t epoch;
};
struct leat_reply_rows {
    uint64_t rows; /* of the epoch */
};
/* Rows of the plan, as struct leat_plan_batch has them; for IDS at most LEAT_MOST_IDS rows from `first` of these on. */
#define LEAT_MOST_IDS 8192u
struct leat_ask_batch {
    uint64_t epoch, step, at_row, global_rows, begin, rows, first, n;
};

struct leat_message {
    struct leat_message_head head;
    int fds[LEAT_MESSAGE_FDS];        /* the receiver's to close; -1 */
    char body[LEAT_MESSAGE_MOST + 1]; /* NUL after the last byte */
};

/* Sends one. END: the other side is gone; leat_message_take gives its earlier messages. IO: it does not read. No
 * descriptors: n_fds 0. */
int leat_message_send(int fd, enum leat_message_type type, uint32_t number, const void *body, size_t bytes,
                      const int *fds, size_t n_fds, struct leat_error *error);
/* Sends the contents of an error. */
int leat_message_fail(int fd, uint32_t number, const struct leat_error *why, struct leat_error *error);
/* Takes one that has arrived. LEAT_OK; LEAT_IO_PENDING: none; END: the other side has ended the connection; FORMAT: no
 * message; UNSUPPORTED: of another version; IO. With an error no descriptor is left open. */
int leat_message_take(int fd, struct leat_message *out, struct leat_error *error);
/* The same for received bytes, for tests. */
int leat_message_check(struct leat_message *message, size_t bytes, struct leat_error *error);
/* Waits for the next one. TIMEOUT; as above. */
int leat_message_wait(int fd, int64_t timeout_ms, struct leat_message *out, struct leat_error *error);
/* The body as a structure of so many bytes, or NULL: it has another size. */
const void *leat_message_body(const struct leat_message *message, size_t bytes);
/* The contents of a FAILED, as its code. */
int leat_message_error(const struct leat_message *message, struct leat_error *error);
void leat_message_close(struct leat_message *message); /* its descriptors */
/* Data too long for a message go with one as a descriptor: of memory that is sealed against writing and resizing. *fd
 * is the caller's. IO. */
int leat_message_seal(const void *from, uint64_t bytes, int *fd, struct leat_error *error);
/* Its length. FORMAT: it is no such memory. */
int leat_message_sealed(int fd, uint64_t *bytes, struct leat_error *error);
/* All of it. FORMAT: it has another length; IO. */
int leat_message_unseal(int fd, void *to, uint64_t bytes, struct leat_error *error);

#endif
