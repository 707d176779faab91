/*
 * Hashes over what defines a plan's rows. A folded entry of the log carries the hash up to it, so that folding changes
 * none.
 */
#include "plan/hash.h"

#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "plan/groups.h"
#include "plan/lengths.h"
#include "plan/log.h"
#include "plan/members.h"
#include "plan/weighted.h"

#define TOP (UINT64_C(1) << 63) /* in the hash of the log, beside a number of rows */

uint64_t leat_plan_schedule_hash(const struct leat_plan *plan)
{
    uint64_t h = plan->linear;
    for (uint32_t i = 0; i < plan->n_points; i++) {
        h = leat_key_mix(h, plan->points[i].row);
        h = leat_key_mix(h, leat_hash64(plan->points[i].sums, (plan->n_sources + 1u) * sizeof *plan->points[i].sums));
    }
    return h;
}

uint64_t leat_plan_order_hash(const struct leat_plan *plan)
{
    uint64_t h = leat_key_mix(leat_key_mix(LEAT_PLAN_VERSION, plan->seed), plan->epoch_rows);
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const struct leat_source_order *o = &plan->sources[k];
        const uint64_t words[] = {o->order,
                                  o->count,
                                  o->rows,
                                  o->block_rows,
                                  o->replacement,
                                  o->weights ? o->weights->hash : 0,
                                  o->list ? o->list->hash : 0};
        h = leat_key_mix(h, leat_hash64(words, sizeof words));
        if (o->block_window) /* not of the usual one: states keep their hashes */
            h = leat_key_mix(h, o->block_window);
        const uint64_t mixed[] = {o->exhausted, o->limit, plan->tokens ? plan->tokens[k] : 0};
        if (plan->mixed)
            h = leat_key_mix(h, leat_hash64(mixed, sizeof mixed));
        if (plan->fair)
            h = leat_key_mix(h, leat_lengths_hash(o->lengths));
        if (o->groups && !o->groups->buckets) /* not of those by length: states keep their hashes */
            h = leat_key_mix(h, o->groups->hash);
        if (o->members)
            h = leat_key_mix(h, o->members->hash);
    }
    return plan->n_points ? leat_key_mix(h, leat_plan_schedule_hash(plan)) : h;
}

uint64_t leat_plan_hash_until(const struct leat_plan *plan, uint32_t last)
{
    uint64_t h = leat_plan_order_hash(plan);
    for (uint32_t i = 0; i <= last; i++) {
        const struct leat_entry *e = &plan->log[i];
        if (e->kind == LEAT_ENTRY_FOLDED) {
            h = e->folded.hash;
            continue;
        }
        const uint64_t words[] = {e->kind,
                                  e->at.epoch,
                                  e->at.row,
                                  e->global_batch,
                                  e->world_size,
                                  (uint64_t)(int64_t)e->tail,
                                  e->list ? e->list->hash : 0,
                                  e->list       ? (e->list->n + 1) | (e->list->selects ? TOP : 0)
                                  : e->unlisted ? TOP
                                                : 0,
                                  e->sums ? leat_hash64(e->sums, (plan->n_sources + 1u) * sizeof *e->sums) : 0,
                                  e->facts ? leat_hash64(e->facts, strlen(e->facts)) : 0};
        h = leat_key_mix(h, leat_hash64(words, sizeof words));
    }
    return h;
}

uint64_t leat_plan_hash(const struct leat_plan *plan)
{
    return leat_plan_hash_until(plan, plan->n_log - 1);
}
