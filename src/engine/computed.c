/*
 * Computed values of one size are made in runs, so that the processor fetches those of many rows at a time: they lie
 * anywhere in decoded chunks. What is left of their rows is made row by row (make.c), and so are substitutes.
 */
#include "engine/computed.h"

#include "base/error.h"
#include "engine/job.h"

static bool is_ready(const struct leat_job *j, const struct leat_feed *feed, size_t i)
{
    const struct leat_job_value *v = leat_job_value(j, feed, i);
    return j->chunk.marks[i] == LEAT_ROW_WANTED && v->way == LEAT_VALUE_COMPUTED && v->data;
}

/* One output, of rows [0, n). */
static void make_output(struct leat_job *j, struct leat_scratch *scratch, const struct leat_feed *feed, size_t o,
                        size_t n)
{
    for (size_t i = 0, run; i < n; i += run) {
        size_t made = 0;
        for (run = 0; i + run < n && is_ready(j, feed, i + run); run++)
            j->making.data[i + run] = leat_job_value(j, feed, i + run)->data;
        const int rc = run ? leat_job_apply(j, scratch, o, feed->value_bytes, i, run, &made) : LEAT_OK;
        if (rc) {
            leat_error_at_sample(&j->error, LEAT_NO_SAMPLE, j->context->fields[feed->field].name);
            leat_job_row_failed(j, i + made, rc, leat_is_broken(rc));
        }
        run = rc ? made + 1 : run + !run;
    }
}

static bool is_done(const struct leat_job *j, size_t i)
{
    const struct leat_job_value *v = &j->chunk.values[i * j->context->n_slots];
    for (size_t s = 0; s < j->context->n_slots; s++)
        if (v[s].way != LEAT_VALUE_NONE)
            return false;
    return true;
}

void leat_job_make_computed(struct leat_job *j, struct leat_scratch *scratch, size_t n)
{
    const struct leat_job_context *c = j->context;
    bool some = false;
    for (size_t f = 0; f < c->n_feeds; f++) {
        const struct leat_feed *feed = &c->feeds[f];
        if (!feed->computed || !feed->fixed || feed->tied)
            continue;
        for (size_t k = 0; k < feed->n_outputs; k++)
            if (!leat_program_is_beside(j->target.program, feed->outputs[k]))
                make_output(j, scratch, feed, feed->outputs[k], n);
        for (size_t i = 0; i < n; i++)
            if (is_ready(j, feed, i))
                leat_job_value(j, feed, i)->way = LEAT_VALUE_NONE;
        some = true;
    }
    for (size_t i = 0; some && i < n; i++)
        if (j->chunk.marks[i] == LEAT_ROW_WANTED && is_done(j, i))
            j->chunk.marks[i] = LEAT_ROW_DONE;
}
