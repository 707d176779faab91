/*
 * The rows of a batch, as the engine needs them for every sample, and the samples that are drawn beside them.
 */
#include "plan/rows.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "plan/geometry.h"
#include "plan/list.h"
#include "plan/log.h"
#include "plan/members.h"
#include "plan/order.h"
#include "plan/packed.h"
#include "plan/timeline.h"
#include "plan/weighted.h"

uint64_t leat_plan_key(uint64_t seed, uint64_t epoch, uint64_t row)
{
    return leat_key_mix(leat_key_mix(seed, epoch), row);
}

uint64_t leat_row_key(uint64_t seed, uint64_t epoch, uint64_t row)
{
    return leat_plan_key(seed, epoch, row);
}

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

/* The position of a piece's sample: of a group, that of the member which is the i-th draw under a row's key. */
static uint64_t member_of(const struct leat_plan *plan, const struct leat_piece *piece, uint64_t key, unsigned i)
{
    const struct leat_members *members = plan->sources[piece->source].members;
    return members ? leat_members_draw(members, piece->position, key, i) : piece->position;
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
        for (size_t i = 0; r->plan->draws && i < run; i++)
            rows[i].piece.position = member_of(r->plan, &rows[i].piece, rows[i].key, 0);
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
    return o->order == LEAT_ORDER_WEIGHTED ? leat_weights_draw_other(o->weights, key, attempt, broken)
                                           : one_of(o->count, key, attempt, broken);
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
    piece.position = member_of(plan, &piece, key, n);
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

int leat_plan_pieces(const struct leat_plan *plan, struct leat_plan_row *rows, size_t n, struct leat_pieces *pieces)
{
    pieces->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct leat_piece *piece = &rows[i].piece;
        if (piece->count != LEAT_PIECE_PACKED)
            continue;
        const struct leat_source_order *o = &plan->sources[piece->source];
        size_t first = pieces->n;
        int rc =
            leat_packing_row(o->packing, leat_order_pass_key(o, piece->begin), piece->source, piece->position, pieces);
        if (rc)
            return rc;
        rows[i].n_more = (uint32_t)(pieces->n - first - 1);
        *piece = pieces->at[first];
        piece->begin = first; /* an index, because the array may still move */
        piece->count = LEAT_PIECE_PACKED;
    }
    for (size_t i = 0; i < n; i++)
        if (rows[i].piece.count == LEAT_PIECE_PACKED) {
            const struct leat_piece *all = pieces->at + rows[i].piece.begin;
            rows[i].more = rows[i].n_more ? all + 1 : NULL;
            rows[i].piece = *all;
        }
    return LEAT_OK;
}

bool leat_plan_draws(const struct leat_plan *plan)
{
    return plan->draws;
}

uint64_t leat_plan_piece_of(const struct leat_plan *plan, const struct leat_piece *piece)
{
    return plan->sources[piece->source].packing->lengths[piece->position];
}
