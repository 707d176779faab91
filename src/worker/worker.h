/*
 * The exchange between a process and its workers: for data sets and functions in Python, whose rows other processes
 * compute. The parent allocates slots from memory that it shares with its workers, and publishes batches on a board.
 * Workers take units (runs of rows) from it and write rows straight into the slots. The caller starts processes, and
 * defines a row. The conventions are those of leat/leat.h; this header is no part of the library's interface.
 *
 *     parent                                   worker
 *     leat_pool_new, leat_board_new            leat_share_attach (unless forked), leat_pool_attach, leat_board_attach
 *     leat_board_publish                       leat_board_take -> unit; compute; leat_board_finish
 *     leat_board_wait, _complete, _retire      leat_pool_sleep
 */
#ifndef LEAT_WORKER_WORKER_H
#define LEAT_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

/* The descriptor of this process's shared memory (a memfd), which is made at first use; borrowed. Any thread. NOMEM. */
int leat_share_descriptor(int *fd, struct leat_error *error);
/* In a worker process that was not forked: maps the parent's shared memory. IO, NOMEM. */
int leat_share_attach(int fd, struct leat_error *error);
/* In a worker process, when it has taken a unit: maps the parts that the parent has added to its shared memory.
 * NOMEM. */
int leat_share_follow(struct leat_error *error);
/* Bytes in slots that are held. Gives free pages back to the system if more than `keep` bytes are resident. Any
 * thread. */
uint64_t leat_share_used(void);
void leat_share_trim(uint64_t keep);

/* In a worker process that has mapped the beginning of a loader's region (leat_loader_region): a row of it in the table
 * of holders there (base/holders.h). Memory that it holds by its offset is not used for anything else before it lets
 * go, or dies. INVALID: that is no region; HELD: the table is full. */
struct leat_holder;
int leat_region_join(void *begin, uint64_t bytes, struct leat_holder **out, struct leat_error *error);
bool leat_holder_hold(struct leat_holder *holder, uint64_t offset);
void leat_holder_drop(struct leat_holder *holder, uint64_t offset);
void leat_holder_leave(struct leat_holder *holder);

/* A slot: whole pages of the shared memory, with a count of references. It belongs to the process that allocated it.
 * Its content is not cleared. Any thread. HELD: slots that are held leave no room; NOMEM. */
struct leat_slot;
int leat_slot_new(uint64_t bytes, struct leat_slot **out, struct leat_error *error);
void leat_slot_retain(struct leat_slot *slot);
void leat_slot_release(struct leat_slot *slot); /* NULL is allowed */
void *leat_slot_data(const struct leat_slot *slot);
uint64_t leat_slot_offset(const struct leat_slot *slot); /* its name in workers */
uint64_t leat_slot_bytes(const struct leat_slot *slot);

#define LEAT_POOL_WORKERS 1024
#define LEAT_BOARD_BUFFERS 32
#define LEAT_BOARD_KILLS 3 /* workers that a row may end */

/* The common state of workers: the word that they sleep on, and the work of each. `thread`: this worker is a thread of
 * the parent. INVALID, NOMEM, HELD. */
struct leat_pool;
int leat_pool_new(unsigned n_workers, struct leat_pool **out, struct leat_error *error);
int leat_pool_attach(uint64_t offset, unsigned worker, bool thread, struct leat_pool **out, struct leat_error *error);
void leat_pool_free(struct leat_pool *pool);               /* NULL is allowed; after its boards */
void leat_pool_resize(struct leat_pool *pool, unsigned n); /* so many work now; all of them, unless this says so */
uint64_t leat_pool_offset(const struct leat_pool *pool);
/* A worker sleeps until something is published after it has `seen` the count, or a wake, a signal or the timeout. */
uint32_t leat_pool_seen(const struct leat_pool *pool);
void leat_pool_sleep(struct leat_pool *pool, uint32_t seen, int64_t timeout_ms);
void leat_pool_wake(struct leat_pool *pool);
/* The work of a worker: board (its offset), serial (0: nothing), row of the batch; units taken so far. */
struct leat_pool_worker {
    uint64_t board, serial;
    uint32_t row, units, messages; /* messages: announced */
};
void leat_pool_worker(const struct leat_pool *pool, unsigned worker, struct leat_pool_worker *out);
void leat_pool_forget(struct leat_pool *pool, unsigned worker); /* it is dead */
uint32_t leat_pool_messages(const struct leat_pool *pool);      /* announced by all workers so far, modulo 2^32 */

/* One batch as it is published. Serials rise from 1. Offsets are those of slots. */
struct leat_board_batch {
    uint64_t serial;
    uint32_t rows, run; /* rows of a unit; 0: as many as take unit_ns, by the times of the batches before */
    int32_t owner;      /* the only worker that may take it, or -1 */
    uint32_t layout;    /* of its rows, a number of the caller's; 0: not known yet */
    uint32_t kind;      /* the caller's */
    uint32_t n_buffers;
    uint64_t payload, payload_bytes; /* the kind of its rows, as the caller and its workers have agreed */
    uint64_t seed, epoch, first_row; /* of its rows' random keys */
    uint64_t capacity;               /* bytes of buffers[0], if a unit is a whole batch */
    uint64_t buffers[LEAT_BOARD_BUFFERS];
};
struct leat_board_unit {
    struct leat_board_batch batch;
    uint32_t unit, first, n; /* its number; its rows */
    int64_t begun_ns;
};

/* A board of at most n_entries batches in flight, of at most max_units units each (longer runs are made of more rows).
 * `unit_ns`: the aim for a unit. The parent uses it from one thread at a time. INVALID, NOMEM, HELD. */
struct leat_board;
int leat_board_new(struct leat_pool *pool, unsigned n_entries, unsigned max_units, double unit_ns, double weight,
                   struct leat_board **out, struct leat_error *error);
int leat_board_attach(struct leat_pool *pool, uint64_t offset, bool thread, struct leat_board **out,
                      struct leat_error *error);
void leat_board_free(struct leat_board *board); /* NULL is allowed */
uint64_t leat_board_offset(const struct leat_board *board);
void *leat_board_at(const struct leat_board *board, uint64_t offset); /* of a slot: its memory in this process */

/* Parent: the serial of the next batch, or 0 while all entries are in use; publishes it (INVALID: it is another's turn,
 * or there is no such owner); gives one that was published without a layout the place of its rows, for the units that
 * are taken from then on (INVALID: it has one, or is not in flight). The calls below have no effect on a batch that is
 * not in flight. */
uint64_t leat_board_next(const struct leat_board *board);
int leat_board_publish(struct leat_board *board, const struct leat_board_batch *batch, struct leat_error *error);
int leat_board_place(struct leat_board *board, uint64_t serial, uint32_t layout, const uint64_t *buffers,
                     uint32_t n_buffers, struct leat_error *error);
bool leat_board_complete(const struct leat_board *board, uint64_t serial); /* whether all units are done */
/* By workers, on units without a message, and in messages. */
int64_t leat_board_spent_ns(const struct leat_board *board, uint64_t serial);
/* The message of a unit is here; its time, if it is to count. */
void leat_board_received(struct leat_board *board, uint64_t serial, uint32_t unit, int64_t spent_ns);
/* Ends a batch that is complete: its entry is free. The board learns from those that were not cancelled how long rows
 * take (0: not known yet), and so how many make a unit. */
void leat_board_retire(struct leat_board *board, uint64_t serial);
double leat_board_ns_per_row(const struct leat_board *board);
uint64_t leat_board_run(const struct leat_board *board);
/* Removes its queued units; it is complete when none is running. True: none is. */
bool leat_board_cancel(struct leat_board *board, uint64_t serial);
/* Queues the units of a dead worker again; those of cancelled batches are done. If the row that it computed has now
 * ended LEAT_BOARD_KILLS workers, gone (may be NULL) is called first, which may cancel the batch. Returns how many
 * units it had taken. */
unsigned leat_board_requeue(struct leat_board *board, unsigned worker,
                            void (*gone)(void *user, uint64_t serial, uint32_t row), void *user);
/* Waits until a batch is complete or a message sent since `seen`, a signal, or the time is over. */
uint32_t leat_board_seen(const struct leat_board *board);
void leat_board_wait(struct leat_board *board, uint32_t seen, int64_t timeout_ms);
void leat_board_wake(struct leat_board *board); /* ends a wait */
struct leat_pool *leat_board_pool(const struct leat_board *board);
void leat_board_close(struct leat_board *board); /* workers take nothing more */

/* The worker of a unit, with times (leat_clock_ns), as the worker has written them. */
struct leat_board_work {
    int64_t idle_ns;            /* since when it had slept for want of work; 0: it had not */
    int64_t begun_ns, ended_ns; /* ended_ns: its message was announced, or it was done; 0: it is at work, or dead */
    uint32_t worker, first, n;  /* its number; rows of the batch */
    int32_t process, thread;
};
/* Parent: the number of units of a batch in flight; the last work on one of them. False: nobody has taken it, or there
 * is no such unit. */
uint32_t leat_board_units(const struct leat_board *board, uint64_t serial);
bool leat_board_work(const struct leat_board *board, uint64_t serial, uint32_t unit, struct leat_board_work *out);

/* Worker: takes the first queued unit, earliest batch first; false: there is none. Says at which row it is; announces a
 * message; ends a unit, whose message (`sent`) the parent has or will receive. */
bool leat_board_take(struct leat_board *board, struct leat_board_unit *out);
void leat_board_at_row(struct leat_board *board, uint32_t row);
void leat_board_message(struct leat_board *board);
void leat_board_finish(struct leat_board *board, const struct leat_board_unit *unit, bool sent);
bool leat_board_closed(const struct leat_board *board);
/* Time that workers gave this board, over its weight: the board with the least goes first. A new one starts at the
 * others'. */
uint64_t leat_board_served_ns(const struct leat_board *board);
void leat_board_start_at(struct leat_board *board, uint64_t served_ns);

/* ---- an executor of the engine's calls -------------------------------------------------------- */

/* Puts the calls of one loader on a board, for workers that map the loader's region (leat_loader_region). A call is one
 * batch on the board, of kind LEAT_WORKER_CALL, whose payload gives its rows and their destination:
 *
 *     struct leat_worker_call | areas, 2 x uint64 each: offset, bytes to the values | places, keys, draws, ids: [n] of
 *     8 bytes each | flags, one for each row of the batch on the board: LEAT_WORKER_GONE for one that ended too many
 *     workers, which is not to be computed; LEAT_WORKER_UNWANTED for one of a batch that fails without it
 *
 * If a segment takes the batch as a whole, the rows of the batch on the board are the outputs of that segment. It is a
 * client of its pool: the parent attends to it in a thread of its own, which takes messages and buries workers between
 * two calls of leat_executor_wait. All functions: any thread. */
#define LEAT_WORKER_CALL 3
#define LEAT_WORKER_GONE 1
#define LEAT_WORKER_UNWANTED 2
struct leat_worker_call {
    uint64_t n, batch_rows, n_areas, epoch, step, segment;
};
/* NOMEM. The loader is opened with it, and given a board before the request for its first batch. */
int leat_executor_new(struct leat_executor **out, struct leat_error *error);
void leat_executor_attach(struct leat_executor *executor, struct leat_board *board); /* its alone, and lives as long */
/* The name of the functions of a segment in a trace, or, if it takes the batch as a whole, of those of its output
 * `unit`. Before it is attached; without it they have no name there. NOMEM. */
int leat_executor_name(struct leat_executor *executor, uint64_t segment, uint64_t unit, const char *name,
                       struct leat_error *error);
/* Ends calls that are complete, until a message was announced that is not among `received` (leat_pool_messages), or
 * nothing has come for some time and a worker may be dead, or it is closed. */
enum leat_executor_event { LEAT_EXECUTOR_MESSAGE, LEAT_EXECUTOR_SILENT, LEAT_EXECUTOR_CLOSED };
enum leat_executor_event leat_executor_wait(struct leat_executor *executor, uint32_t received);
/* A row of the batch with this serial has failed, as leat_call_row_failed. */
void leat_executor_row_failed(struct leat_executor *executor, uint64_t serial, uint64_t i, int code,
                              const char *reason);
/* Results of varying length, one behind the other in `bytes`: their rows in the call and outputs of the program. */
struct leat_worker_result {
    uint64_t row, output, bytes;
};
void leat_executor_results(struct leat_executor *executor, uint64_t serial, const struct leat_worker_result *results,
                           uint64_t n, const uint8_t *bytes, uint64_t n_bytes);
void leat_executor_received(struct leat_executor *executor, uint64_t serial, uint32_t unit, int64_t spent_ns);
/* A worker is dead: its units are queued again. If it died at work for this loader, all calls but the earliest are
 * taken off the board, and go on one at a time. If nobody asks for batches either, the earliest is taken off too, and
 * none goes on until somebody does: functions that end workers would go on ending those that other loaders use too. */
void leat_executor_worker_died(struct leat_executor *executor, unsigned worker);
/* Somebody begins, or ends, to wait for batches. */
void leat_executor_ask(struct leat_executor *executor, bool begins);
/* Fails all rows of all calls, from now on and whatever the policy: no workers can run. */
void leat_executor_break(struct leat_executor *executor, const char *reason);
/* Its loader is closed: workers take nothing more. Then, when no worker uses the board any more: ends its calls. */
void leat_executor_close(struct leat_executor *executor);
void leat_executor_finish(struct leat_executor *executor);
void leat_executor_free(struct leat_executor *executor); /* NULL is allowed; finishes it */
struct leat_executor_stats {
    int64_t work_ns; /* of workers */
    uint64_t in_flight, rows;
};
void leat_executor_stats(struct leat_executor *executor, struct leat_executor_stats *out);

/* In a worker process: ends it, at once, when the process behind this descriptor (pidfd_open) has ended. NOMEM. */
int leat_worker_watch(int pidfd, struct leat_error *error);

#endif
