/*
 * From positions to batches. The log cuts an epoch into segments of one geometry; batches are counted from a segment's
 * first row, so that one never spans a decision:
 *
 *     row     0         4         8    10            16   19
 *     batch   |    0    |    1    | 2  |      3      | 4  |
 *             +-- G = 4 -----------------+- G = 6 from row 10
 *
 * A batch that a decision cuts short is handed out under "drop" too, which drops only the epoch's last one. Its parts
 * are padded to equal size as those of the last one, except under "uneven".
 *
 * Of a plan of groups all this counts groups in the place of rows. A rank has one in each batch, and what it is given
 * are the rows of it.
 */
#include "base/error.h"
#include "plan/internal.h"

struct segment {
    uint64_t begin, end, first_step, steps;
    const struct leat_entry *entry;
    bool final;
};

/* The first segment of an epoch; then the next one. False when there is none. */
static bool next_segment(const struct leat_plan *plan, uint64_t epoch, uint64_t rows, struct segment *s)
{
    const struct leat_entry *end = plan->log + plan->n_log, *e;
    if (!s->entry) {
        const struct leat_entry *fold = leat_plan_fold(plan);
        if (fold && epoch < fold->at.epoch)
            return false;
        bool cut = fold && epoch == fold->at.epoch; /* of the rows before it only the number of steps is known */
        s->begin = cut ? fold->at.row : 0;
        s->first_step = cut ? fold->folded.steps : 0;
        e = leat_log_entry(plan, (struct leat_position){epoch, s->begin});
    } else {
        if (s->final)
            return false;
        s->begin = s->end;
        s->first_step += s->steps;
        const struct leat_position begin = {epoch, s->begin};
        for (e = s->entry; e + 1 < end && !leat_position_precedes(begin, e[1].at);)
            e++;
    }
    if (s->begin >= rows)
        return false;
    s->entry = e;
    s->final = e + 1 == end || e[1].at.epoch != epoch || e[1].at.row >= rows;
    s->end = s->final ? rows : e[1].at.row;
    uint64_t length = s->end - s->begin, global = e->now.global_batch;
    s->steps = length / global + (length % global && !(s->final && e->now.tail == LEAT_TAIL_DROP));
    return true;
}

uint64_t leat_plan_source_rows(const struct leat_plan *plan, uint32_t k)
{
    return plan->sources[k].rows;
}

uint64_t leat_plan_epoch_rows(const struct leat_plan *plan, uint64_t epoch)
{
    if (plan->mixed)
        return plan->varies ? leat_timeline_epoch_rows(plan, epoch) : plan->epoch_rows;
    if (plan->sources->order == LEAT_ORDER_LIST) {
        const struct leat_entry *fold = leat_plan_fold(plan);
        return fold && epoch < fold->at.epoch ? 0 : leat_log_entry(plan, (struct leat_position){epoch, 0})->now.list->n;
    }
    return plan->sources->rows;
}

uint64_t leat_plan_steps(const struct leat_plan *plan, uint64_t epoch)
{
    struct segment s = {0};
    uint64_t rows = leat_plan_epoch_units(plan, epoch), steps = 0;
    while (next_segment(plan, epoch, rows, &s))
        steps = s.first_step + s.steps;
    return steps;
}

uint64_t leat_plan_steps_before(const struct leat_plan *plan, struct leat_position at)
{
    struct segment s = {0};
    uint64_t rows = leat_plan_epoch_units(plan, at.epoch), steps = 0;
    while (next_segment(plan, at.epoch, rows, &s) && s.begin < at.row)
        steps = s.first_step + s.steps;
    return steps;
}

/* This rank's part of a batch of `real` rows: all rows counted from its first one. */
static void part(const struct leat_plan *plan, const struct leat_entry *e, uint64_t real, uint64_t *begin,
                 uint64_t *rows)
{
    uint64_t w = e->now.world_size, with_padding = real;
    *begin = real;
    *rows = 0;
    if (plan->rank >= w) /* before a resume on more ranks this one had no part */
        return;
    if (real < e->now.global_batch && e->now.tail != LEAT_TAIL_UNEVEN)
        with_padding = (real + w - 1) / w * w;
    *begin = (uint64_t)((unsigned __int128)with_padding * plan->rank / w);
    *rows = (uint64_t)((unsigned __int128)with_padding * (plan->rank + 1u) / w) - *begin;
}

uint64_t leat_plan_rank_steps(const struct leat_plan *plan, uint64_t epoch)
{
    struct segment s = {0};
    const struct leat_entry *fold = leat_plan_fold(plan);
    uint64_t rows = leat_plan_epoch_units(plan, epoch);
    uint64_t steps = fold && fold->at.epoch == epoch ? fold->folded.steps : 0; /* as if this rank had a part of each */
    while (next_segment(plan, epoch, rows, &s)) {
        uint64_t length = s.end - s.begin, whole = length / s.entry->now.global_batch, begin, mine;
        part(plan, s.entry, length % s.entry->now.global_batch, &begin, &mine);
        steps += whole + (s.steps > whole && mine);
    }
    return steps;
}

uint64_t leat_plan_global_batch(const struct leat_plan *plan)
{
    return plan->log[plan->n_log - 1].now.global_batch;
}

/* Makes rows of the groups that a batch has. Those of padding are numbered after the epoch's. */
static void rows_of_groups(const struct leat_plan *plan, struct leat_plan_batch *out)
{
    struct leat_groups *g = plan->sources->groups;
    const uint64_t key = leat_order_pass_key(plan->sources, out->epoch), real = out->global_rows, group = out->begin;
    const bool has = out->rows != 0, pads = group >= out->at.row + real;
    uint64_t first;
    leat_groups_rows(g, key, out->at.row, real, &first, &out->global_rows);
    leat_groups_rows(g, key,
                     !has   ? 0
                     : pads ? (group - out->at.row - real) % g->n
                            : group,
                     has, &out->begin, &out->rows);
    if (has && pads)
        out->begin += g->samples;
}

uint64_t leat_plan_group_rows(const struct leat_plan *plan)
{
    return plan->sources->groups ? plan->sources->groups->most_rows : 0;
}

uint64_t leat_plan_group_weight(const struct leat_plan *plan)
{
    const struct leat_groups *g = plan->sources->groups;
    const uint64_t mean = g && g->samples ? g->elements / g->samples : 0;
    return !g ? 0 : mean ? g->most_elements / mean + 1 : g->most_rows;
}

int leat_plan_batch(const struct leat_plan *plan, struct leat_position at, struct leat_plan_batch *out)
{
    *out = (struct leat_plan_batch){0};
    if (at.epoch >> 63)
        return LEAT_E_RANGE;
    if (leat_plan_forgot(plan, at))
        return LEAT_E_RANGE;
    uint64_t rows = leat_plan_epoch_units(plan, at.epoch);
    if (plan->mixed && (!rows || (!plan->varies && (unsigned __int128)at.epoch * rows + rows > plan->most_rows)))
        return LEAT_E_RANGE;
    if (at.row >= rows)
        return LEAT_E_END;
    struct segment s = {0};
    while (next_segment(plan, at.epoch, rows, &s) && at.row >= s.end)
        ;
    if (!plan->mixed && plan->sources->order == LEAT_ORDER_LIST && !s.entry->now.list->positions)
        return LEAT_E_RANGE;
    uint64_t offset = at.row - s.begin, global = s.entry->now.global_batch;
    if (offset % global)
        return LEAT_E_INVALID;
    if (offset / global >= s.steps)
        return LEAT_E_END;
    uint64_t left = s.end - at.row, real = left < global ? left : global;
    out->epoch = at.epoch;
    out->step = s.first_step + offset / global;
    out->at = at;
    out->global_rows = real;
    out->last = s.final && offset / global + 1 == s.steps;
    out->next = (struct leat_position){at.epoch, out->last ? rows : at.row + real};
    uint64_t begin;
    part(plan, s.entry, real, &begin, &out->rows);
    out->begin = at.row + begin;
    if (plan->sources->groups)
        rows_of_groups(plan, out);
    return LEAT_OK;
}

int leat_plan_seek(const struct leat_plan *plan, uint64_t epoch, uint64_t step, struct leat_position *out)
{
    struct segment s = {0};
    uint64_t rows = leat_plan_epoch_units(plan, epoch);
    *out = (struct leat_position){0};
    if (epoch >> 63)
        return LEAT_E_RANGE;
    while (next_segment(plan, epoch, rows, &s) &&
           step >= s.first_step) /* those before the first one's are folded away */
        if (step < s.first_step + s.steps) {
            *out = (struct leat_position){epoch, s.begin + (step - s.first_step) * s.entry->now.global_batch};
            return LEAT_OK;
        }
    return LEAT_E_RANGE;
}
