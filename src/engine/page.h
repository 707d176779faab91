/*
 * A page that other processes of the user read to see what the loaders of this one are doing (leat top).
 *
 * It is a memfd: it has no name in any file system, goes with the process however that ends, and is found through
 * /proc/PID/fd, which only the same user may open. Loaders write their slot at most ten times a second, under the
 * engine's lock; readers look at the slot's serial before and after.
 */
#ifndef LEAT_ENGINE_PAGE_H
#define LEAT_ENGINE_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "leat/watch.h"

#define LEAT_PAGE_SLOTS 32

struct leat_page_slot {
    _Atomic uint64_t serial;                         /* odd while it is written; 0: free */
    int64_t opened_ns, updated_ns, waiting_since_ns; /* CLOCK_MONOTONIC; waiting_since: 0, the consumer does not wait */
    uint64_t samples, batches, bytes, waits, wait_ns, help_ns;
    uint64_t ready, depth;                      /* of the window */
    uint64_t running, parked, calling, threads; /* calling: of those parked, in functions of the user */
    uint64_t epoch, step;
    uint64_t in_use_bytes, budget_bytes;
    uint64_t skipped, substituted, raised;
    uint64_t told[LEAT_MOST_TOLD / sizeof(uint64_t)]; /* text: leat_loader_tell */
};

struct leat_page {
    char magic[8];
    uint32_t version, slot_bytes;
    uint64_t slots;
    struct leat_page_slot slot[LEAT_PAGE_SLOTS];
};

/* Under the engine's lock. A slot for a loader, or NULL: there is no page, or no slot is free. */
struct leat_page_slot *leat_page_join(void);
void leat_page_leave(struct leat_page_slot *slot); /* NULL is allowed */
/* Writes the loader's slot, if that was not done a moment ago. */
void leat_page_update(struct leat_loader *loader, int64_t now_ns);
/* The consumer begins to wait, or to make rows itself, or (0) is done with that. */
void leat_page_wait(struct leat_loader *loader, int64_t since_ns);
/* In a forked child: the page is the parent's. */
void leat_page_forget(void);

#endif
