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
 * In a plan of groups all this counts groups in the place of rows. A rank has one in each batch, and gets the rows of
 * it.
 */
#include "plan/geometry.h"

#include "base/search.h"
#include "plan/groups.h"
#include "plan/log.h"
#include "plan/order.h"
#include "plan/timeline.h"

struct segment {
    uint64_t begin, end, first_step, steps;
    const struct leat_entry *entry;
    bool final;
};

/* The segment of an epoch with `rows` rows, above `row`, that a row is in: a log may be long, so it is searched. False:
 * the row is folded away. */
static bool find_segment(const struct leat_plan *plan, uint64_t epoch, uint64_t rows, uint64_t row, struct segment *s)
{
    const struct leat_position at = {epoch, row};
    if (leat_plan_forgot(plan, at))
        return false;
    const struct leat_entry *e = leat_log_entry(plan, at), *end = plan->log + plan->n_log;
    const bool inside = e->at.epoch == epoch;
    s->entry = e;
    s->begin = inside ? e->at.row : 0;
    s->first_step = inside ? e->now.steps : 0;
    s->final = e + 1 == end || e[1].at.epoch != epoch || e[1].at.row >= rows;
    s->end = s->final ? rows : e[1].at.row;
    const uint64_t length = s->end - s->begin, global = e->now.global_batch;
    s->steps = length / global + (length % global && !(s->final && e->now.tail == LEAT_TAIL_DROP));
    return true;
}

/* The last one of an epoch, or false. */
static bool last_segment(const struct leat_plan *plan, uint64_t epoch, struct segment *s)
{
    const uint64_t rows = leat_plan_epoch_units(plan, epoch);
    return rows && find_segment(plan, epoch, rows, rows - 1, s);
}

uint64_t leat_plan_source_rows(const struct leat_plan *plan, uint32_t k)
{
    return plan->sources[k].rows;
}

uint64_t leat_plan_epoch_rows(const struct leat_plan *plan, uint64_t epoch)
{
    if (plan->mixed)
        return plan->varies ? leat_timeline_epoch_rows(plan, epoch) : plan->epoch_rows;
    const struct leat_entry *fold = leat_plan_fold(plan);
    if (fold && epoch < fold->at.epoch)
        return plan->sources->order == LEAT_ORDER_LIST ? 0 : plan->sources->rows;
    const struct leat_list *list = leat_plan_list(plan, epoch);
    return list ? list->n : plan->sources->rows;
}

uint64_t leat_plan_epoch_units(const struct leat_plan *plan, uint64_t epoch)
{
    return plan->sources->groups ? plan->sources->groups->n : leat_plan_epoch_rows(plan, epoch);
}

uint64_t leat_plan_repeated_rows(const struct leat_plan *plan, uint64_t epoch)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && fold->at.epoch == epoch && fold->inside.row ? fold->inside.opening
                                                               : leat_plan_epoch_rows(plan, epoch);
}

uint64_t leat_plan_steps(const struct leat_plan *plan, uint64_t epoch)
{
    struct segment s;
    return last_segment(plan, epoch, &s) ? s.first_step + s.steps : 0;
}

uint64_t leat_plan_rank_steps(const struct leat_plan *plan, uint64_t epoch)
{
    struct segment s;
    const struct leat_entry *fold = leat_plan_fold(plan);
    if (!last_segment(plan, epoch, &s))
        return fold && fold->at.epoch == epoch ? fold->folded.steps : 0;
    const uint64_t length = s.end - s.begin, whole = length / s.entry->now.global_batch;
    const uint64_t missed = s.entry->at.epoch == epoch ? s.entry->now.missed : 0;
    return s.first_step + s.steps - missed - (s.steps > whole && leat_entry_misses_rest(plan, s.entry, length));
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
    return plan->sources->groups ? plan->sources->groups->weight : 0;
}

/* Whether the list of an epoch, if it has one, is in memory. */
static bool is_listed(const struct leat_plan *plan, uint64_t epoch)
{
    const struct leat_list *list = plan->mixed ? NULL : leat_plan_list(plan, epoch);
    return !list || list->positions;
}

int leat_plan_batch(const struct leat_plan *plan, struct leat_position at, struct leat_plan_batch *out)
{
    *out = (struct leat_plan_batch){0};
    if (at.epoch >> 63)
        return LEAT_E_RANGE;
    if (leat_plan_forgot(plan, at))
        return LEAT_E_RANGE;
    if (!is_listed(plan, at.epoch))
        return LEAT_E_RANGE;
    uint64_t rows = leat_plan_epoch_units(plan, at.epoch);
    if (plan->mixed && (!rows || (!plan->varies && (unsigned __int128)at.epoch * rows + rows > plan->most_rows)))
        return LEAT_E_RANGE;
    if (at.row >= rows)
        return LEAT_E_END;
    struct segment s;
    if (!find_segment(plan, at.epoch, rows, at.row, &s))
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
    const struct leat_cut cut = leat_entry_cut(plan, s.entry);
    leat_cut_part(&cut, real, &begin, &out->rows);
    out->begin = at.row + begin;
    if (plan->sources->groups)
        rows_of_groups(plan, out);
    return LEAT_OK;
}

bool leat_plan_step_is_folded(const struct leat_plan *plan, uint64_t epoch, uint64_t step)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && (epoch < fold->at.epoch || (epoch == fold->at.epoch && step < fold->folded.steps));
}

int leat_plan_seek(const struct leat_plan *plan, uint64_t epoch, uint64_t step, struct leat_position *out)
{
    struct segment s;
    *out = (struct leat_position){0};
    if (epoch >> 63 || leat_plan_step_is_folded(plan, epoch, step) || !last_segment(plan, epoch, &s) ||
        step >= s.first_step + s.steps)
        return LEAT_E_RANGE;
    const struct leat_entry *low = leat_log_entry(plan, (struct leat_position){epoch, 0});
    /* the first entry, or the last that holds from the step or one before it */
    low += LEAT_BISECT(i, 1, (uint64_t)(s.entry + 1 - low), low[i].now.steps <= step) - 1;
    const bool inside = low->at.epoch == epoch;
    const uint64_t begin = inside ? low->at.row : 0, first = inside ? low->now.steps : 0;
    *out = (struct leat_position){epoch, begin + (step - first) * low->now.global_batch};
    return LEAT_OK;
}

int leat_plan_find(const struct leat_plan *plan, struct leat_position row, struct leat_position *out)
{
    struct segment s;
    *out = (struct leat_position){0};
    if (row.epoch >> 63)
        return LEAT_E_RANGE;
    const uint64_t rows = leat_plan_epoch_units(plan, row.epoch);
    if (row.row >= rows)
        return rows ? LEAT_E_END : LEAT_E_RANGE;
    if (!find_segment(plan, row.epoch, rows, row.row, &s))
        return LEAT_E_RANGE;
    const uint64_t global = s.entry->now.global_batch;
    *out = (struct leat_position){row.epoch, s.begin + (row.row - s.begin) / global * global};
    return LEAT_OK;
}
