/* Values that follow from the batch, and are written into it by their source: filled.h. */
#include "engine/filled.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/job.h"
#include "engine/policy.h"

/* The samples of rows of the epoch, in `samples`. */
static int samples_of(struct leat_job *j, uint64_t row, size_t n, uint64_t *samples)
{
    enum { SOME = 64 };
    const struct leat_job_context *c = j->context;
    struct leat_plan_row rows[SOME];
    struct leat_sample_ref refs[SOME];
    uint64_t numbers[SOME];
    int rc = LEAT_OK;
    for (size_t k = 0, some; k < n && !rc; k += some) {
        some = n - k < SOME ? n - k : SOME;
        for (size_t i = 0; i < some; i++)
            numbers[i] = row + k + i;
        if ((rc = leat_plan_rows_at(c->plan, j->target.plan.epoch, numbers, some, rows)))
            break;
        for (size_t i = 0; i < some; i++)
            numbers[i] = c->source_begin[rows[i].piece.source] + rows[i].piece.position;
        leat_dataset_locate(c->dataset, numbers, some, refs);
        for (size_t i = 0; i < some; i++)
            samples[k + i] = refs[i].sample;
    }
    return rc;
}

int leat_job_find_batch(struct leat_job *j)
{
    const struct leat_plan_batch *plan = &j->target.plan;
    struct leat_batch_rows *batch = &j->chunk.batch;
    const uint64_t n = plan->global_rows;
    int rc = n ? samples_of(j, plan->at.row, 1, &batch->first) : LEAT_E_RANGE;
    rc = rc ? rc : samples_of(j, plan->at.row + n - 1, 1, &batch->last);
    batch->samples = NULL;
    batch->n = n;
    if (!rc && batch->last - batch->first != n - 1) {
        if (!leat_grow(&j->chunk.samples, &j->chunk.samples_room, (size_t)n, sizeof *j->chunk.samples))
            return leat_fail(&j->error, LEAT_E_NOMEM, "no memory for the %" PRIu64 " rows of a batch", n);
        batch->samples = j->chunk.samples;
        rc = samples_of(j, plan->at.row, (size_t)n, j->chunk.samples);
    }
    return rc ? leat_fail(&j->error, rc, "the batch at row %" PRIu64 " can no longer be planned", plan->at.row)
              : LEAT_OK;
}

void leat_job_fill(struct leat_job *j)
{
    const struct leat_job_context *c = j->context;
    const uint64_t first = leat_job_row(j, 0);
    size_t fields[LEAT_MAX_FILLED], n = 0, failed;
    uint8_t *to[LEAT_MAX_FILLED];
    for (size_t f = 0; f < c->n_feeds; f++)
        if (c->feeds[f].filled) {
            fields[n] = c->feeds[f].field;
            to[n++] = j->target.outputs[c->feeds[f].outputs[0]] + first * c->feeds[f].value_bytes;
        }
    j->chunk.batch.keys = j->target.keys + first;
    if (!leat_dataset_fill(c->dataset, fields, n, j->chunk.refs, j->chunk.count, c->given ? NULL : &j->chunk.batch, to,
                           &failed, &j->error))
        return;
    leat_job_raise(j, leat_job_row(j, failed));
    memset(j->chunk.marks, LEAT_ROW_DONE, j->chunk.count);
}
