/*
 * A reader of a port, from inside: session.c speaks with the port and has its loans; cut.c makes batches of those;
 * receive.c puts the next batch together; attach.c opens and closes it, and has its epochs and states.
 *
 * The state that other threads may change, by releasing a buffer, is under the engine's lock: the holders of the port's
 * batches.
 */
#ifndef LEAT_PORT_ATTACHED_H
#define LEAT_PORT_ATTACHED_H

#include <jansson.h>
#include <sys/types.h>

#include "engine/assemble.h"
#include "engine/batch.h"
#include "engine/reader.h"
#include "port/channel.h"
#include "port/message.h"
#include "port/published.h"

/* A connection with one process of a port. It stays as long as it, or a batch of it, is in use. */
struct leat_session {
    unsigned references;
    int socket, wake;
    struct leat_channel *channel;
    uint8_t *memory;
    uint64_t memory_bytes;
    bool writable;
    uint32_t taken; /* of the channel */
    uint32_t out;   /* batches that were given, and not returned */
    uint32_t number;
};

/* A batch that the port has lent; it is returned with the last reference. */
struct leat_lent {
    struct leat_session *session;
    uint32_t slot;
    unsigned references;
    struct leat_batch *batch; /* its rows, of the reader's pool: views into the port's memory */
    struct leat_lent *next;
};

/* Memory of a copy, which the ledger of the process counts; or one that nobody has any more, for the next one. */
struct leat_spare {
    void *memory;
    uint64_t bytes;
};
#define LEAT_MOST_SPARES 4u

/* Samples of a reader's own, and the order of an epoch. */
struct leat_own {
    int64_t *ids, *order;
    uint64_t n, seed, hash;
    bool known;          /* `order` is that */
    uint64_t epoch;      /* ... of this epoch */
    uint64_t wanted;     /* the epoch for which it attaches to a port */
    uint64_t line_epoch; /* the last epoch that the reader asked the port for */
};

struct leat_attached {
    struct leat_reader reader;   /* first: leat_reader_of */
    struct leat_batch_pool pool; /* of its batches: it outlives the handle as long as one is held */
    struct leat_budget budget;
    struct leat_program *program;
    struct leat_session *session; /* NULL: none; the next question opens one */
    struct leat_message *message;
    char *name, *folder, *label, *about;
    char *outputs;            /* a program of its own; NULL: the port's */
    uint64_t key;             /* of draws of its own; 0: the port's */
    struct leat_own *own;     /* NULL: it has the port's order */
    uint64_t batch_rows;      /* of its batches */
    struct leat_cut port_cut; /* the port's batches of each epoch */
    bool whole, writable;
    enum leat_lag lag;
    int64_t patience_ms;
    char fingerprint[33], order[17], hash[17];

    struct leat_cut cut;
    struct leat_position others;      /* the position at which others read, as the port gave it at first */
    uint64_t cut_epoch;               /* in which cut.origin and first_step hold */
    uint64_t known_epoch, known_rows; /* known_rows 0: none */

    struct leat_lent *first, **last; /* batches given, in the order of the plan */
    bool streams;                    /* the port goes on giving */
    uint32_t stream;
    struct leat_position expected; /* its next batch */
    struct leat_position taken;    /* the row behind the batch that was taken last */

    uint64_t batches, samples, bytes, copied, made, waits, reconnects;
    int64_t wait_ns;
    struct leat_spare spares[LEAT_MOST_SPARES]; /* under the engine's lock */
};

/* session.c */

/* Connects, and introduces itself; the first time it takes over the port's description, later it compares. Waits up to
 * patience_ms for a port to be there. */
int leat_session_open(struct leat_attached *attached, bool first, struct leat_error *error);
/* Lets go of batches that were not handed out, and of the connection. */
void leat_session_close(struct leat_attached *attached);
/* Asks, and waits for the answer, which is in attached->message. CLOSED: the port has ended. */
int leat_session_ask(struct leat_attached *attached, enum leat_message_type type, const void *body, size_t bytes,
                     struct leat_error *error);
/* LEAT_OK: the port is there still. CLOSED: it has ended. */
int leat_session_check(struct leat_attached *attached, struct leat_error *error);
/* One more of the port's batches, at the end of the list. LEAT_IO_PENDING: there is none yet. */
int leat_session_take(struct leat_attached *attached, struct leat_error *error);
/* The answer to a MAKE, one reference. */
int leat_session_made(struct leat_attached *attached, struct leat_lent **out, struct leat_error *error);
/* Gives up the first of the list. */
void leat_session_drop_first(struct leat_attached *attached);
/* Waits for the next event, at most so long. HELD: none will come, before batches are let go of. */
int leat_session_wait(struct leat_attached *attached, int64_t timeout_ns, struct leat_error *error);
/* Under the engine's lock. */
void leat_lent_unref(struct leat_lent *lent);

/* own.c */

/* INVALID, NOMEM. */
int leat_own_new(const int64_t *ids, uint64_t n, uint64_t seed, struct leat_own **out, struct leat_error *error);
void leat_own_free(struct leat_own *own);
/* The part of a HELLO about them; *fd, the caller's to close, goes with it. IO, NOMEM. */
int leat_own_say(struct leat_own *own, json_t *hello, int *fd, struct leat_error *error);
/* From here on the order of an epoch is known, and the port reads it. */
int leat_own_order(struct leat_attached *attached, uint64_t epoch, struct leat_error *error);
/* Their part of a state, also if they are NULL. STATE, INVALID, NOMEM. */
int leat_own_save(const struct leat_own *own, json_t *state, uint64_t epoch, uint64_t row, struct leat_error *error);
int leat_own_load(struct leat_own *own, const json_t *state, uint64_t epoch, uint64_t row, struct leat_error *error);

/* receive.c */

static inline struct leat_attached *leat_attached_of(struct leat_reader *reader)
{
    return (struct leat_attached *)(void *)reader;
}
static inline struct leat_attached *leat_attached_of_pool(struct leat_batch_pool *pool)
{
    return (struct leat_attached *)(void *)((char *)pool - offsetof(struct leat_attached, pool));
}
/* FORKED: this process did not attach. */
int leat_attached_check(const struct leat_attached *attached, struct leat_error *error);
/* For struct leat_reader_kind. */
int leat_attached_take(struct leat_reader *reader, struct leat_request *request, struct leat_batch **out,
                       struct leat_error *error);
int leat_attached_wait(struct leat_reader *reader, struct leat_request *request, struct leat_error *error);
void leat_attached_end(struct leat_reader *reader, const struct leat_request *request, const struct leat_batch *batch,
                       int rc, struct leat_error *error);
/* Attaches to the port that has come in the place of one that ended. CLOSED: none has. */
int leat_attached_reopen(struct leat_attached *attached, struct leat_error *error);
/* Asks, as leat_session_ask does; if the port has ended, the one that comes in its place. */
int leat_attached_ask(struct leat_attached *attached, enum leat_message_type type, const void *body, size_t bytes,
                      struct leat_error *error);
/* The number of rows of an epoch, and the way this reader cuts batches out of them. */
int leat_attached_rows(struct leat_attached *attached, uint64_t epoch, uint64_t *rows, struct leat_error *error);
struct leat_cut leat_attached_cut(const struct leat_attached *attached, uint64_t epoch);
/* The contents of a batch of this reader. END: the epoch has no such step. */
int leat_attached_plan_batch(struct leat_attached *attached, uint64_t epoch, uint64_t step,
                             struct leat_plan_batch *plan, struct leat_error *error);
struct leat_ask_batch leat_attached_ask_batch(const struct leat_plan_batch *plan);
/* The ids of the rows of such a batch, asked for in one of the two ways of asking. */
int leat_attached_ids(struct leat_attached *attached,
                      int (*ask)(struct leat_attached *, enum leat_message_type, const void *, size_t,
                                 struct leat_error *),
                      struct leat_ask_batch what, int64_t *ids, struct leat_error *error);
/* A batch that the port makes for this reader alone. */
int leat_attached_make(struct leat_attached *attached, const struct leat_plan_batch *plan, struct leat_batch **out,
                       struct leat_error *error);

/* cut.c */

/* A batch of rows of lent batches: views if these are one, which is `lent`, else copies. `plan`: of the reader's own
 * batch. */
int leat_cut_out(struct leat_attached *attached, const struct leat_plan_batch *plan, const struct leat_excerpt *parts,
                 size_t n, struct leat_lent *lent, struct leat_batch **out, struct leat_error *error);
/* The end of a buffer of such a batch (leat_batch_pool.let_go). */
void leat_cut_let_go(struct leat_buffer *buffer);
/* Frees the memory that is kept for copies. */
void leat_cut_free_spares(struct leat_attached *attached);

#endif
