/*
 * Results of varying length: of functions, and of chains that end in images of open size. Their lengths are known when
 * all rows of a batch are made: they are kept with the batch until then, their buffers are allocated as those of a
 * batch that was sized, and a task puts them in place.
 *
 *     rows of a segment --done--> lengths are summed --> SIZED --memory--> FILLING, placing --> the next segment
 */
#include "engine/results.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/batch.h"
#include "format/source.h"

bool leat_batch_expect_results(struct leat_batch *b)
{
    if (!b->pool->late || b->calls.results)
        return true;
    b->calls.results = leat_new(struct leat_values);
    if (b->calls.results && !leat_values_init(b->calls.results, b->pool->n_outputs, b->plan.rows))
        return true;
    leat_free(b->calls.results);
    b->calls.results = NULL;
    return false;
}

static uint64_t steps_of(const struct leat_batch *b, size_t o, uint64_t row)
{
    const struct leat_computed *c = &b->calls.results->at[o * b->calls.results->n_samples + row];
    return b->left_out[row] ? 0 : c->bytes / leat_program_output(b->program, o)->row_bytes;
}

void leat_batch_sum_results(struct leat_batch *b)
{
    struct leat_batch_pool *pool = b->pool;
    for (size_t o = 0; o < pool->n_outputs; o++) {
        int64_t *offsets = leat_batch_is_late(b, o) ? b->offsets[o] : NULL;
        for (uint64_t row = 0; offsets && row < b->plan.rows; row++) {
            offsets[0] = 0;
            offsets[row + 1] = offsets[row] + (int64_t)steps_of(b, o, row);
        }
    }
    uint64_t each = b->plan.rows ? b->calls.results->bytes / b->plan.rows : 0;
    uint64_t more =
        b->calls.results->bytes > b->calls.result_bytes ? b->calls.results->bytes - b->calls.result_bytes : 0;
    leat_budget_take(pool->budget, b->account, more);
    b->calls.result_bytes += more;
    b->meta += more;
    pool->late_row = each > pool->late_row ? each : pool->late_row;
}

void leat_batch_place_results(struct leat_batch *b, uint64_t first, uint64_t n)
{
    for (size_t o = 0; o < b->pool->n_outputs; o++) {
        if (!leat_batch_is_late(b, o))
            continue;
        const struct leat_output *output = leat_program_output(b->program, o);
        const struct leat_view to = leat_batch_values(b, o);
        for (uint64_t row = first; row < first + n; row++)
            if (steps_of(b, o, row))
                memcpy(to.data + (uint64_t)to.offsets[row] * output->row_bytes,
                       b->calls.results->at[o * b->calls.results->n_samples + row].data,
                       steps_of(b, o, row) * output->row_bytes);
    }
}

void leat_batch_drop_results(struct leat_batch *b)
{
    leat_budget_give(b->pool->budget, b->account, b->calls.result_bytes);
    b->meta -= b->calls.result_bytes;
    b->calls.result_bytes = 0;
    if (!b->calls.results)
        return;
    leat_values_destroy(b->calls.results);
    leat_free(b->calls.results);
    b->calls.results = NULL;
}
