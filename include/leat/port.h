/*
 * Ports: one loader for many processes of a host. A port makes each batch of its loader once; processes attach to it by
 * its name, map the memory that the batches lie in, and cut batches of their own size from them. leat.h includes this:
 * it stands apart for its length alone.
 *
 * An attached process gets the same as from a loader of its own: the same rows in the same order, the same bytes, the
 * same errors. It may die at any instruction; its batches are taken back. It can harm neither the port nor the others.
 * docs/ports.md says how.
 */
#include "leat/leat.h" /* which includes this, if it is the first */
#ifndef LEAT_PORT_H
#define LEAT_PORT_H

struct leat_port; /* opaque; any thread */
struct leat_mirrors;

struct leat_port_options {
    size_t struct_size;
    const char *name; /* 1 to 64 letters, digits, '-', '_' and '.', the first no '.' */
    /* The folder of sockets. NULL: $LEAT_RUNTIME_DIR, else $XDG_RUNTIME_DIR/leat, else leat-<user id> in $TMPDIR or
     * /tmp. Made with mode 0700 (0710 with a group) if it is missing; it must be the user's, or root's. */
    const char *folder;
    const char *group; /* a group, by name or number, whose members may attach too; NULL: this user alone */
    const char *about; /* a JSON object for attached readers (leat_attached_about); NULL: {} */
    /* The card to which batches go before they are published, once for all readers there (leat_device_mirrors_of); this
     * stays until the port is closed. NULL: none */
    const struct leat_mirrors *mirrors;
};
#define LEAT_PORT_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(struct leat_port_options), NULL, NULL, NULL, NULL, NULL                                                 \
    }

/* Opens a port over a loader: of region 1, in order, without buckets, with LEAT_TAIL_UNEVEN, of rank 0 of 1; or of
 * another rank, for readers whose rows are among the rows of that rank (other batches are made for each of them alone).
 * From now on the port alone reads the loader, with threads of its own; it is closed before the loader is. Errors:
 * INVALID (the name; the loader), EXISTS (a port of that name is open; one whose process is dead is replaced), IO (the
 * folder or socket), NOMEM. */
LEAT_API int leat_port_open(struct leat_loader *loader, const struct leat_port_options *options, struct leat_port **out,
                            struct leat_error *error);
/* Waits until someone asks the port to end (leat_port_stop): LEAT_OK. TIMEOUT; IO, NOMEM: why it cannot go on. */
LEAT_API int leat_port_wait(struct leat_port *port, int64_t timeout_ms, struct leat_error *error);
/* Tells the attached readers, and removes the socket. The batches that they hold stay valid. NULL is allowed. In a
 * forked child it does nothing. The loader can then be closed, and nothing else. */
LEAT_API void leat_port_close(struct leat_port *port);
/* The state of the port and each consumer, as JSON text, freed with leat_free; docs/ports.md names the keys. */
LEAT_API int leat_port_stat(struct leat_port *port, char **json, struct leat_error *error);

/* The ports in a folder (NULL: as above), as a JSON list of objects {"name", "pid", "alive", "path"}, freed with
 * leat_free. Sockets of processes that are dead are removed, and listed if they cannot be removed. No folder: an empty
 * list.
 * Errors: IO, NOMEM. */
LEAT_API int leat_ports(const char *folder, char **json, struct leat_error *error);
/* leat_port_stat of a port of another process, and asking one to end, which then does within a moment. Errors:
 * NOT_FOUND (no such port, or its process is dead), TIMEOUT, UNSUPPORTED (another version), IO. */
LEAT_API int leat_port_ask_stat(const char *folder, const char *name, char **json, struct leat_error *error);
LEAT_API int leat_port_stop(const char *folder, const char *name, struct leat_error *error);

/* ---- samples of one's own -------------------------------------------------------------------- */

/* The samples that another job reads from tick `begin` on, one a tick: all that it has left of an epoch then, so that
 * its samples are also the set that the order was drawn from. */
struct leat_dependent_run {
    const int64_t *ids; /* each once */
    uint64_t n, begin;
};

/* An order of `n` samples, each of them once, in `out`: one for each tick from 0 on, that has the same sample as some
 * run as often as can be, and is a uniformly random permutation as long as the runs are. Given the runs up to a tick
 * and the order before it, each sample that is left is as probable as any other at that tick. The method is dependent
 * sampling (docs/c-api.md). *shared (NULL is allowed): the number of ticks that it has in common with some run. A pure
 * function of ids, runs and `key`, which is another one than those that the runs were drawn by. Any thread. Errors:
 * INVALID (a sample that is negative or there twice; a run likewise, as far as it shows), RANGE (2^32 - 1 samples or
 * more), NOMEM.
 */
LEAT_API int leat_dependent_order(const int64_t *ids, uint64_t n, const struct leat_dependent_run *runs, size_t n_runs,
                                  uint64_t key, int64_t *out, uint64_t *shared, struct leat_error *error);

/* ---- attaching ------------------------------------------------------------------------------- */

/* The treatment of a consumer that is slower than others: batches that were given up by then are made again for it, or
 * the others wait. */
enum leat_lag { LEAT_LAG_RECOMPUTE = 0, LEAT_LAG_WAIT };

struct leat_attach_options {
    size_t struct_size;
    const char *name, *folder; /* as above */
    uint64_t batch_size;       /* rows of this rank; 0: as the loader's */
    uint32_t rank, world_size;
    enum leat_tail tail;
    bool beginning; /* of the current epoch; false: the position of the consumer farthest ahead */
    enum leat_lag lag;
    bool writable; /* batches may be written to: pages are copied when they are. Else writing ends the process */
    /* The time to wait for a port that is not there, when attaching and, once it has ended, for another one of that
     * name over the same data, in milliseconds; -1: without end. */
    int64_t patience_ms;
    const char *label; /* shown by leat_port_stat; NULL: the name of the process */
    /* Outputs of its own: a program as in leat_loader_options, without functions; NULL: the port's. Decoding that it
     * has in common with others is done once. */
    const char *outputs;
    uint64_t key; /* below 2^63: mixed with the keys of rows, so that draws are other ones; 0: the port's */
    /* Samples of its own, ids of the port's data set, each once: an epoch reads these, in an order that is drawn by
     * leat_dependent_order from `seed` and from the orders of others. NULL: the port's order. Then world_size is 1, and
     * epochs count from 0; `plan` and `batch_at` have the epoch that is read, or comes next. The state has the order of
     * its epoch: 4 bytes or so for each sample. */
    const int64_t *samples;
    uint64_t n_samples, seed;
};
#define LEAT_ATTACH_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(struct leat_attach_options), NULL, NULL, 0, 0, 1, LEAT_TAIL_PAD, false, LEAT_LAG_RECOMPUTE, false, 0,   \
            NULL, NULL, 0, NULL, 0, 0                                                                                  \
    }

/* A reader of a port: a consumer (leat.h) of the loader behind it, and its batches are those that a loader of its
 * batch size, rank and world size gives. Batches and tensors that are held stay valid when the port ends, and after
 * leat_attached_close. One thread at a time, but for leat_attached_interrupt and leat_attached_stats. In a forked child
 * its functions return LEAT_E_FORKED. */
struct leat_attached; /* opaque */

/* Errors: NOT_FOUND (no such port, after patience_ms), INVALID, RANGE, UNSUPPORTED (the port is of another version), IO
 * (not allowed; another user's, neither ours nor root's, in a folder that was not named; descriptors run out), HELD
 * (the port has no memory for one more), NOMEM; for outputs those of leat_loader_open. */
LEAT_API int leat_attach(const struct leat_attach_options *options, struct leat_attached **out,
                         struct leat_error *error);
LEAT_API void leat_attached_close(struct leat_attached *attached); /* NULL is allowed */
/* The reader as a consumer: leat_consumer_start, _next, _peek, _set_epoch, _epoch, _steps, _state and _load_state are
 * its functions. Valid until it is closed; never closed itself. HELD of leat_consumer_next: batches that are held take
 * up all that the port lends to one consumer, or loaders of this process leave no memory for a copy. CLOSED: the port
 * has ended, and none came in its place. CHANGED: the one that came in its place is over other data, or of another
 * program, order or seed. A state fits readers of any batch size and world size over a port of the same data set, order
 * and seed. */
LEAT_API struct leat_consumer *leat_attached_consumer(struct leat_attached *attached);
/* Makes a waiting leat_consumer_next or _peek return LEAT_E_CANCELLED. */
LEAT_API void leat_attached_interrupt(struct leat_attached *attached);
/* leat_loader_plan, leat_loader_batch_at and leat_loader_stats, for its own batches. */
LEAT_API int leat_attached_plan(struct leat_attached *attached, uint64_t epoch, uint64_t step, int64_t **ids,
                                uint64_t *n, struct leat_error *error);
LEAT_API int leat_attached_batch_at(struct leat_attached *attached, uint64_t epoch, uint64_t step,
                                    struct leat_batch **out, struct leat_error *error);
LEAT_API int leat_attached_stats(const struct leat_attached *attached, char **json, struct leat_error *error);
/* The port's description of itself, as JSON text that lives as long as the reader: {"name", "pid", "fingerprint",
 * "order", "program", "batch_size", "about": {...}}. */
LEAT_API const char *leat_attached_about(const struct leat_attached *attached);

#endif
