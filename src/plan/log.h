/*
 * The log: what was decided, and which entry holds at a position. It knows the sizes of batches, and no row of a
 * mixture: making entries is the matter of decide.h.
 */
#ifndef LEAT_PLAN_LOG_H
#define LEAT_PLAN_LOG_H

#include "plan/cut.h"
#include "plan/internal.h"
#include "plan/list.h"

#define LEAT_PLAN_MAX_LOG (1 << 20)

enum leat_entry_kind { LEAT_ENTRY_OPEN = 0, LEAT_ENTRY_RESUME, LEAT_ENTRY_DECIDE, LEAT_ENTRY_FOLDED };

/* One entry: its changes (0 or NULL: none; -1 for the tail), and the values that hold from then on. */
struct leat_entry {
    enum leat_entry_kind kind;
    struct leat_position at;
    uint64_t global_batch;
    uint32_t world_size;
    int tail;
    uint64_t *sums;         /* n_sources + 1 */
    struct leat_list *list; /* of the only source */
    bool unlisted;          /* the list before it ends: the order is that of the opening again */
    char *facts;
    struct {
        uint64_t global_batch;
        uint32_t world_size;
        enum leat_tail tail;
        const struct leat_list *list;
        uint64_t rests_in;      /* 0, or 1 and the epoch within which the last decision on rows holds */
        uint32_t rests;         /* of these, how many within that epoch */
        uint32_t phase;         /* the entry whose sums hold */
        uint64_t steps, missed; /* of its epoch, before it; those of them that this rank has no part of */
    } now;
    /* FOLDED, of a mixture: as leat_timeline_counts (timeline.h) says of the start of its epoch */
    uint64_t *base, stream;
    int64_t *carry;
    /* FOLDED, if the shares that hold were decided after the epoch's start: the phase that it lies in (as
     * leat_timeline_begin says). Only the first of the rows before are needed, which padding repeats. */
    struct leat_fold_inside {
        uint64_t row;     /* the phase's first; 0: nothing of this, phases follow from the epoch's start */
        uint64_t opening; /* rows of the epoch before its first decision about shares */
        uint64_t *first;  /* sums that held in these; NULL: as opened */
        uint64_t *given;
        int64_t *carry;
        bool *through;
    } inside;
    struct {
        uint64_t entries;      /* how many it replaces */
        uint64_t steps;        /* of its epoch, before it */
        uint64_t hash;         /* of the log up to it */
        uint64_t opened_batch; /* the global batch that the last opening or resume asked for */
        bool rests;            /* rows of its epoch were decided within it: behind it they are not known */
    } folded;                  /* FOLDED: entry 1, which replaces entries 1 to .entries */
};

/* Whether an entry decides rows from within its epoch on. (A folded one is about the epochs behind it.) */
static inline bool leat_entry_is_rest(const struct leat_entry *e)
{
    return e->kind == LEAT_ENTRY_DECIDE && e->at.row && (e->list || e->unlisted);
}

/* The list of an epoch's rows, or NULL: those that the plan was opened with. Its positions are NULL where they are not
 * known any more, with `n` 0 if their number is not. It excludes mixtures. */
const struct leat_list *leat_plan_list(const struct leat_plan *plan, uint64_t epoch);

/* All rows of an epoch within which a decision on rows holds: rest.c. */
struct leat_rest {
    struct leat_rest *next; /* of a later epoch */
    uint64_t epoch;
    struct leat_list *list;
};

/* The entry that replaces older ones, or NULL. Positions before it can no longer be planned. */
static inline const struct leat_entry *leat_plan_fold(const struct leat_plan *plan)
{
    return plan->n_log > 1 && plan->log[1].kind == LEAT_ENTRY_FOLDED ? &plan->log[1] : NULL;
}

static inline bool leat_plan_forgot(const struct leat_plan *plan, struct leat_position at)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && leat_position_precedes(at, fold->at);
}

/* The last entry that holds at a position. Padding repeats rows of an epoch that may lie before the folded entry; for
 * these it is the folded one. */
const struct leat_entry *leat_log_entry(const struct leat_plan *plan, struct leat_position at);
void leat_entry_destroy(struct leat_entry *entry);
void leat_log_free(struct leat_entry *log, uint32_t n);

/* The sizes that hold from an entry on. */
static inline struct leat_cut leat_entry_cut(const struct leat_plan *plan, const struct leat_entry *e)
{
    return (struct leat_cut){
        .global_batch = e->now.global_batch, .rank = plan->rank, .world_size = e->now.world_size, .tail = e->now.tail};
}
/* Whether this rank has no part of the last batch of a segment of so many rows. */
bool leat_entry_misses_rest(const struct leat_plan *plan, const struct leat_entry *e, uint64_t length);

/* Computes the values after each entry of a log from the first-th on. Errors: INVALID (sizes that do not fit each
 * other). */
int leat_log_resolve(const struct leat_plan *plan, struct leat_entry *log, uint32_t first, uint32_t n,
                     struct leat_error *error);

#endif
