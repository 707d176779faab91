/*
 * A plan from its specification, and the rows of a batch: as the engine needs them for every sample.
 */
#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "plan/fair.h"
#include "plan/lengths.h"

uint64_t leat_plan_key(uint64_t seed, uint64_t epoch, uint64_t row)
{
    return leat_key_mix(leat_key_mix(seed, epoch), row);
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
    if (from->group && (o->packing || (s->order != LEAT_ORDER_SEQUENTIAL && s->order != LEAT_ORDER_SHUFFLED)))
        return leat_fail(error, LEAT_E_INVALID, "batches by length are of samples, in order or shuffled");
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
        if (!s->block_rows)
            return leat_fail(error, LEAT_E_INVALID, "the blocks of a block-shuffled order must have at least 1 row");
        o->block_rows = s->block_rows < o->count ? s->block_rows : o->count;
        return LEAT_OK;
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
    int rc = leat_fair_new(p, spec, error);
    for (uint32_t k = 0; !rc && k < p->n_sources; k++)
        if (may_have_share(spec, k) && !leat_lengths_total(p->sources[k].lengths))
            rc = leat_fail(error, LEAT_E_INVALID, "source %u has a share and no tokens: leave it out", k);
    return rc;
}

static int make_mixture(struct leat_plan *p, const struct leat_plan_spec *spec, struct leat_error *error)
{
    if (spec->n_points > LEAT_PLAN_MAX_POINTS || spec->n_points * (p->n_sources + UINT64_C(1)) > LEAT_PLAN_MAX_SHARES)
        return leat_fail(error, LEAT_E_RANGE,
                         "a schedule of %zu points of %u sources: at most %u points, with %u shares", spec->n_points,
                         p->n_sources, LEAT_PLAN_MAX_POINTS, LEAT_PLAN_MAX_SHARES);
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
    memcpy(phase->tree.sums, p->log->sums, (p->n_sources + (size_t)1) * sizeof *p->log->sums);
    phase->mean = 0;
    leat_fair_begin(p, phase);
    rows = leat_fair_rows_to_read_all(p, phase);
    leat_free(memory);
    return rows < p->most_rows ? rows : p->most_rows;
}

/* The same if a source's rows are of one length. A share is rounded down by less than a unit: less than a unit a row
 * that is missing is no row. 0: no memory. */
static uint64_t rows_to_read_all(const struct leat_plan *p)
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
        if (!rc && p->mixed && p->sources[k].groups)
            rc = leat_fail(error, LEAT_E_INVALID, "the rows of a mixture are no batches by length");
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
    if (p->mixed && !p->varies && !p->epoch_rows && !(p->epoch_rows = rows_to_read_all(p))) {
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

/* ---- rows ------------------------------------------------------------------------------------ */

#define CURSORS 8

/* State that the runs of one call share. */
struct reader {
    const struct leat_plan *plan;
    uint64_t epoch;
    struct leat_order_cursor cursors[CURSORS];
    uint64_t positions[LEAT_ORDER_RUN];
    uint32_t sources[LEAT_ORDER_RUN];
    uint64_t passes[LEAT_ORDER_RUN]; /* of a mixture only */
};

static void start_reader(struct reader *r, const struct leat_plan *plan, uint64_t epoch)
{
    r->plan = plan;
    r->epoch = epoch;
    for (int i = 0; i < CURSORS; i++)
        r->cursors[i].pass_set = false;
}

/* `n` rows of source k from one of a pass on. */
static void source_run(struct reader *r, uint32_t k, uint64_t pass, uint64_t first, size_t n, uint64_t *out)
{
    const struct leat_source_order *o = &r->plan->sources[k];
    while (n) {
        size_t run = o->rows - first < n ? (size_t)(o->rows - first) : n;
        leat_order_run(o, o->list, &r->cursors[k % CURSORS], pass, first, run, out);
        pass++;
        first = 0;
        out += run;
        n -= run;
    }
}

/* Rows of a mixture, of one phase. Those from one source are consecutive there, so they are computed as one run and
 * then distributed. */
static size_t mixed_run(struct reader *r, uint64_t row, size_t n)
{
    enum { NONE = LEAT_ORDER_RUN };
    uint64_t indices[LEAT_ORDER_RUN], run[LEAT_ORDER_RUN];
    uint16_t next[LEAT_ORDER_RUN], first[LEAT_PLAN_MAX_SOURCES];
    n = leat_timeline_run(r->plan, (struct leat_position){r->epoch, row}, n, r->sources, r->passes, indices);
    for (uint32_t k = 0; k < r->plan->n_sources; k++)
        first[k] = NONE;
    for (size_t i = n; i--;) { /* the rows of each source, linked */
        next[i] = first[r->sources[i]];
        first[r->sources[i]] = (uint16_t)i;
    }
    for (uint32_t k = 0; k < r->plan->n_sources; k++) {
        size_t count = 0;
        for (size_t i = first[k]; i != NONE; i = next[i])
            count++;
        if (count)
            source_run(r, k, r->passes[first[k]], indices[first[k]], count, run);
        count = 0;
        for (size_t i = first[k]; i != NONE; i = next[i])
            r->positions[i] = run[count++];
    }
    return n;
}

/* Sources and positions of rows from `row` on, up to the next decision. Returns how many: at most `n` and
 * LEAT_ORDER_RUN. */
static size_t read_run(struct reader *r, uint64_t row, uint64_t n)
{
    const struct leat_plan *plan = r->plan;
    const struct leat_entry *e = leat_log_entry(plan, (struct leat_position){r->epoch, row});
    size_t run = n < LEAT_ORDER_RUN ? (size_t)n : LEAT_ORDER_RUN;
    if (e + 1 < plan->log + plan->n_log && e[1].at.epoch == r->epoch && e[1].at.row - row < run)
        run = (size_t)(e[1].at.row - row);
    if (plan->mixed)
        return mixed_run(r, row, run);
    memset(r->sources, 0, run * sizeof *r->sources);
    leat_order_run(plan->sources, leat_plan_list(plan, r->epoch), r->cursors, r->epoch, row, run, r->positions);
    return run;
}

/* Rows numbered from `number` on, with the samples planned for `row` and after it. */
static void fill(struct reader *r, uint64_t key, uint64_t number, uint64_t row, bool valid, uint64_t n,
                 struct leat_plan_row *rows)
{
    while (n) {
        size_t run = read_run(r, row, n);
        for (size_t i = 0; i < run; i++)
            rows[i] = (struct leat_plan_row){
                .row = number + i,
                .key = leat_key_mix(key, number + i),
                .piece = {.source = r->sources[i], .position = r->positions[i], .count = UINT64_MAX},
                .valid = valid};
        for (size_t i = 0; r->plan->packed && i < run; i++)
            if (r->plan->sources[r->sources[i]].packing) {
                rows[i].piece.begin = r->plan->mixed ? r->passes[i] : r->epoch;
                rows[i].piece.count = LEAT_PIECE_PACKED;
            }
        number += run;
        row += run;
        rows += run;
        n -= run;
    }
}

/* Whether rows up to `end` of an epoch can be planned: they are not folded, and their list is in memory. */
static bool is_known(const struct leat_plan *plan, struct leat_position at, uint64_t end)
{
    if (leat_plan_forgot(plan, at))
        return false;
    const struct leat_list *list = plan->mixed ? NULL : leat_plan_list(plan, at.epoch);
    return !list || (list->positions && end <= list->n);
}

int leat_plan_rows(const struct leat_plan *plan, const struct leat_plan_batch *batch, uint64_t first, uint64_t n,
                   struct leat_plan_row *rows)
{
    assert(first + n <= batch->rows);
    uint64_t at = batch->begin + first, real_end = batch->at.row + batch->global_rows;
    uint64_t real = at >= real_end ? 0 : real_end - at < n ? real_end - at : n;
    if (!is_known(plan, batch->at, real_end))
        return LEAT_E_RANGE;
    uint64_t key = leat_key_mix(plan->seed, batch->epoch);
    struct reader r;
    start_reader(&r, plan, batch->epoch);
    if (plan->sources->groups) {
        const uint64_t all = leat_plan_epoch_rows(plan, batch->epoch);
        fill(&r, key, at, at < all ? at : at - all, at < all, n, rows);
        return LEAT_OK;
    }
    fill(&r, key, at, at, true, real, rows);
    /* Padding: row N + i repeats row i mod N, under its own key. */
    const uint64_t epoch_rows = real < n ? leat_plan_epoch_rows(plan, batch->epoch) : 0,
                   repeated = real < n ? leat_plan_repeated_rows(plan, batch->epoch) : 0;
    for (uint64_t run; real < n; real += run) {
        uint64_t i = at + real - real_end, row = i % repeated;
        run = repeated - row < n - real ? repeated - row : n - real;
        fill(&r, key, epoch_rows + i, row, false, run, rows + real);
    }
    return LEAT_OK;
}

int leat_plan_rows_at(const struct leat_plan *plan, uint64_t epoch, const uint64_t *numbers, uint64_t n,
                      struct leat_plan_row *rows)
{
    uint64_t epoch_rows = epoch >> 63 ? 0 : leat_plan_epoch_rows(plan, epoch), key = leat_key_mix(plan->seed, epoch);
    struct reader r;
    if (!epoch_rows || (plan->fair && !plan->varies && epoch > plan->most_rows / epoch_rows))
        return LEAT_E_RANGE;
    const uint64_t repeated = leat_plan_repeated_rows(plan, epoch);
    start_reader(&r, plan, epoch);
    for (uint64_t i = 0, run; i < n; i += run) {
        bool real = numbers[i] < epoch_rows;
        uint64_t row = real ? numbers[i] : (numbers[i] - epoch_rows) % repeated;
        const uint64_t end = real ? epoch_rows : repeated;
        for (run = 1; i + run < n && numbers[i + run] == numbers[i] + run && row + run < end; run++)
            ;
        if (!is_known(plan, (struct leat_position){epoch, real ? row : epoch_rows}, row + run))
            return LEAT_E_RANGE;
        fill(&r, key, numbers[i], row, real, run, rows + i);
    }
    return LEAT_OK;
}

int leat_plan_mix_counts(const struct leat_plan *plan, uint64_t epoch, uint64_t rows, uint64_t *counts)
{
    const uint32_t n = plan->n_sources;
    const uint64_t all = epoch >> 63 ? 0 : leat_plan_epoch_rows(plan, epoch);
    const bool is_next = rows >= all && !plan->varies; /* epochs without phases of their own: the next one's start */
    const struct leat_position begin = {epoch, 0}, end = {epoch + is_next, is_next ? 0 : rows < all ? rows : all};
    uint64_t *before = leat_new_array(n, sizeof *before), stream;
    int64_t *carry = leat_new_array(n, sizeof *carry);
    int rc = !before || !carry ? LEAT_E_NOMEM : !all || leat_plan_forgot(plan, begin) ? LEAT_E_RANGE : LEAT_OK;
    if (!rc && (!leat_timeline_counts(plan, begin, before, carry, &stream) ||
                !leat_timeline_counts(plan, end, counts, carry, &stream)))
        rc = LEAT_E_RANGE;
    for (uint32_t k = 0; !rc && k < n; k++)
        counts[k] -= before[k];
    leat_free(before);
    leat_free(carry);
    return rc;
}

static uint64_t one_of(uint64_t count, uint64_t key, unsigned attempt, uint64_t broken)
{
    if (broken >= count)
        return leat_draw_below(key, attempt, count);
    if (count < 2)
        return broken;
    uint64_t position = leat_draw_below(key, attempt, count - 1);
    return position + (position >= broken);
}

uint64_t leat_order_substitute(uint64_t row_key, unsigned attempt, uint64_t count, uint64_t broken)
{
    return one_of(count, leat_key_mix(row_key, LEAT_TAG_SUBSTITUTE), attempt, broken);
}

/* Another sample from the order's set: an entry of a list, a sample by weight, else any sample. */
static uint64_t another(const struct leat_source_order *o, const struct leat_list *list, uint64_t key, unsigned attempt,
                        uint64_t broken)
{
    if (list) {
        uint64_t i = leat_draw_below(key, attempt, list->n);
        for (uint64_t k = 0; k < list->n; k++, i = i + 1 == list->n ? 0 : i + 1)
            if ((uint64_t)list->positions[i] != broken)
                return (uint64_t)list->positions[i];
        return broken;
    }
    if (o->order == LEAT_ORDER_WEIGHTED) {
        if (o->weights->positive == 1)
            return broken;
        for (uint64_t k = 0; k < 64; k++) {
            uint64_t position = leat_weights_draw(o->weights, key, attempt * UINT64_C(64) + k);
            if (position != broken)
                return position;
        }
        /* the broken one has nearly all the weight: take a neighbour */
        const double *sums = o->weights->cumulative;
        for (uint64_t i = broken + 1 == o->count ? 0 : broken + 1; i != broken; i = i + 1 == o->count ? 0 : i + 1)
            if (sums[i] > (i ? sums[i - 1] : 0))
                return i;
        return broken;
    }
    return one_of(o->count, key, attempt, broken);
}

/* The n-th of the samples that are drawn for a row beside its own, under a key of this tag. */
static struct leat_piece draw_other(const struct leat_plan *plan, uint64_t epoch, uint64_t row, uint64_t tag,
                                    unsigned n)
{
    uint64_t epoch_rows = leat_plan_epoch_rows(plan, epoch);
    if (!epoch_rows)
        return (struct leat_piece){0};
    uint64_t planned = row < epoch_rows ? row : (row - epoch_rows) % leat_plan_repeated_rows(plan, epoch); /* padding */
    /* The first rows of an epoch that the fold cuts are known only for padding. */
    if (!is_known(plan, (struct leat_position){epoch, row < epoch_rows ? row : epoch_rows}, planned + 1))
        return (struct leat_piece){0};
    struct reader r;
    start_reader(&r, plan, epoch);
    read_run(&r, planned, 1);
    struct leat_piece piece = {.source = r.sources[0], .position = r.positions[0], .count = UINT64_MAX};
    const struct leat_source_order *o = &plan->sources[piece.source];
    if (o->packing) {
        piece.begin = plan->mixed ? r.passes[0] : epoch;
        piece.count = LEAT_PIECE_PACKED;
    }
    const struct leat_list *list =
        plan->mixed ? o->list : leat_log_entry(plan, (struct leat_position){epoch, planned})->now.list;
    if (list && !list->positions)
        return (struct leat_piece){0};
    uint64_t key = leat_key_mix(leat_plan_key(plan->seed, epoch, row), tag);
    piece.position = another(o, list, key, n, piece.position);
    return piece;
}

struct leat_piece leat_plan_substitute(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned attempt)
{
    return draw_other(plan, epoch, row, LEAT_TAG_SUBSTITUTE, attempt);
}

struct leat_piece leat_plan_companion(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned n)
{
    return draw_other(plan, epoch, row, LEAT_TAG_COMPANION, n);
}
