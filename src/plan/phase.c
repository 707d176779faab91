/*
 * Making the phases of a mixture. They form a chain, each following from the one before it.
 *
 *     epoch 0                                    | epoch 1
 *     |---- shares as opened ---|-- decision --|-|----------- ...
 *                                                ^ a source is through: its share goes to the others
 *
 * A phase begins when shares change, when a source is through, and, if epochs end by that, when an epoch begins. It
 * carries the rows that each source has given, and their distance from its shares of all rows before (exactly, in units
 * of 2^-32 rows). The next one aims its tree by that. So the phases of an epoch follow from those of the epochs before
 * it. If all sources repeat, an epoch has a fixed number of rows, and begins no phase: any position is then found in
 * one step.
 */
#include "plan/phase.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/search.h"
#include "plan/fair.h"
#include "plan/order.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

uint64_t leat_phase_bytes(uint32_t n)
{
    return sizeof(struct leat_phase) + (5 * (uint64_t)n + 1) * sizeof(uint64_t) + (n + UINT64_C(7)) / 8 * 8;
}

struct leat_phase *leat_phase_place(void *memory, uint32_t n)
{
    struct leat_phase *p = memory;
    uint64_t *at = (uint64_t *)(p + 1);
    p->d.n = n;
    p->d.sums = at;
    at += n + UINT64_C(1);
    p->d.offsets = (int64_t *)at;
    p->d.given = at + n;
    p->d.at_first = at + UINT64_C(2) * n;
    p->d.carry = (int64_t *)(at + UINT64_C(3) * n);
    p->through = (bool *)(at + UINT64_C(4) * n);
    return p;
}

void leat_phase_copy(struct leat_phase *to, const struct leat_phase *from)
{
    memcpy(to, from, leat_phase_bytes(from->d.n));
    leat_phase_place(to, from->d.n); /* its arrays are its own */
}

/* ---- stated shares ----------------------------------------------------------------------------------------------- */

/* The number of rows from a phase's first one to a position; LEAT_NO_END if that lies in a later epoch. */
static uint64_t rows_until(const struct leat_plan *plan, const struct leat_phase *p, struct leat_position at)
{
    if (!plan->varies) {
        unsigned __int128 stream = (unsigned __int128)at.epoch * plan->epoch_rows + at.row;
        return stream > plan->most_rows ? LEAT_NO_END : (uint64_t)stream - p->stream;
    }
    return at.epoch == p->d.epoch ? at.row - p->row : LEAT_NO_END;
}

/* The point of the schedule that holds at a row of the stream. */
static uint32_t point_at(const struct leat_plan *plan, uint64_t stream)
{
    return (uint32_t)LEAT_BISECT(i, 1, plan->n_points, plan->points[i].row <= stream) - 1;
}

static uint64_t begin_of_part(uint64_t part, uint64_t length, uint64_t parts)
{
    return (uint64_t)((unsigned __int128)part * length / parts);
}

/* The shares of the schedule at a row of the stream, and for how many rows. A line is followed in parts, each with the
 * shares of its middle. */
static uint64_t scheduled(const struct leat_plan *plan, uint64_t stream, uint64_t *shares)
{
    const uint32_t n = plan->n_sources, i = point_at(plan, stream);
    const struct leat_point *point = &plan->points[i], *next = i + 1 < plan->n_points ? point + 1 : NULL;
    if (!next || !plan->linear) {
        for (uint32_t k = 0; k < n; k++)
            shares[k] = point->sums[k + 1] - point->sums[k];
        return next ? next->row - stream : LEAT_NO_END;
    }
    const uint64_t length = next->row - point->row, parts = length < LEAT_LINE_PARTS ? length : LEAT_LINE_PARTS,
                   at = stream - point->row;
    uint64_t part = (uint64_t)((unsigned __int128)at * parts / length);
    while (begin_of_part(part + 1, length, parts) <= at)
        part++;
    const uint64_t begin = begin_of_part(part, length, parts), end = begin_of_part(part + 1, length, parts);
    leat_shares_between(point->sums, next->sums, n, begin + end, length, shares);
    return end - at;
}

const struct leat_entry *leat_phase_opens(const struct leat_plan *plan, struct leat_position at)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && at.epoch == fold->at.epoch && at.row < fold->inside.row ? fold : NULL;
}

/* The same of the first rows of an epoch that are folded. */
static uint64_t asked_for_first(const struct leat_plan *plan, const struct leat_phase *p, const struct leat_entry *fold,
                                uint64_t *shares)
{
    const uint64_t *sums = fold->inside.first ? fold->inside.first : plan->log->sums,
                   left = fold->inside.opening > p->row ? fold->inside.opening - p->row : 0;
    uint64_t rows = LEAT_NO_END;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        shares[k] = sums[k + 1] - sums[k];
    if (!fold->inside.first && plan->n_points)
        rows = scheduled(plan, p->stream, shares);
    return left < rows ? left : rows;
}

/* Shares that hold at the phase's begin, and for how many rows they do. */
static uint64_t asked_for(const struct leat_plan *plan, const struct leat_phase *p, uint64_t *shares)
{
    const struct leat_entry *fold = leat_phase_opens(plan, (struct leat_position){p->d.epoch, p->row});
    if (fold)
        return asked_for_first(plan, p, fold, shares);
    const struct leat_entry *e = leat_log_entry(plan, (struct leat_position){p->d.epoch, p->row}), *next = e + 1;
    const struct leat_entry *holds = &plan->log[e->now.phase];
    uint64_t rows = LEAT_NO_END, until;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        shares[k] = holds->sums[k + 1] - holds->sums[k];
    if (!e->now.phase && plan->n_points)
        rows = scheduled(plan, p->stream, shares);
    while (next < plan->log + plan->n_log && !next->sums)
        next++;
    if (next < plan->log + plan->n_log && (until = rows_until(plan, p, next->at)) < rows)
        rows = until;
    return rows;
}

/* ---- making phases ----------------------------------------------------------------------------------------------- */

static bool repeats(const struct leat_plan *plan, uint32_t k)
{
    return plan->sources[k].exhausted == LEAT_EXHAUSTED_REPEAT;
}

/* Rows that a source may still give in the epoch. */
static uint64_t left_of(const struct leat_plan *plan, const struct leat_phase *p, uint32_t k)
{
    const struct leat_source_order *o = &plan->sources[k];
    uint64_t most;
    if (!repeats(plan, k))
        return o->rows - p->d.given[k];
    if (!o->limit || __builtin_mul_overflow(o->limit, o->rows, &most))
        return LEAT_NO_END;
    return most - (p->d.given[k] - p->d.at_first[k]);
}

/* Rows of an epoch that no source ends: until each source with a share has been read once. 0: each has. */
static uint64_t rows_to_read_all(const struct leat_plan *plan, const struct leat_phase *p)
{
    uint64_t most = 0;
    if (plan->fair)
        return leat_fair_rows_to_read_all(plan->fair, &p->d);
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t given = p->d.given[k] - p->d.at_first[k], rows = plan->sources[k].rows;
        if (given >= rows || p->d.sums[k + 1] == p->d.sums[k])
            continue;
        const uint64_t place = leat_mix_place(&p->d, k, rows - given - 1);
        most = place >= LEAT_PLAN_MAX_ROWS ? LEAT_PLAN_MAX_ROWS : place + 1 > most ? place + 1 : most;
    }
    return most;
}

/* Ends a phase at the end of its epoch, if that is before its end. False: that is at its begin. If shares change at the
 * row after which all were read, those that hold from there on say whether the epoch goes on. */
static bool end_epoch(const struct leat_plan *plan, const uint64_t *asked, struct leat_phase *p)
{
    bool some = false, left = false;
    uint64_t rows = LEAT_NO_END;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        some |= asked[k] && !repeats(plan, k);
        left |= asked[k] && !repeats(plan, k) && !p->through[k];
    }
    if (some && !left)
        return false;
    if (plan->epoch_rows)
        rows = plan->epoch_rows > p->row ? plan->epoch_rows - p->row : 0;
    else if (!some)
        rows = rows_to_read_all(plan, p);
    if (rows < p->rows || (rows == p->rows && plan->epoch_rows)) {
        p->rows = rows;
        p->last = true;
        p->ends = plan->n_sources;
    }
    return rows > 0;
}

void leat_phase_next_epoch(const struct leat_plan *plan, struct leat_phase *p)
{
    p->d.epoch++;
    p->row = 0;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->d.given[k] = repeats(plan, k) ? p->d.given[k] : 0;
        p->d.at_first[k] = p->d.given[k];
        p->through[k] = false;
    }
}

/* The length of a phase whose shares are set, if a source ends it. */
static void find_end(const struct leat_plan *plan, struct leat_phase *p, uint64_t *left)
{
    uint64_t rows = LEAT_NO_END;
    uint32_t ends = plan->n_sources;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        left[k] = p->d.sums[k + 1] > p->d.sums[k] ? left_of(plan, p, k) : LEAT_NO_END;
    if (plan->fair)
        rows = leat_fair_end(plan->fair, &p->d, left, &ends);
    for (uint32_t k = 0; !plan->fair && k < plan->n_sources; k++) {
        const uint64_t place = left[k] < LEAT_PLAN_MAX_ROWS ? leat_mix_place(&p->d, k, left[k]) : LEAT_NO_END;
        if (place < rows) {
            rows = place;
            ends = k;
        }
    }
    p->ends = plan->n_sources;
    if (rows < p->rows) {
        p->rows = rows;
        p->ends = ends;
    }
}

/* Phases of one key have the same rows, whichever timeline they are of. */
static void set_key(const struct leat_plan *plan, struct leat_phase *p)
{
    const uint32_t n = plan->n_sources;
    p->d.key = leat_key_mix(p->d.epoch, leat_hash64(p->d.sums, (n + UINT64_C(1)) * sizeof *p->d.sums));
    p->d.key = leat_key_mix(p->d.key, leat_hash64(p->d.given, n * sizeof *p->d.given));
    p->d.key = leat_key_mix(p->d.key, leat_hash64(p->d.carry, n * sizeof *p->d.carry));
}

/* Makes the tree from stated shares, without sources that are through. False: nobody is left. */
static bool make_tree(const struct leat_plan *plan, const uint64_t *asked, struct leat_phase *p)
{
    bool some = false;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->d.sums[k] = p->through[k] ? 0 : asked[k];
        some |= p->through[k] && asked[k];
    }
    if (!some && !plan->tokens)
        leat_shares_sum(p->d.sums, plan->n_sources);
    else if (!leat_shares_scale(p->d.sums, plan->n_sources, plan->tokens))
        return false;
    p->d.mean = leat_mix_mean(&p->d);
    if (!plan->fair)
        leat_mix_aim(&p->d);
    else
        set_key(plan, p);
    return true;
}

bool leat_phase_make(const struct leat_plan *plan, uint64_t *shares, struct leat_phase *p)
{
    for (;;) {
        if (plan->fair)
            leat_fair_begin(plan->fair, &p->d);
        p->rows = asked_for(plan, p, shares);
        p->last = false;
        p->ends = plan->n_sources;
        if (!make_tree(plan, shares, p))
            return false;
        if (!plan->varies)
            return true;
        find_end(plan, p, shares + plan->n_sources + 1);
        if (!end_epoch(plan, shares, p))
            return false;
        if (p->ends < plan->n_sources && plan->sources[p->ends].exhausted == LEAT_EXHAUSTED_STOP) {
            p->last = true;
            return p->rows > 0;
        }
        if (p->rows || p->ends == plan->n_sources)
            return true;
        p->through[p->ends] = true;
    }
}

void leat_phase_counts(const struct leat_plan *plan, const struct leat_phase *p, uint64_t rows, uint64_t *counts,
                       int64_t *carry)
{
    uint64_t all = rows;
    if (plan->fair) {
        all = leat_fair_counts(plan->fair, &p->d, rows, counts, (uint64_t *)carry);
    } else {
        leat_mix_counts(&p->d, rows, counts);
        memcpy(carry, counts, plan->n_sources * sizeof *carry);
    }
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t share = p->d.sums[k + 1] - p->d.sums[k], own = (uint64_t)carry[k];
        carry[k] = (int64_t)((uint64_t)p->d.carry[k] + (own << LEAT_SHARE_BITS) - all * share);
    }
}

void leat_phase_advance(const struct leat_plan *plan, uint64_t *scratch, struct leat_phase *p)
{
    int64_t *carry = (int64_t *)(scratch + plan->n_sources);
    leat_phase_counts(plan, p, p->rows, scratch, carry);
    memcpy(p->d.carry, carry, plan->n_sources * sizeof *carry);
    for (uint32_t k = 0; k < plan->n_sources; k++)
        p->d.given[k] += scratch[k];
    p->number++;
    p->stream += p->rows;
    p->row += p->rows;
    if (!plan->varies) { /* numbered by the stream; epoch and row only serve to look up decisions */
        p->d.epoch = p->stream / plan->epoch_rows;
        p->row = p->stream % plan->epoch_rows;
        return;
    }
    if (p->last)
        leat_phase_next_epoch(plan, p);
    else if (p->ends < plan->n_sources)
        p->through[p->ends] = true;
}

void leat_phase_begin_inside(const struct leat_plan *plan, struct leat_phase *p, const struct leat_entry *fold)
{
    p->number = 0;
    p->d.epoch = fold->at.epoch;
    p->row = fold->inside.row;
    p->stream = fold->stream + fold->inside.row;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->d.given[k] = fold->inside.given[k];
        p->d.at_first[k] = fold->base[k];
        p->d.carry[k] = fold->inside.carry[k];
        p->through[k] = fold->inside.through[k];
    }
}

void leat_phase_begin(const struct leat_plan *plan, struct leat_phase *p, const struct leat_entry *begin)
{
    p->number = 0;
    p->d.epoch = begin ? begin->at.epoch : 0;
    p->row = 0;
    p->stream = begin ? begin->stream : 0;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->d.given[k] = p->d.at_first[k] = begin ? begin->base[k] : 0;
        p->d.carry[k] = begin ? begin->carry[k] : 0;
        p->through[k] = false;
    }
}

/* Rows until each source with a share has been read once, if all repeat: as a phase with the opening shares has them.
 */
static uint64_t rows_of_fair(const struct leat_plan *p)
{
    uint64_t rows = 0;
    void *memory = leat_alloc(leat_phase_bytes(p->n_sources));
    if (!memory)
        return 0;
    struct leat_phase *phase = leat_phase_place(memory, p->n_sources);
    leat_phase_begin(p, phase, NULL);
    memcpy(phase->d.sums, p->log->sums, (p->n_sources + (size_t)1) * sizeof *p->log->sums);
    phase->d.mean = 0;
    leat_fair_begin(p->fair, &phase->d);
    rows = leat_fair_rows_to_read_all(p->fair, &phase->d);
    leat_free(memory);
    return rows < p->most_rows ? rows : p->most_rows;
}

/* The same if a source's rows are of one length. A share is rounded down by less than a unit: less than a unit a row
 * that is missing is no row. 0: no memory. */
uint64_t leat_phase_rows_to_read_all(const struct leat_plan *p)
{
    uint64_t most = 0, *sums = p->fair ? NULL : leat_new_array(p->n_sources + (size_t)1, sizeof *sums);
    if (!sums)
        return p->fair ? rows_of_fair(p) : 0;
    for (uint32_t k = 0; k < p->n_sources; k++)
        sums[k] = p->log->sums[k + 1] - p->log->sums[k];
    leat_shares_scale(sums, p->n_sources, p->tokens);
    for (uint32_t k = 0; k < p->n_sources; k++) {
        const uint64_t share = sums[k + 1] - sums[k];
        const unsigned __int128 whole = (unsigned __int128)p->sources[k].rows << LEAT_SHARE_BITS;
        const unsigned __int128 least = share ? whole / share : 0;
        const unsigned __int128 rows = least + (share && whole - least * share > least);
        most = rows >= LEAT_PLAN_MAX_ROWS ? LEAT_PLAN_MAX_ROWS - 1 : rows > most ? (uint64_t)rows : most;
    }
    leat_free(sums);
    return most;
}
