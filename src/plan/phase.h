/*
 * A phase of a mixture: a run of rows over which shares stay the same. Each follows from the one before it.
 */
#ifndef LEAT_PLAN_PHASE_H
#define LEAT_PLAN_PHASE_H

#include "plan/internal.h"

#define LEAT_NO_END UINT64_MAX
#define LEAT_LINE_PARTS 64 /* of a line between two points of a schedule: each is a phase */

struct leat_phase {
    uint64_t number;             /* in the chain of those made from one beginning */
    uint64_t epoch, row, stream; /* of its first row */
    uint64_t rows;               /* LEAT_NO_END: it has no end */
    uint64_t key;                /* if rows vary in length: the rest of the facts that define its rows */
    int64_t mean;                /* of the excess of sources with a share */
    bool last;                   /* of its epoch, if epochs end by their sources */
    uint32_t ends;               /* the source that cannot give the row behind it, or n */
    struct leat_tree tree;
    uint64_t *given;    /* by each source before: over all epochs if it repeats, else in this one */
    uint64_t *at_first; /* `given` as the epoch began */
    int64_t *carry;     /* that it was given too much, in units of 2^-32 rows, or tokens if rows vary in length */
    bool *through;
};

/* A phase and its arrays in one piece of memory of so many bytes. */
uint64_t leat_phase_bytes(uint32_t n);
struct leat_phase *leat_phase_place(void *memory, uint32_t n);
void leat_phase_copy(struct leat_phase *to, const struct leat_phase *from);

/* The begin of an epoch, from the counts of sources in `begin`; NULL: of the first one. */
void leat_phase_begin(const struct leat_plan *plan, struct leat_phase *p, const struct leat_entry *begin);
/* The begin of the phase within an epoch that a folded entry lies in. */
void leat_phase_begin_inside(const struct leat_plan *plan, struct leat_phase *p, const struct leat_entry *fold);
/* The folded entry, if the position lies before the phase within an epoch from which phases follow then: only rows that
 * padding repeats are requested there. */
const struct leat_entry *leat_phase_opens(const struct leat_plan *plan, struct leat_position at);
/* Makes a phase whose position and counts are known. `scratch` has room for 2 n + 1. False: its epoch ends before it.
 */
bool leat_phase_make(const struct leat_plan *plan, uint64_t *scratch, struct leat_phase *p);
/* The number of the first rows of a phase that come from each source, and the excess of each then. */
void leat_phase_counts(const struct leat_plan *plan, const struct leat_phase *p, uint64_t rows, uint64_t *counts,
                       int64_t *carry);
/* Moves a phase to the start of the next one, which is then to be made; to the begin of the next epoch. */
void leat_phase_advance(const struct leat_plan *plan, uint64_t *scratch, struct leat_phase *p);
void leat_phase_next_epoch(const struct leat_plan *plan, struct leat_phase *p);

#endif
