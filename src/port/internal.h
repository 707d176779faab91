/*
 * A port, from inside. It has lines, one for each program and key that its consumers want. A line is a loader, its
 * batches, and two threads; two threads more of the port are for all of them. All share one lock:
 *
 *     service    (service.c)  takes in connections, and answers what consumers ask; finds those that have died
 *     admission  (admit.c)    gives consumers that come their line, which it opens if nobody has had it
 *     feeder     (feeder.c)   of a line: reads its loader from front to back, and publishes what it gives
 *     maker      (maker.c)    of a line: makes batches again for consumers that have fallen behind, and others that
 * they ask for
 *
 * Each of the three lends the published batches of a line to its consumers (shelf.c).
 *
 *     planned rows  ... | given up | kept | kept | kept | next of the feeder ...
 *                          ^ behind: the maker     ^ near: what it needs next is kept, or is the feeder's next
 *
 * The first line is of the loader that the port was opened over. Others are opened beside it, over the same data set
 * and plan, when a consumer comes that wants one, and closed when the last of theirs has gone (line.c).
 */
#ifndef LEAT_PORT_INTERNAL_H
#define LEAT_PORT_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "engine/served.h"
#include "port/channel.h"
#include "port/folder.h"
#include "port/lending.h"
#include "port/message.h"
#include "port/published.h"

/* The number of batches kept for near consumers, and the distance ahead of its reading to which a consumer is lent. */
#define LEAT_PORT_KEPT 64u
#define LEAT_PORT_AHEAD_BYTES (UINT64_C(16) << 20)
#define LEAT_PORT_MOST_CONSUMERS 1024u
#define LEAT_PORT_MOST_LINES 32u /* beside the first */

/* Epochs whose orders are kept: that of the reader, two that it is lent ahead, and one more. A plan keeps as many. */
#define LEAT_PORT_ORDERS 4

struct leat_port_threads {
    pthread_t of[2];
    unsigned n;
};

/* Why a batch is there. */
enum leat_shelf_kind { LEAT_SHELF_FED = 0, LEAT_SHELF_MADE, LEAT_SHELF_ASKED };

/* A batch that is published, in a slot of the lending. */
struct leat_shelf_place {
    struct leat_batch *batch; /* NULL: it failed */
    struct leat_buffer *said; /* struct leat_published_head */
    struct leat_position at, next;
    uint64_t bytes;
    enum leat_shelf_kind kind;
    bool used;
};

/* The wishes of a consumer that has come. */
struct leat_wish {
    char *text;  /* its HELLO; NULL: nothing */
    int samples; /* the descriptor that came with it, or -1 */
    uint32_t number;
};

struct leat_port_consumer {
    struct leat_port_consumer *next, *next_in_line;
    struct leat_line *line; /* NULL: it is not attached */
    uint32_t id;
    int socket, process, wake; /* process: a pidfd, or -1 */
    int channel_fd;
    struct leat_channel *channel;
    struct leat_loan loan;
    uint32_t n_returned;   /* of the channel, seen */
    bool gone;             /* it is removed as soon as nobody works for it */
    unsigned working;      /* another thread than the service works for it */
    struct leat_wish wish; /* it waits to be admitted */

    /* as it said */
    pid_t pid;
    char label[64];
    uint64_t batch_size;
    uint32_t rank, world_size;
    bool waits; /* LEAT_LAG_WAIT */

    bool reads;              /* it has asked for a position */
    struct leat_position at; /* the next planned batch that it is not lent yet */
    uint64_t sought;         /* the epoch that it has asked for */
    uint32_t stream, needed; /* needed: batches that one of its own may take */
    int64_t lent_ns;         /* when it was lent the last one */
    uint64_t recomputed;     /* batches made again that it was lent */
    bool asks_order;         /* the order of an epoch of its line (order_epoch, order_number) waits for the feeder */
    uint64_t order_epoch;
    uint32_t order_number;
    bool asks; /* a batch of its own choice (`ask`, number) waits for the maker */
    struct leat_plan_batch ask;
    uint32_t ask_number;
};

/* An order of an epoch of a line's own samples: positions in the data set. */
struct leat_samples_order {
    _Atomic unsigned references;
    uint64_t epoch, n, shared; /* shared: rows that it has at the same time as others */
    int64_t at[];
};

/* Samples that a line has of its own, for its only reader. */
struct leat_samples {
    uint64_t n, count;   /* their number; of the data set's */
    uint8_t *set;        /* a bit for each of the data set's */
    int64_t *all;        /* ascending */
    uint64_t seed, turn; /* turn: tells lines of the same seed apart */
    uint64_t first;      /* the epoch that it began with */
    struct leat_samples_order
        *orders[LEAT_PORT_ORDERS]; /* of the epochs that were drawn last, the last first, or NULL */
};

/* A program and key, its loader, and the loader's batches. */
struct leat_line {
    struct leat_line *next;
    struct leat_port *port;
    struct leat_loader *loader;
    bool own;                     /* opened for this line, and closed with it; for the first one it is the user's */
    uint64_t program, key;        /* the hash of the program; the number that row keys are mixed with, 0: none */
    char *outputs;                /* leat_program_faces */
    struct leat_served is;        /* as it was opened; is.at: the loader's position then */
    unsigned n_decodes;           /* outputs that decode */
    struct leat_samples *samples; /* NULL: it has the port's order */
    bool whole;                   /* operators see batches as a whole: only those of the same sizes are alike */
    int memory;                   /* the loader's, that cannot be written through */
    uint64_t memory_bytes;

    pthread_cond_t feed, make; /* there may be something to do */
    struct leat_port_threads threads;
    bool opened, closing;
    struct leat_error failure; /* why it cannot go on; code 0: it can */

    struct leat_position feeds; /* the feeder's next batch */
    uint64_t epoch_rows;        /* of the feeder's epoch */
    uint64_t iteration;
    bool seek; /* ... which is not the loader's position */
    struct leat_lending lending;
    struct leat_shelf_place shelf[LEAT_LENDING_SLOTS];
    uint32_t kept[LEAT_LENDING_SLOTS], n_kept; /* slots that are kept, in the order in which they came */
    uint64_t bytes;                            /* of all that is published */
    struct leat_port_consumer *consumers;
    uint64_t n_fed, n_rows, n_made;
};

struct leat_port {
    struct leat_port *next; /* of this process */
    char name[72];
    struct leat_place place;
    gid_t group;
    char *about;
    uint8_t fingerprint[16];
    uint64_t order;
    unsigned generation;
    int64_t opened_ns;

    pthread_mutex_t lock;
    pthread_cond_t stopped; /* someone has asked for the end, or the first line has failed */
    pthread_cond_t admit;   /* someone has come */
    struct leat_port_threads threads;
    int wake; /* of the service: an eventfd */
    int poll; /* the event that the service waits for */
    bool closing, stop;

    struct leat_line *lines; /* the first one first */
    uint32_t n_lines;
    const struct leat_mirrors *mirrors; /* NULL: none */
    struct leat_decoded *decoded;       /* photos that lines share; NULL: no two have decoded any */
    struct leat_port_consumer *consumers;
    uint32_t n_consumers, last_id;
};

/* Before a batch (NULL: none) is published: its copy on a card, if the port has one. Without the port's lock. */
static inline void leat_port_mirror(const struct leat_port *port, struct leat_batch *batch)
{
    if (batch && port->mirrors)
        port->mirrors->make(port->mirrors->user, batch);
}

/* All of these: under the port's lock. */

/* shelf.c */

/* Puts a batch (NULL: the rows of `plan` failed) onto the shelf, and keeps it. The lock is let go meanwhile. Errors:
 * HELD (no memory, or no slot, now), NOMEM; the batch is then the caller's still. */
int leat_shelf_put(struct leat_line *line, struct leat_batch *batch, const struct leat_plan_batch *plan,
                   enum leat_shelf_kind kind, uint32_t *slot, struct leat_error *error);
/* A slot with the batch that a consumer needs next, which it does not have; LEAT_NO_SLOT: it is not there. */
uint32_t leat_shelf_find(const struct leat_line *line, const struct leat_port_consumer *consumer);
/* Takes back returned batches. */
void leat_shelf_take_back(struct leat_line *line, struct leat_port_consumer *consumer);
/* Before waiting for memory: each holder of a batch says when it returns one. Whether some came back meanwhile. */
bool leat_shelf_ask_back(struct leat_line *line);
/* Lends consumers the available batches that they need next. */
void leat_shelf_lend(struct leat_line *line, struct leat_port_consumer *consumer);
void leat_shelf_lend_all(struct leat_line *line);
/* Lends one slot out of the order. */
void leat_shelf_give(struct leat_line *line, struct leat_port_consumer *consumer, uint32_t slot,
                     struct leat_given *out);
/* Gives up batches that no consumer is near, and the oldest beyond the limit. */
void leat_shelf_trim(struct leat_line *line);
/* Gives up the oldest that is kept, even if a consumer is near, unless a consumer that others wait for needs it. */
bool leat_shelf_evict(struct leat_line *line);
/* A consumer has gone: all that it had comes back. */
void leat_shelf_reclaim(struct leat_line *line, struct leat_port_consumer *consumer);
/* Whether one may be made for a consumer alone: one that keeps them all must not take the memory of others. */
bool leat_shelf_may_ask(const struct leat_line *line, const struct leat_port_consumer *consumer);
/* A slot is kept no longer. */
void leat_shelf_let_go(struct leat_line *line, uint32_t slot);
/* Everything goes, at the end. */
void leat_shelf_clear(struct leat_line *line);
/* Whether the shelf may have one more batch that the feeder reads. */
bool leat_shelf_has_room(const struct leat_line *line);
/* The number that a consumer may still be lent. */
uint32_t leat_shelf_credit(const struct leat_line *line, const struct leat_port_consumer *consumer);
/* Whether it has all of the epoch that it reads, and of the next one. */
bool leat_consumer_is_far(const struct leat_port_consumer *consumer);
/* Whether it may be lent the next one now. */
bool leat_consumer_wants(const struct leat_line *line, const struct leat_port_consumer *consumer);
/* Whether it needs the feeder's next batch, or will soon. */
bool leat_consumer_is_near(const struct leat_line *line, const struct leat_port_consumer *consumer);

/* feeder.c, maker.c, service.c, admit.c: threads */
void *leat_line_feeder(void *line);
void *leat_line_maker(void *line);
void *leat_port_service(void *port);
void *leat_port_admission(void *port);
/* A consumer whose next batch the maker has to make, or that asked for one; NULL: there is none. */
struct leat_port_consumer *leat_line_needs_maker(struct leat_line *line);

/* service.c */

/* The events that may wake the service: of the port, and of a consumer. */
enum leat_port_source {
    LEAT_PORT_CONNECTIONS = 0,
    LEAT_PORT_WAKE,
    LEAT_PORT_SOCKET,
    LEAT_PORT_PROCESS,
    LEAT_PORT_RETURNED
};
/* Whether a descriptor that was just made is one of the last of the process, which the port leaves to it. */
bool leat_port_is_scarce(int fd);
/* HELD: there is no place for one more. */
int leat_port_full(struct leat_error *error, const char *why);
#define LEAT_PORT_NO_FILES "its process may open no more files (ulimit -n)"
/* A consumer is no longer in the list: its batches come back, and it ends. */
void leat_port_consumer_free(struct leat_port_consumer *consumer);
/* From here on a descriptor wakes it. */
bool leat_port_watch(const struct leat_port *port, int fd, enum leat_port_source source, uint32_t id);

/* admit.c */

void leat_wish_free(struct leat_wish *wish);

/* line.c */

/* A line over a loader. Without the port's lock. Errors: INVALID (a loader that cannot be
 * served), IO, NOMEM; the loader is then the caller's still. */
int leat_line_open(struct leat_port *port, struct leat_loader *loader, uint64_t key, struct leat_samples *samples,
                   struct leat_line **out, struct leat_error *error);
/* The line of a program (JSON; NULL: the first line's) and key, opened if there is none. The lock is let go meanwhile.
 * HELD: there are too many. INVALID, TYPE, NOT_FOUND, BUDGET: the fault of the program. */
int leat_line_find(struct leat_port *port, const char *program, uint64_t key, struct leat_line **out,
                   struct leat_error *error);
/* A line for samples of a reader's own, which it takes over. As leat_line_find. */
int leat_line_open_samples(struct leat_port *port, const char *program, uint64_t key, struct leat_samples *samples,
                           struct leat_line **out, struct leat_error *error);
/* A consumer joins, and leaves: its batches come back. */
void leat_line_join(struct leat_line *line, struct leat_port_consumer *consumer);
void leat_line_leave(struct leat_port_consumer *consumer);
/* Closes a line beside the first that has no consumer; whether there was one. The lock is let go meanwhile. By the
 * admission alone, which adds lines as well: no other thread changes the list of lines. */
bool leat_line_close_idle(struct leat_port *port);
/* Ends its threads, and all work for its loader. Without the port's lock. */
void leat_line_stop(struct leat_line *line);
/* Stops it, and frees it. Without the port's lock; nobody else knows it any more. */
void leat_line_close(struct leat_line *line);
/* The line cannot go on; with the first one the port cannot. */
void leat_line_fail(struct leat_line *line, const struct leat_error *why);
/* The error of a line that cannot: CLOSED. Gives `error`. */
const struct leat_error *leat_line_ended(const struct leat_line *line, struct leat_error *error);
/* Others come first, the next time. */
void leat_line_defer(struct leat_line *line, struct leat_port_consumer *consumer);
/* After a batch came back or was requested: wakes the threads that may have work. */
void leat_line_nudge(struct leat_line *line);

/* form.c: the stacking of its outputs of open size, a json_t object {output: [how, name of the mask, axis of channels
 * or null, masks of a row or null]}. */
struct json_t *leat_line_stacks(const struct leat_loader *loader);
/* Its outputs that are sparse rows as they are stored, {output: [dtype of values, number of columns]}. */
struct json_t *leat_line_sparse(const struct leat_loader *loader);

/* samples.c: lines whose reader has samples of its own */

/* Reads the part of a HELLO about them, with the descriptor that came with it; the first epoch has the order that it
 * says, if it says one. Without the lock. Errors: FORMAT, INVALID, RANGE, NOMEM. */
int leat_samples_read(struct leat_loader *base, const json_t *wish, int fd, struct leat_samples **out,
                      struct leat_error *error);
void leat_samples_free(struct leat_samples *samples);
/* Before their line is there: draws the order of the first epoch for its loader, if its reader has not said one, so
 * that the attached reader has begun. The lock is let go meanwhile. */
int leat_samples_begin(struct leat_port *port, struct leat_samples *samples, struct leat_loader *loader,
                       struct leat_error *error);
/* By the feeder: draws the order of the next epoch if that is due, and tells the reader that has asked for one. Whether
 * there was work to do. The lock is let go meanwhile. */
bool leat_samples_work(struct leat_line *line);
/* The number of rows of the epoch that it feeds that the line has at the same time as others. */
uint64_t leat_samples_shared(const struct leat_line *line);

/* port.c */

/* Starts two threads, which no signal goes to, and waits for their end. Without the lock. */
int leat_port_start(struct leat_port_threads *threads, void *(*first)(void *), void *(*second)(void *), void *user,
                    struct leat_error *error);
void leat_port_join(struct leat_port_threads *threads);
/* A consumer has to go: the service sees to it. */
void leat_port_part(struct leat_port *port, struct leat_port_consumer *consumer);
/* stat.c: without the lock. */
int leat_port_describe(struct leat_port *port, char **json, struct leat_error *error);

#endif
