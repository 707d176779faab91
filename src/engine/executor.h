/*
 * Functions that run outside of the library, in worker processes say: the segments of a program behind its chains. The
 * engine plans batches, makes the functions' inputs, and decides on rows that they refuse; an executor runs them. It
 * knows no plan and no policy, and the engine does not know its functions.
 *
 *     engine                                                       executor
 *     rows of the chains are made  --- start(call): which rows --> reads them where they lie in the loader's region,
 *                                      and where they lie          writes results there, into other outputs
 *     the policy, the next segment  <------- row_failed, done ---  any thread
 */
#ifndef LEAT_ENGINE_EXECUTOR_H
#define LEAT_ENGINE_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

/* The place of an output of the batch in the loader's region (leat_loader_region): its rows, one after the other; for a
 * ragged one rows + 1 offsets, and its values `values` bytes behind their start. */
struct leat_area {
    uint64_t offset, values;
};

/* Rows of a batch that are to go through the functions of one segment. Its pointers stay valid until it is done. */
struct leat_call {
    uint64_t epoch, step; /* of the batch */
    unsigned segment;
    uint64_t batch_rows;           /* for so many there is room in its outputs */
    uint64_t n_areas;              /* outputs of the program */
    const struct leat_area *areas; /* [n_areas] */
    uint64_t n;
    uint64_t units;               /* of a segment that takes the batch as a whole: the number of its outputs; else 0 */
    const uint64_t *places;       /* [n] rows of the batch */
    const uint64_t *keys, *draws; /* [n] the keys of native operators' draws, and of functions */
    const int64_t *ids;           /* [n] */
    bool raises;                  /* if one row is given up, nobody wants those after it */
    void *handle;                 /* the executor's */
};

struct leat_executor {
    /* Begins with a call, or fails its rows. Without locks; it does not wait. leat_call_done must follow, and may come
     * at once. */
    void (*start)(struct leat_executor *executor, struct leat_call *call);
    /* Its results are not wanted any more. leat_call_done comes when no thread writes to its rows. Without locks. */
    void (*cancel)(struct leat_executor *executor, struct leat_call *call);
    /* The number of rows that are worth a call of their own, if rows are delivered one by one. Any thread. */
    uint64_t (*run)(struct leat_executor *executor);
};

#define LEAT_WHOLE_CALL UINT64_MAX /* in place of a row: no sample is to blame */
/* Row i of a call, or output i of one that takes the batch as a whole, has failed: LEAT_E_DECODE or LEAT_E_OPERATOR if
 * its sample is to blame, which the policy then decides about. Before leat_call_done; for one call by one thread at a
 * time, for different ones by several at once. If a row has failed, the first reason counts. */
void leat_call_row_failed(struct leat_call *call, uint64_t i, int code, const char *reason);
/* A result of varying length of row i, which is copied. As above. */
void leat_call_result(struct leat_call *call, uint64_t i, size_t output, const void *data, uint64_t bytes);
/* The work of a worker for a call, for the loader's trace. If the call takes the batch as a whole, rows are outputs. */
struct leat_call_work {
    int64_t idle_ns;          /* since when the worker had waited for work; 0: it had not */
    int64_t begin_ns, end_ns; /* leat_clock_ns */
    uint64_t first, n;        /* rows of the call */
    const char *name;         /* of the functions, or NULL; lives as long as the executor, which outlives the trace */
    uint32_t worker;          /* its number */
    int32_t process, thread;  /* of the system */
    bool died;                /* then, at work on it */
};
/* Whether the loader's trace is on: else the work of workers need not be recorded. Any thread. */
bool leat_call_is_traced(const struct leat_call *call);
/* Records it; left out if it began before the trace. Before leat_call_done, without locks. */
void leat_call_worked(struct leat_call *call, const struct leat_call_work *works, size_t n);
/* The executor is done with a call, which may be gone when this returns. Any thread, without locks. */
void leat_call_done(struct leat_call *call);

#endif
