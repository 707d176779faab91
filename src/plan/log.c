/*
 * The log: entries in the order of their positions, the first at (0, 0). An entry gives the changes. The values after
 * each entry are computed when the log changes, so that readers only look them up.
 *
 * Shares begin a phase (timeline.c), in which each source goes on from its place. The folded entry notes the rows that
 * each source had given as its epoch began.
 */
#include "plan/log.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "plan/order.h"

void leat_entry_destroy(struct leat_entry *e)
{
    leat_free(e->sums);
    leat_free(e->base);
    leat_free(e->carry);
    leat_free(e->inside.first);
    leat_free(e->inside.given);
    leat_free(e->inside.carry);
    leat_free(e->inside.through);
    leat_free(e->facts);
    leat_list_free(e->list);
}

void leat_log_free(struct leat_entry *log, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        leat_entry_destroy(&log[i]);
    leat_free(log);
}

const struct leat_entry *leat_log_entry(const struct leat_plan *plan, struct leat_position at)
{
    /* the last one that holds at or before `at` */
    const uint64_t low = LEAT_BISECT(i, 1, plan->n_log, !leat_position_precedes(at, plan->log[i].at)) - 1;
    return leat_plan_forgot(plan, at) && at.epoch == plan->log[1].at.epoch ? &plan->log[1] : &plan->log[low];
}

static void set_list(struct leat_entry *e, const struct leat_list *opened)
{
    const uint64_t in = leat_entry_is_rest(e) ? e->at.epoch + 1 : 0;
    e->now.list = e->list ? e->list : opened;
    e->now.rests = in && in == e->now.rests_in ? e->now.rests + 1 : 1;
    e->now.rests_in = in;
}

const struct leat_list *leat_plan_list(const struct leat_plan *plan, uint64_t epoch)
{
    static const struct leat_list unknown = {0};
    const struct leat_entry *last = leat_log_entry(plan, (struct leat_position){epoch, UINT64_MAX});
    if (last->now.rests_in != epoch + 1)
        return last->now.list;
    const struct leat_rest *rest = plan->rests;
    while (rest && rest->epoch < epoch)
        rest = rest->next;
    return rest && rest->epoch == epoch ? rest->list : &unknown;
}

bool leat_entry_misses_rest(const struct leat_plan *plan, const struct leat_entry *e, uint64_t length)
{
    uint64_t begin, mine;
    const uint64_t rest = length % e->now.global_batch;
    const struct leat_cut cut = leat_entry_cut(plan, e);
    leat_cut_part(&cut, rest, &begin, &mine);
    return rest && !mine;
}

/* Computes the steps before an entry from those before the one that precedes it. */
static void count_steps(const struct leat_plan *plan, const struct leat_entry *before, struct leat_entry *e)
{
    const bool same = before->at.epoch == e->at.epoch;
    const uint64_t length = same ? e->at.row - before->at.row : e->at.row, global = before->now.global_batch;
    e->now.steps = (same ? before->now.steps : 0) + length / global + (length % global != 0);
    e->now.missed = (same ? before->now.missed : 0) + leat_entry_misses_rest(plan, before, length);
    if (e->kind == LEAT_ENTRY_FOLDED) {
        e->now.steps = e->folded.steps;
        e->now.missed = 0; /* as if this rank had a part of each */
    }
}

int leat_log_resolve(const struct leat_plan *plan, struct leat_entry *log, uint32_t first, uint32_t n,
                     struct leat_error *error)
{
    for (uint32_t i = first; i < n; i++) {
        struct leat_entry *e = &log[i];
        if (i)
            e->now = log[i - 1].now;
        if (e->global_batch)
            e->now.global_batch = e->global_batch;
        if (e->world_size)
            e->now.world_size = e->world_size;
        if (e->tail >= 0)
            e->now.tail = (enum leat_tail)e->tail;
        if (e->list || e->unlisted)
            set_list(e, log->now.list);
        if (e->kind == LEAT_ENTRY_FOLDED)
            e->now.rests_in = e->folded.rests ? e->at.epoch + 1 : 0;
        if (e->now.global_batch < e->now.world_size || e->now.global_batch > LEAT_MAX_GLOBAL_BATCH)
            return leat_fail(
                error, LEAT_E_INVALID,
                "a global batch of %llu rows for %u ranks: it must have at least one row per rank and at most 2^40",
                (unsigned long long)e->now.global_batch, e->now.world_size);
        if (plan->sources->groups && e->now.global_batch != e->now.world_size)
            return leat_fail(error, LEAT_E_INVALID,
                             "%llu batches for %u ranks: where batches are made by size, each rank has one a step",
                             (unsigned long long)e->now.global_batch, e->now.world_size);
        if (e->sums)
            e->now.phase = i;
        if (i)
            count_steps(plan, &log[i - 1], e);
    }
    return LEAT_OK;
}
