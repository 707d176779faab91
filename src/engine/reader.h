/*
 * A reader: its epochs, its next batch, and its state. The loader's own consumer and further ones (consumer.c) and
 * attached readers of a port (port/attach.c) are readers. Each kind brings its batches from elsewhere; the functions
 * leat_consumer_* are those of all of them.
 *
 * A reader may look one batch ahead. The batch is then at hand, but was not handed out: position, state and decisions
 * are those of before. So the reader stays at its position, and keeps with the batch the one behind it:
 *
 *     next    | a a a a | b b b b | c c c c |      out: a     at: b
 *     peek                                         out: a     at: b     peeked: b, behind it: c     (window: c ...)
 *     next                                         out: a, b  at: c
 *
 * A decision that holds from `b` on, or a position that is set, gives the batch up; the caller of a peek has a
 * reference of its own to it.
 */
#ifndef LEAT_ENGINE_READER_H
#define LEAT_ENGINE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"
#include "plan/plan.h"

/* The progress of a reader: the fields of the same names. */
struct leat_stand {
    struct leat_position at; /* this, skip and rows: of a consumer of a loader */
    uint64_t step, skip, rows;
    bool ended;
};

struct leat_reader {
    const struct leat_reader_kind *kind;
    struct leat_batch_pool *pool; /* of its batches */
    uint64_t epoch;               /* that it reads, or that the loaded position is in */
    uint64_t step;                /* of its next batch */
    uint64_t iteration;           /* counts what begins or ends a pass: `next` of an older one is refused */
    uint64_t next_epoch;          /* if has_next_epoch: the value of set_epoch */
    bool has_next_epoch;
    bool started, loaded;      /* loaded: a position, which the next start begins at */
    bool ended, told_end;      /* the epoch's last batch was handed out; `next` has said so */
    struct leat_batch *peeked; /* its next batch, if it has looked ahead; else NULL */
    bool unseen;               /* ... and nobody was shown it: it was awaited */
    struct leat_stand behind;  /* its position once it takes that */
    struct leat_stand before;  /* its position before the batch that it handed out last, ... */
    uint64_t handed;           /* ... in this iteration; 0: none, or it was moved since */
    _Atomic uint64_t interrupts;
};

/* A call for the next batch. */
struct leat_request {
    uint64_t iteration, interrupts;
    uint64_t epoch, step; /* as it began */
    int64_t deadline_ns;
    bool peek;   /* to look at, without being handed it */
    bool await;  /* a peek that nobody sees: only that the batch is there is asked */
    bool apart;  /* it was awaited, and is not in `peeked` */
    bool fresh;  /* nobody has peeked at it before */
    bool raised; /* the error is that of a batch, and is counted */
    bool waited;
};

/* The functions of a kind of reader. `begin`, `ready`, `stand` and `go` may be NULL. */
struct leat_reader_kind {
    const char *name;
    /* Errors: FORKED, CLOSED. The functions from `begin` to `start` are called between the two. */
    int (*lock)(struct leat_reader *reader, struct leat_error *error);
    void (*unlock)(struct leat_reader *reader);
    /* The begin and end of a call for a batch. The second may let the lock go. */
    void (*begin)(struct leat_reader *reader, const struct leat_request *request);
    void (*end)(struct leat_reader *reader, const struct leat_request *request, const struct leat_batch *batch, int rc,
                struct leat_error *error);
    /* LEAT_IO_PENDING: no batch is handed out now. Errors end the call. */
    int (*ready)(struct leat_reader *reader, const struct leat_request *request, struct leat_error *error);
    /* The next batch of the running epoch if it is there, and goes behind it: LEAT_OK, LEAT_E_END, LEAT_IO_PENDING, or
     * an error, after which it stands where it stood. LEAT_OK without a batch: one is there that can only be taken (if
     * it is awaited). */
    int (*take)(struct leat_reader *reader, struct leat_request *request, struct leat_batch **out,
                struct leat_error *error);
    /* Waits until it may be there. TIMEOUT (leat_reader_late), or another reason to give up. */
    int (*wait)(struct leat_reader *reader, struct leat_request *request, struct leat_error *error);
    /* Its position, beyond step and ended; and going to one. */
    void (*stand)(const struct leat_reader *reader, struct leat_stand *out);
    void (*go)(struct leat_reader *reader, const struct leat_stand *to);
    /* Goes to the begin of the next pass, and sets reader->epoch and step. */
    int (*start)(struct leat_reader *reader, struct leat_error *error);
    /* Without the lock. A thread that waits looks again; batches of an epoch; its position as JSON text, and loading
     * it. */
    void (*wake)(struct leat_reader *reader);
    int (*steps)(struct leat_reader *reader, uint64_t *steps, struct leat_error *error);
    int (*state)(struct leat_reader *reader, char **json, struct leat_error *error);
    int (*load)(struct leat_reader *reader, const char *json, struct leat_error *error);
    /* Goes back to reader->before in the pass that runs. NULL, or false: it cannot. */
    bool (*put_back)(struct leat_reader *reader);
};

/* Whatever it reads, a consumer begins with its reader. */
static inline struct leat_reader *leat_reader_of(const struct leat_consumer *consumer)
{
    return (struct leat_reader *)(uintptr_t)consumer;
}

static inline bool leat_reader_is_reading(const struct leat_reader *r)
{
    return r->started && !r->ended;
}
/* The epoch of the next start. */
uint64_t leat_reader_next_epoch(const struct leat_reader *reader);
/* The epoch that is read, or else that of the next start. */
uint64_t leat_reader_epoch(const struct leat_reader *reader);
/* Gives up the batch that it has peeked at. Without the engine's lock. */
void leat_reader_drop(struct leat_reader *reader);
/* TIMEOUT. */
int leat_reader_late(struct leat_error *error);
/* A position is loaded, and stands in reader->epoch: the pass that runs ends. */
void leat_reader_load(struct leat_reader *reader);

/* All states have one form: "reader" (the kind of it), "state" (a version), "at" (a position), "fingerprint" and
 * "order", and more by the kind; plan/state.c writes that of a loader. States of versions before have the position
 * beside these, and the version under the name of the kind. */
struct leat_reader_run {
    const char *kind;
    const char *fingerprint, *order;
    const char *not_one; /* the error of an invalid one */
};
struct leat_state_number {
    const char *name;
    uint64_t value;
};
/* A new state with n numbers, or NULL. */
json_t *leat_reader_state(const struct leat_reader_run *run, struct leat_position at,
                          const struct leat_state_number *numbers, size_t n);
/* The text of a JSON value, whose reference is taken; freed with leat_free. NOMEM, also for NULL, and no text. */
int leat_reader_text(json_t *value, char **text, struct leat_error *error);
/* Reads the numbers of a state, or of NULL. INVALID: it is none. STATE: it is of another run or a later version. */
int leat_reader_read(const struct leat_reader_run *run, const json_t *state, struct leat_position *at,
                     struct leat_state_number *numbers, size_t n, struct leat_error *error);

#endif
