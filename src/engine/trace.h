/*
 * A record of the work of threads for a loader, with times (leat_loader_trace). While it is off, as it mostly is, a
 * task and a read cost one relaxed load each. While it is on, an event is a slot of an array of fixed size: taken by an
 * atomic increment, filled by the thread that it is about, and published by its end, so that recording changes little
 * of the recorded work.
 */
#ifndef LEAT_ENGINE_TRACE_H
#define LEAT_ENGINE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "leat/leat.h"

enum leat_trace_kind {
    LEAT_TRACE_ROWS = 1, /* a task makes rows */
    LEAT_TRACE_SIZES,    /* ... sums up the lengths of a batch's rows */
    LEAT_TRACE_CALL,     /* ... hands rows to functions, or takes their results */
    LEAT_TRACE_PLACE,    /* ... puts results of functions in place */
    LEAT_TRACE_READ,     /* a read that was complete at once; inside of a task */
    LEAT_TRACE_FLIGHT,   /* a read that was complete later */
    LEAT_TRACE_STAGE,    /* operators make one row, or some; inside of a task */
    LEAT_TRACE_DECODE,   /* the decoder's part of a stage; inside of that */
    LEAT_TRACE_WAIT,     /* the consumer waits for its batch */
    LEAT_TRACE_STEP,     /* the consumer works on one */
    LEAT_TRACE_WORK,     /* a worker computes rows of a call */
    LEAT_TRACE_LOST,     /* ... and died at that; until it was noticed */
    LEAT_TRACE_IDLE,     /* a worker waits for work */
    LEAT_TRACE_BATCH     /* a batch is handed out: `first` of `rows` batches in the window are ready */
};

struct leat_trace_event {
    int64_t begin_ns;
    _Atomic int64_t end_ns; /* 0: not complete */
    uint64_t epoch, step, first, rows;
    union {
        uint64_t bytes;
        struct {
            uint32_t worker; /* its number */
            int32_t process;
        } by; /* of the work of workers */
    };
    const char *name; /* of a stage or of functions: lives as long as the program, or the executor */
    int32_t thread;   /* 0: that which records it */
    enum leat_trace_kind kind;
};

struct leat_trace {
    _Atomic bool on;
    _Atomic uint64_t n; /* those that did not fit are counted too */
    uint64_t room;
    struct leat_trace_event *events;
    int64_t begun_ns;
    int64_t handed_out_ns; /* to the loader's own consumer: under the engine's lock */
};

/* The time if events are recorded, else 0. */
static inline int64_t leat_trace_begin(const struct leat_trace *trace)
{
    return atomic_load_explicit(&trace->on, memory_order_relaxed) ? leat_clock_ns() : 0;
}

/* Records an event, of this thread unless it says which, that began at event->begin_ns and ends at `end_ns`; nothing if
 * it began at 0. */
void leat_trace_add(struct leat_trace *trace, const struct leat_trace_event *event, int64_t end_ns);
void leat_trace_clear(struct leat_trace *trace);

#endif
