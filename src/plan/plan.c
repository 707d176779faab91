/*
 * A plan from its specification.
 */
#include "plan/plan.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "plan/fair.h"
#include "plan/groups.h"
#include "plan/lengths.h"
#include "plan/list.h"
#include "plan/members.h"
#include "plan/packed.h"
#include "plan/phase.h"
#include "plan/rest.h"
#include "plan/timeline.h"
#include "plan/weighted.h"

#define MAX_POINTS (UINT32_C(1) << 20) /* of a schedule, */
#define MAX_SHARES (UINT32_C(1) << 27) /* ... with so many shares: 1 GiB */

/* Sizes that give the same order are one: states and hashes of it are the same. */
static int set_blocks(const struct leat_order_spec *s, struct leat_source_order *o, struct leat_error *error)
{
    if (!s->block_rows)
        return leat_fail(error, LEAT_E_INVALID, "the blocks of a block-shuffled order must have at least 1 row");
    if (s->block_window % s->block_rows)
        return leat_fail(error, LEAT_E_INVALID,
                         "the window of a block-shuffled order must be a multiple of its blocks' %llu rows, not %llu",
                         (unsigned long long)s->block_rows, (unsigned long long)s->block_window);
    const bool one_block = s->block_rows >= o->count, usual = s->block_window / s->block_rows == LEAT_ORDER_WINDOW;
    o->block_rows = one_block ? o->count : s->block_rows;
    o->block_window = one_block || usual ? 0 : s->block_window;
    return LEAT_OK;
}

static int make_source(const struct leat_plan_source *from, uint32_t k, uint64_t seed, struct leat_source_order *o,
                       struct leat_error *error)
{
    const struct leat_order_spec *s = &from->order;
    *o = (struct leat_source_order){.order = s->order, .count = from->count, .rows = from->count};
    if (from->pack && from->count < LEAT_PLAN_MAX_ROWS) {
        int rc = leat_packing_new(from->pack, from->count, s->order == LEAT_ORDER_SHUFFLED, &o->packing, error);
        if (rc)
            return rc;
        o->count = o->rows = o->packing->rows;
    }
    if (s->order == LEAT_ORDER_WEIGHTED && o->packing && from->pack->n_weights != o->count)
        return leat_fail(error, LEAT_E_INVALID, "weights must be %llu, one per row, not %llu",
                         (unsigned long long)o->count, (unsigned long long)from->pack->n_weights);
    o->key = leat_key_mix(leat_key_mix(seed, LEAT_TAG_ORDER), k);
    if (from->count >= LEAT_PLAN_MAX_ROWS)
        return leat_fail(error, LEAT_E_RANGE, "source %u has %llu samples: at most 2^63 - 1", k,
                         (unsigned long long)from->count);
    if (from->one_of) {
        int rc = from->pack || from->group
                     ? leat_fail(error, LEAT_E_INVALID, "groups that draw a member are neither cut nor put together")
                     : leat_members_new(from->one_of, from->count, &o->members, error);
        if (rc)
            return rc;
        o->count = o->rows = o->members->n;
    }
    if (from->group && (o->packing || (s->order != LEAT_ORDER_SEQUENTIAL && s->order != LEAT_ORDER_SHUFFLED)))
        return leat_fail(error, LEAT_E_INVALID, "batches by size are of samples, in order or shuffled");
    if (from->group) {
        int rc = leat_groups_new(from->group, from->count, s->order == LEAT_ORDER_SHUFFLED, &o->groups, error);
        if (rc)
            return rc;
    }
    switch (s->order) {
    case LEAT_ORDER_SEQUENTIAL:
    case LEAT_ORDER_SHUFFLED:
        return LEAT_OK;
    case LEAT_ORDER_BLOCKS:
        return set_blocks(s, o, error);
    case LEAT_ORDER_WEIGHTED:
        if (!s->weights || !s->num_samples || s->num_samples >= LEAT_PLAN_MAX_ROWS)
            return leat_fail(error, LEAT_E_INVALID,
                             "a weighted order needs one weight per sample and num_samples above 0 (here %llu)",
                             (unsigned long long)s->num_samples);
        o->replacement = s->replacement;
        o->rows = s->num_samples;
        return leat_weights_new(s->weights, o->count, s->replacement ? 0 : s->num_samples, &o->weights, error);
    case LEAT_ORDER_LIST:
        if (!s->positions && s->n_positions)
            return leat_fail(error, LEAT_E_INVALID, "a list of %llu positions is missing",
                             (unsigned long long)s->n_positions);
        o->rows = s->n_positions;
        return leat_list_new(s->positions, s->n_positions, o->count, &o->list, error);
    default:
        return leat_fail(error, LEAT_E_INVALID, "there is no order number %d", (int)s->order);
    }
}

/* The facts as compact JSON with sorted keys. */
static int copy_facts(const char *facts, char **out, struct leat_error *error)
{
    *out = NULL;
    if (!facts)
        return LEAT_OK;
    json_t *json = json_loads(facts, JSON_REJECT_DUPLICATES, NULL);
    char *text = json_is_object(json) ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int rc = LEAT_OK;
    if (!text || strlen(text) > LEAT_PLAN_MAX_FACTS)
        rc = leat_fail(error, LEAT_E_INVALID, "the facts of a plan must be a JSON object of at most %d bytes",
                       LEAT_PLAN_MAX_FACTS);
    else if (!(*out = leat_strdup(text)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    free(text);
    json_decref(json);
    return rc;
}

static int make_first_entry(struct leat_plan *p, const struct leat_plan_spec *spec, struct leat_error *error)
{
    p->log = leat_new(struct leat_entry);
    if (!p->log)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    p->n_log = 1;
    p->room = 1;
    struct leat_entry *e = p->log;
    *e = (struct leat_entry){.kind = LEAT_ENTRY_OPEN,
                             .global_batch = spec->global_batch,
                             .world_size = spec->world_size,
                             .tail = (int)spec->tail};
    e->now.list = p->sources->list; /* of LIST; NULL else */
    int rc = copy_facts(spec->facts, &e->facts, error);
    if (rc)
        return rc;
    if (e->facts && !(p->opened_facts = leat_strdup(e->facts)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    if (spec->view && !(p->view = leat_strdup(spec->view)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    if (p->mixed) {
        e->sums = leat_new_array(p->n_sources + 1u, sizeof *e->sums);
        double *shares = leat_new_array(p->n_sources, sizeof *shares);
        if (!e->sums || !shares) {
            leat_free(shares);
            return leat_fail(error, LEAT_E_NOMEM, "no memory for %u shares", p->n_sources);
        }
        for (uint32_t k = 0; k < p->n_sources; k++)
            shares[k] = p->n_sources == 1 ? 1 : spec->sources[k].share;
        if (p->n_points)
            memcpy(e->sums, p->points->sums, (p->n_sources + 1u) * sizeof *e->sums);
        else
            rc = leat_shares_set(shares, p->n_sources, e->sums, error);
        leat_free(shares);
        if (rc)
            return rc;
    }
    return leat_log_resolve(p, p->log, 0, 1, error);
}

static int check_spec(const struct leat_plan_spec *s, struct leat_error *error)
{
    if (!s->sources || !s->n_sources || s->n_sources > LEAT_PLAN_MAX_SOURCES)
        return leat_fail(error, LEAT_E_INVALID, "a plan has 1 to %d sources, not %u", LEAT_PLAN_MAX_SOURCES,
                         s->n_sources);
    if (!s->world_size || s->rank >= s->world_size)
        return leat_fail(error, LEAT_E_INVALID, "rank %u of %u: ranks are 0 to world_size - 1", s->rank, s->world_size);
    if (!s->global_batch)
        return leat_fail(error, LEAT_E_INVALID, "the batch size must be above 0");
    if (s->tail != LEAT_TAIL_PAD && s->tail != LEAT_TAIL_DROP && s->tail != LEAT_TAIL_UNEVEN)
        return leat_fail(error, LEAT_E_INVALID, "there is no tail number %d", (int)s->tail);
    if (s->epoch_rows >= LEAT_PLAN_MAX_ROWS)
        return leat_fail(error, LEAT_E_RANGE, "an epoch of %llu rows: at most 2^63 - 1",
                         (unsigned long long)s->epoch_rows);
    return LEAT_OK;
}

/* ---- mixtures -------------------------------------------------------------------------------- */

static bool may_have_share(const struct leat_plan_spec *spec, uint32_t k)
{
    bool may = spec->n_sources == 1 || (!spec->n_points && spec->sources[k].share > 0);
    for (size_t i = 0; i < spec->n_points; i++)
        may |= spec->schedule[i].shares[k] > 0;
    return may;
}

static int copy_schedule(struct leat_plan *p, const struct leat_plan_spec *spec, struct leat_error *error)
{
    p->points = leat_new_array(spec->n_points, sizeof *p->points);
    if (!p->points)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a schedule");
    for (; p->n_points < spec->n_points; p->n_points++) {
        struct leat_point *point = &p->points[p->n_points];
        point->row = spec->schedule[p->n_points].row;
        if (p->n_points ? point->row <= point[-1].row : point->row != 0)
            return leat_fail(error, LEAT_E_INVALID,
                             "point %u of the schedule is at row %llu: the first is at row 0, and rows rise",
                             p->n_points, (unsigned long long)point->row);
        point->sums = leat_new_array(p->n_sources + 1u, sizeof *point->sums);
        if (!point->sums)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a schedule");
        int rc = leat_shares_set(spec->schedule[p->n_points].shares, p->n_sources, point->sums, error);
        if (rc) {
            p->n_points++;
            return rc;
        }
    }
    return LEAT_OK;
}

/* Shares of tokens if rows vary in length. */
static int make_fair(struct leat_plan *p, const struct leat_plan_spec *spec, struct leat_error *error)
{
    int rc = leat_fair_new(p->sources, p->n_sources, spec->sources, &p->fair, &p->most_rows, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++)
        if (may_have_share(spec, k) && !leat_lengths_total(p->sources[k].lengths))
            rc = leat_fail(error, LEAT_E_INVALID, "source %u has a share and no tokens: leave it out", k);
    return rc;
}

static int make_mixture(struct leat_plan *p, const struct leat_plan_spec *spec, struct leat_error *error)
{
    if (spec->n_points > MAX_POINTS || spec->n_points * (p->n_sources + UINT64_C(1)) > MAX_SHARES)
        return leat_fail(error, LEAT_E_RANGE,
                         "a schedule of %zu points of %u sources: at most %u points, with %u shares", spec->n_points,
                         p->n_sources, MAX_POINTS, MAX_SHARES);
    bool tokens = false, vary = false;
    for (uint32_t k = 0; k < p->n_sources; k++) {
        struct leat_source_order *o = &p->sources[k];
        o->exhausted = spec->mixed || p->n_sources > 1 ? spec->sources[k].exhausted : LEAT_EXHAUSTED_REPEAT;
        o->limit = o->exhausted == LEAT_EXHAUSTED_REPEAT ? spec->sources[k].limit : 0;
        if (o->exhausted < LEAT_EXHAUSTED_STOP || o->exhausted > LEAT_EXHAUSTED_REPEAT)
            return leat_fail(error, LEAT_E_INVALID, "source %u: when exhausted it stops, redistributes or repeats", k);
        p->varies |= o->exhausted != LEAT_EXHAUSTED_REPEAT || o->limit;
        tokens |= spec->sources[k].tokens != 0;
        vary |= spec->sources[k].row_tokens != NULL;
    }
    p->linear = spec->linear;
    p->timeline = leat_timeline_new(p->n_sources);
    p->tokens = tokens && !vary ? leat_new_array(p->n_sources, sizeof *p->tokens) : NULL;
    if (!p->timeline || (tokens && !vary && !p->tokens))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a mixture");
    for (uint32_t k = 0; p->tokens && k < p->n_sources; k++) {
        p->tokens[k] = spec->sources[k].tokens;
        if ((!p->tokens[k] && p->sources[k].rows) || p->tokens[k] > UINT32_MAX)
            return leat_fail(error, LEAT_E_RANGE, "rows of source %u have %llu tokens: 1 to 2^32 - 1", k,
                             (unsigned long long)p->tokens[k]);
        p->tokens[k] += !p->tokens[k];
    }
    int rc = vary ? make_fair(p, spec, error) : LEAT_OK;
    return rc || !spec->n_points ? rc : copy_schedule(p, spec, error);
}

int leat_plan_new(const struct leat_plan_spec *spec, struct leat_plan **out, struct leat_error *error)
{
    *out = NULL;
    int rc = check_spec(spec, error);
    if (rc)
        return rc;
    struct leat_plan *p = leat_new(struct leat_plan);
    if (!p)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
    p->sources = leat_new_array(spec->n_sources, sizeof *p->sources);
    if (!p->sources) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a plan");
        goto out;
    }
    p->seed = spec->seed;
    p->mixed = spec->mixed || spec->n_sources > 1 || spec->epoch_rows;
    p->most_rows = LEAT_PLAN_MAX_ROWS;
    p->epoch_rows = spec->epoch_rows;
    p->rank = spec->rank;
    p->opened_global_batch = spec->global_batch;
    p->opened_world_size = spec->world_size;
    p->opened_tail = spec->tail;
    for (; p->n_sources < spec->n_sources; p->n_sources++) {
        uint32_t k = p->n_sources;
        rc = make_source(&spec->sources[k], k, spec->seed, &p->sources[k], error);
        p->packed |= p->sources[k].packing != NULL;
        p->draws |= p->sources[k].members != NULL;
        if (!rc && p->mixed && p->sources[k].groups)
            rc = leat_fail(error, LEAT_E_INVALID, "the rows of a mixture are no batches by size");
        if (rc) {
            p->n_sources++; /* leat_plan_free releases its memory */
            goto out;
        }
        if (p->mixed && !p->sources[k].rows && may_have_share(spec, k)) {
            p->n_sources++;
            rc = leat_fail(error, LEAT_E_INVALID, "source %u is empty but has a share: leave it out", k);
            goto out;
        }
    }
    rc = p->mixed ? make_mixture(p, spec, error) : LEAT_OK;
    rc = rc ? rc : make_first_entry(p, spec, error);
    if (rc)
        goto out;
    if (p->mixed && !p->varies && !p->epoch_rows && !(p->epoch_rows = leat_phase_rows_to_read_all(p))) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a mixture");
        goto out;
    }
    *out = p;
    return LEAT_OK;
out:
    leat_plan_free(p);
    return rc;
}

void leat_plan_free(struct leat_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t k = 0; plan->sources && k < plan->n_sources; k++) {
        leat_weights_free(plan->sources[k].weights);
        leat_list_free(plan->sources[k].list);
        leat_packing_free(plan->sources[k].packing);
        leat_lengths_free(plan->sources[k].lengths);
        leat_groups_free(plan->sources[k].groups);
        leat_members_free(plan->sources[k].members);
    }
    for (uint32_t i = 0; i < plan->n_points; i++)
        leat_free(plan->points[i].sums);
    leat_free(plan->points);
    leat_free(plan->tokens);
    leat_timeline_free(plan->timeline);
    leat_fair_free(plan->fair);
    leat_free(plan->sources);
    leat_log_free(plan->log, plan->n_log);
    leat_plan_forget_lists(plan);
    leat_rest_free(plan->rests);
    leat_free(plan->opened_facts);
    leat_free(plan->view);
    leat_free(plan);
}
