/*
 * The first step of a job: from rows of the plan to where their values are. No payload is read here.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/job.h"

static uint64_t position_of(const struct leat_job_context *c, const struct leat_piece *piece)
{
    return c->source_begin[piece->source] + piece->position;
}

/* The one place that says what a row may be here: one whole sample. */
static bool is_whole_sample(const struct leat_plan_row *row)
{
    return !row->n_more && !row->piece.begin && row->piece.count == UINT64_MAX;
}

int leat_job_plan(struct leat_job *j, uint64_t first, uint64_t left, uint64_t *failed)
{
    const struct leat_job_context *c = j->context;
    const struct leat_job_target *to = &j->target;
    j->count = left < c->chunk ? (size_t)left : c->chunk;
    *failed = first;
    int rc = to->numbers ? leat_plan_rows_at(c->plan, to->plan.epoch, to->numbers + first, j->count, j->rows)
                         : leat_plan_rows(c->plan, &to->plan, first, j->count, j->rows);
    if (rc)
        return leat_fail(&j->error, rc,
                         "row %" PRIu64 " of epoch %" PRIu64
                         " can no longer be planned: decisions made since gave up what it needs",
                         to->plan.begin + first, to->plan.epoch);
    for (size_t i = 0; i < j->count; i++) {
        if (!is_whole_sample(&j->rows[i])) {
            *failed = first + i;
            return leat_fail(&j->error, LEAT_E_UNSUPPORTED,
                             "row %" PRIu64 " is made of parts of samples, which this engine cannot join",
                             j->rows[i].row);
        }
        j->positions[i] = position_of(c, &j->rows[i].piece);
    }
    leat_dataset_locate(c->dataset, j->positions, j->count, j->refs);
    return LEAT_OK;
}

bool leat_job_plan_substitute(struct leat_job *j, size_t i)
{
    const struct leat_job_context *c = j->context;
    if (j->attempts[i] >= LEAT_MAX_SUBSTITUTES)
        return false;
    struct leat_piece piece = leat_plan_substitute(c->plan, j->target.plan.epoch, j->rows[i].row, j->attempts[i]++);
    if (!piece.count)
        return false;
    j->positions[i] = position_of(c, &piece);
    leat_dataset_locate(c->dataset, j->positions + i, 1, j->refs + i);
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* An extent of a value of fixed size that has another one would be read beyond its end. */
static int check_length(struct leat_job *j, const struct leat_feed *feed, size_t i, const struct leat_extent *extent)
{
    if (!feed->fixed || extent->length == feed->value_bytes)
        return LEAT_OK;
    leat_fail(&j->error, LEAT_E_CORRUPT, "a value of %" PRIu64 " bytes has an extent of %" PRIu64, feed->value_bytes,
              extent->length);
    leat_error_at_extent(&j->error, j->values[feed->slot * j->context->chunk + i].source, extent);
    leat_error_at_sample(&j->error, j->refs[i].id, j->context->fields[feed->field].name);
    return LEAT_E_CORRUPT;
}

int leat_job_locate(struct leat_job *j, const struct leat_feed *feed, size_t i, size_t n, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    struct leat_extent *extents = j->extents + feed->slot * c->chunk;
    for (size_t end = i + n, run; i < end; i += run) {
        for (run = 0; i + run < end && leat_job_is_mapped(j, feed, i + run) == leat_job_is_mapped(j, feed, i); run++)
            ;
        if (leat_job_is_mapped(j, feed, i))
            continue;
        size_t bad = 0;
        int rc = leat_dataset_extents(c->dataset, feed->field, j->refs + i, run, extents + i, &bad, &j->error);
        for (size_t k = 0; k < (rc ? bad : run); k++) {
            struct leat_sample_ref ref = j->refs[i + k];
            size_t field = feed->field;
            leat_ref_resolve(&ref, &field);
            j->values[feed->slot * c->chunk + i + k].source = ref.source;
            int wrong = check_length(j, feed, i + k, &extents[i + k]);
            if (wrong) {
                *failed = i + k;
                return wrong;
            }
        }
        if (rc) {
            *failed = i + bad;
            return rc;
        }
    }
    return LEAT_OK;
}

/* Lengths of all ragged outputs, summed. A value whose length cannot be learned counts as empty: its row will fail with
 * the same error when it is made. */
void leat_job_size_rows(struct leat_job *j, int64_t *const *offsets)
{
    const struct leat_job_context *c = j->context;
    uint64_t failed_row;
    for (uint64_t first = 0; first < j->target.plan.rows; first += j->count) {
        if (leat_job_plan(j, first, j->target.plan.rows - first, &failed_row)) {
            leat_job_raise(j, failed_row);
            return;
        }
        for (size_t f = 0; f < c->n_feeds; f++) {
            const struct leat_feed *feed = &c->feeds[f];
            struct leat_extent *extents = j->extents + feed->slot * c->chunk;
            if (!feed->ragged)
                continue;
            for (size_t i = 0, failed = 0; i < j->count && leat_job_locate(j, feed, i, j->count - i, &failed);) {
                extents[failed] = (struct leat_extent){0};
                i = failed + 1;
            }
            for (size_t k = 0; k < feed->n_outputs; k++) {
                const struct leat_output *output = leat_program_output(c->program, feed->outputs[k]);
                int64_t *to = offsets[feed->outputs[k]];
                for (size_t i = 0; to && i < j->count; i++) {
                    uint64_t bytes = leat_program_ragged_bytes(c->program, feed->outputs[k],
                                                               leat_value_bytes(&extents[i].info, extents[i].length));
                    uint64_t steps = output->row_bytes ? bytes / output->row_bytes : 0, sum = 0;
                    /* More than any budget: the batch is refused when it is to get its memory. */
                    if (!leat_add_u64((uint64_t)to[first + i], steps, &sum) || sum > (UINT64_C(1) << 60))
                        sum = UINT64_C(1) << 60;
                    to[first + i + 1] = (int64_t)sum;
                }
            }
        }
    }
}
