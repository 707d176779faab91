/*
 * One pass over one source: index in the pass -> position in the source.
 *
 * BLOCKS composes two maps, so that a disk reads whole blocks while neighbours in the order come from several:
 *
 *     index --permuted inside windows of some blocks--> j --blocks permuted--> position
 *
 * The blocks of full size are permuted. The short one at the end of the data is inserted at a random place. So the
 * place of every block is known without inverting a permutation or keeping a table.
 */
#include "plan/order.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "plan/groups.h"
#include "plan/list.h"
#include "plan/weighted.h"

uint64_t leat_order_pass_key(const struct leat_source_order *order, uint64_t pass)
{
    return leat_key_mix(order->key, pass);
}

static void start_pass(const struct leat_source_order *o, struct leat_order_cursor *c, uint64_t pass)
{
    c->order = o;
    c->pass = pass;
    c->key = leat_order_pass_key(o, pass);
    c->pass_set = true;
    c->window_set = false;
    c->list = NULL;
    if (o->order == LEAT_ORDER_SHUFFLED) {
        c->outer = leat_permutation_init(o->count, c->key);
    } else if (o->order == LEAT_ORDER_BLOCKS) {
        uint64_t full = o->count / o->block_rows;
        c->outer = leat_permutation_init(full, c->key); /* full >= 1: block_rows is at most count */
        c->slot = leat_draw_below(c->key, 0, full + 1);
    }
}

/* Rows [begin + first, begin + first + n), which lie in the window of the cursor: one that begins at `begin`. */
static void window_run(const struct leat_source_order *o, const struct leat_order_cursor *c, uint64_t begin,
                       uint64_t first, size_t n, uint64_t *out)
{
    uint64_t rows = o->block_rows, reciprocal = UINT64_MAX / rows, block[LEAT_ORDER_RUN], offset[LEAT_ORDER_RUN];
    uint64_t left = o->count % rows, full_rows = o->count - left, before = c->slot * rows;
    for (size_t k = 0; k < n; k++)
        out[k] = first + k;
    leat_permute_many(&c->inner, out, n);
    for (size_t k = 0; k < n; k++) {
        uint64_t j = out[k] += begin;
        bool in_short = j - before < left; /* the difference wraps if j lies before it */
        j = in_short ? 0 : j < before ? j : j - left;
        block[k] = (uint64_t)(((unsigned __int128)j * reciprocal) >> 64); /* j / rows or one less */
        offset[k] = j - block[k] * rows;
        if (offset[k] >= rows) {
            block[k]++;
            offset[k] -= rows;
        }
    }
    leat_permute_many(&c->outer, block, n);
    for (size_t k = 0; k < n; k++)
        out[k] = out[k] - before < left ? full_rows + (out[k] - before) : block[k] * rows + offset[k];
}

static uint64_t window_rows_of(const struct leat_source_order *o)
{
    uint64_t rows = o->block_window;
    if (!rows && !leat_mul_u64(o->block_rows, LEAT_ORDER_WINDOW, &rows))
        return o->count;
    return rows < o->count ? rows : o->count;
}

static void block_run(const struct leat_source_order *o, struct leat_order_cursor *c, uint64_t first, size_t n,
                      uint64_t *out)
{
    const uint64_t window_rows = window_rows_of(o);
    while (n) {
        uint64_t window = first / window_rows, begin = window * window_rows;
        uint64_t size = o->count - begin < window_rows ? o->count - begin : window_rows;
        if (!c->window_set || c->window != window) {
            c->inner = leat_permutation_init(size, leat_key_mix(c->key, window));
            c->window = window;
            c->window_set = true;
        }
        size_t run = begin + size - first < n ? (size_t)(begin + size - first) : n;
        window_run(o, c, begin, first - begin, run, out);
        first += run;
        out += run;
        n -= run;
    }
}

/* The same order, of as many samples as a list selects. */
static struct leat_source_order among(const struct leat_source_order *o, const struct leat_list *list)
{
    struct leat_source_order some = *o;
    some.count = some.rows = list->n;
    some.block_rows = o->block_rows < list->n ? o->block_rows : list->n;
    return some;
}

/* Row i is list[j], with j row i of the order of as many samples as the list has. */
static void selected_run(const struct leat_source_order *o, const struct leat_list *list, struct leat_order_cursor *c,
                         uint64_t pass, uint64_t first, size_t n, uint64_t *out)
{
    const struct leat_source_order some = among(o, list);
    if (!c->pass_set || c->pass != pass || c->order != o || c->list != list) {
        start_pass(&some, c, pass);
        c->order = o;
        c->list = list;
    }
    if (o->order == LEAT_ORDER_BLOCKS)
        block_run(&some, c, first, n, out);
    for (size_t k = 0; k < n && o->order != LEAT_ORDER_BLOCKS; k++)
        out[k] = first + k;
    if (o->order == LEAT_ORDER_SHUFFLED)
        leat_permute_many(&c->outer, out, n);
    for (size_t k = 0; k < n; k++)
        out[k] = (uint64_t)list->positions[out[k]];
}

void leat_order_run(const struct leat_source_order *o, const struct leat_list *list, struct leat_order_cursor *c,
                    uint64_t pass, uint64_t first, size_t n, uint64_t *out)
{
    assert(n <= LEAT_ORDER_RUN);
    if (list && list->selects) {
        selected_run(o, list, c, pass, first, n, out);
        return;
    }
    if (list) {
        memcpy(out, list->positions + first, n * sizeof *out);
        return;
    }
    if (!c->pass_set || c->pass != pass || c->order != o || c->list)
        start_pass(o, c, pass);
    if (o->groups) {
        leat_groups_run(o->groups, c->key, first, n, out);
        return;
    }
    switch (o->order) {
    case LEAT_ORDER_BLOCKS:
        block_run(o, c, first, n, out);
        break;
    case LEAT_ORDER_WEIGHTED:
        if (!o->replacement)
            leat_weights_take(o->weights, c->key, first, n, out);
        for (size_t k = 0; o->replacement && k < n; k++)
            out[k] = leat_weights_draw(o->weights, c->key, first + k);
        break;
    default:
        for (size_t k = 0; k < n; k++)
            out[k] = first + k;
        if (o->order == LEAT_ORDER_SHUFFLED)
            leat_permute_many(&c->outer, out, n);
    }
}

void leat_order_rows(const struct leat_source_order *o, const struct leat_list *list, uint64_t pass, uint64_t first,
                     uint64_t n, int64_t *out)
{
    struct leat_order_cursor cursor = {0};
    for (uint64_t done = 0, run; done < n; done += run) {
        run = n - done < LEAT_ORDER_RUN ? n - done : LEAT_ORDER_RUN;
        leat_order_run(o, list, &cursor, pass, first + done, (size_t)run, (uint64_t *)out + done);
    }
}

int leat_order_shuffled(uint64_t count, uint64_t seed, uint64_t epoch, uint64_t first, uint64_t n, int64_t *positions,
                        struct leat_error *error)
{
    if (count >= LEAT_PLAN_MAX_ROWS || first > count || n > count - first)
        return leat_fail(error, LEAT_E_RANGE, "rows %llu to %llu are not in an order of %llu",
                         (unsigned long long)first, (unsigned long long)(first + n), (unsigned long long)count);
    struct leat_source_order order = {.order = LEAT_ORDER_SHUFFLED, .count = count, .rows = count};
    order.key = leat_key_mix(leat_key_mix(seed, LEAT_TAG_ORDER), 0);
    leat_order_rows(&order, NULL, epoch, first, n, positions);
    return LEAT_OK;
}
