/*
 * A phase of a mixture: a run of rows over which shares stay the same. Each follows from the one before it, by the
 * rules of phase.c: it asks the log for the shares that hold, and the division (mixture.h, fair.h) for the place at
 * which a source is through. Which phases are kept, and which one holds at a position, is the matter of timeline.h.
 */
#ifndef LEAT_PLAN_PHASE_H
#define LEAT_PLAN_PHASE_H

#include "plan/log.h"
#include "plan/mixture.h"

#define LEAT_NO_END UINT64_MAX
#define LEAT_LINE_PARTS 64 /* of a line between two points of a schedule: each is a phase */

struct leat_phase {
    uint64_t number;      /* in the chain of those made from one beginning */
    uint64_t row, stream; /* of its first row */
    uint64_t rows;        /* LEAT_NO_END: it has no end */
    bool last;            /* of its epoch, if epochs end by their sources */
    uint32_t ends;        /* the source that cannot give the row behind it, or n */
    struct leat_division d;
    bool *through;
};

struct leat_phase *leat_phase_place(void *memory, uint32_t n);
void leat_phase_copy(struct leat_phase *to, const struct leat_phase *from);

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
/* Rows until each source with a share has been read once, if all repeat, as a phase with the opening shares has them:
 * at most those that can be planned. 0: no memory. */
uint64_t leat_phase_rows_to_read_all(const struct leat_plan *plan);

#endif
