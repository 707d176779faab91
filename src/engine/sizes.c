/*
 * Lengths of ragged outputs follow from those of values, which their places say, or their source, or which have to be
 * computed for that.
 */
#include "engine/sizes.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/job.h"

/* Variants of a program make lists of different lengths. */
static const struct leat_program *program_of(const struct leat_job *j)
{
    return j->target.program ? j->target.program : j->context->program;
}

/* The bytes of an output that the value of row i becomes. */
static uint64_t bytes_of(const struct leat_job *j, const struct leat_feed *feed, size_t o, size_t i)
{
    const struct leat_program *program = program_of(j);
    const struct leat_job_value *v = feed->slotted ? leat_job_value(j, feed, i) : NULL;
    if (v && v->way == LEAT_VALUE_COMPUTED && !v->data)
        return 0;
    return v ? leat_program_value_bytes(program, o, &v->extent.info, v->extent.length)
             : leat_program_ragged_bytes(program, o, feed->value_bytes);
}

/* The bytes of an output that the values of the other samples of row i become. */
static uint64_t others_bytes(const struct leat_job *j, const struct leat_feed *feed, size_t o, size_t i)
{
    const struct leat_program *program = program_of(j);
    const struct leat_output *output = leat_program_output(program, o);
    uint64_t sum = 0;
    for (unsigned p = 1; p < leat_program_chain(program, output->chain)->pieces; p++) {
        const struct leat_job_value *v = leat_job_piece(j, feed, i, p);
        if (v->way != LEAT_VALUE_NONE && !(v->way == LEAT_VALUE_COMPUTED && !v->data))
            sum += leat_program_value_bytes(program, o, &v->extent.info, v->extent.length);
    }
    return sum;
}

/* The steps of a ragged output of the rows of the chunk. */
static void sum_steps(const struct leat_job *j, size_t o, uint64_t first, int64_t *offsets)
{
    const struct leat_job_context *c = j->context;
    const struct leat_output *output = leat_program_output(c->program, o);
    const struct leat_feed *feed = c->feeds;
    while (feed->field != output->field)
        feed++;
    for (size_t i = 0; i < j->chunk.count; i++) {
        uint64_t bytes = bytes_of(j, feed, o, i), sum = 0;
        bytes += output->bounded ? others_bytes(j, feed, o, i) : 0;
        if (output->drawn && bytes > LEAT_MOST_DRAWN) /* its row will say so */
            bytes = 0;
        /* More than any budget: the batch is refused when it is to get its memory. */
        if (!leat_add_u64((uint64_t)offsets[first + i], output->row_bytes ? bytes / output->row_bytes : 0, &sum) ||
            sum > (UINT64_C(1) << 60))
            sum = UINT64_C(1) << 60;
        offsets[first + i + 1] = (int64_t)sum;
    }
}

/* Computes the values of the chunk for lengths. A row whose source fails has none now, and its error when it is made.
 * NOMEM, of row *failed: its value may well be made later, and would be longer than its place. */
static int compute_for_lengths(struct leat_job *j, uint64_t first, struct leat_values *made, size_t *failed)
{
    const struct leat_job_context *c = j->context;
    size_t bad = 0;
    bool open = false;
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t i = 0; c->feeds[f].computed && c->feeds[f].ragged && i < j->chunk.count && !open; i++) {
            const struct leat_job_value *v = leat_job_value(j, &c->feeds[f], i);
            open = v->way == LEAT_VALUE_COMPUTED && !v->data;
        }
    if (!open && c->pieces == 1)
        return LEAT_OK;
    if (leat_job_compute(j, 0, j->chunk.count, &bad))
        for (size_t i = 0; i < j->chunk.count; i++)
            if (leat_job_compute(j, *failed = i, 1, &bad) == LEAT_E_NOMEM)
                return LEAT_E_NOMEM;
    for (size_t f = 0; f < c->n_feeds; f++)
        for (size_t i = 0; c->feeds[f].computed && i < j->chunk.count; i++) {
            const struct leat_job_value *v = leat_job_value(j, &c->feeds[f], i);
            if (v->way == LEAT_VALUE_COMPUTED && v->data &&
                v->data != made->at[c->feeds[f].made * made->n_samples + first + i].data &&
                leat_values_put(made, c->feeds[f].made, first + i, v->data, v->extent.length))
                return LEAT_OK; /* it is computed again */
        }
    return LEAT_OK;
}

/* Lengths of all ragged outputs, summed. A value whose length cannot be learned counts as empty: its row will fail with
 * the same error when it is made. It is raised at once if reading failed, as it was tried some times, and each further
 * row would wait as long; and if there is no memory, as there may be some when the row is made. */
enum leat_job_status leat_job_size_rows(struct leat_job *j, int64_t *const *offsets, struct leat_values *made)
{
    const struct leat_job_context *c = j->context;
    uint64_t failed_row;
    if (leat_reads_in_flight(j) && atomic_load_explicit(j->target.cancelled, memory_order_relaxed))
        leat_reads_cancel(j);
    for (size_t o = 0; j->step == LEAT_STEP_PLAN && o < leat_program_outputs(c->program); o++)
        if (offsets[o])
            offsets[o][0] = 0; /* the batch was used before, for steps of bounded outputs too */
    for (; j->cursor < j->target.plan.rows; j->cursor += j->chunk.count, j->step = LEAT_STEP_PLAN) {
        const uint64_t first = j->cursor;
        if (j->step == LEAT_STEP_PLAN && leat_job_plan(j, first, j->target.plan.rows - first, &failed_row)) {
            leat_job_raise(j, failed_row);
            return LEAT_JOB_DONE;
        }
        const enum leat_job_status status = leat_reads_look_up(j);
        if (status != LEAT_JOB_DONE || atomic_load_explicit(j->target.cancelled, memory_order_relaxed))
            return status;
        for (size_t f = 0; f < c->n_feeds; f++)
            for (size_t i = 0, failed = 0; c->feeds[f].slotted && i < j->chunk.count; i = failed + 1) {
                const int rc = leat_job_locate(j, &c->feeds[f], i, j->chunk.count - i, &failed);
                if (!rc)
                    break;
                if (rc == LEAT_E_IO || rc == LEAT_E_NOMEM) {
                    leat_error_at_sample(&j->error, j->chunk.refs[failed].id, NULL);
                    leat_job_raise(j, first + failed);
                    return LEAT_JOB_DONE;
                }
                leat_job_value(j, &c->feeds[f], failed)->extent = (struct leat_extent){0};
            }
        memset(j->chunk.attempts, 0, j->chunk.count);
        for (size_t i = 0, failed = 0; i < j->chunk.count; i = failed + 1)
            if (!leat_job_locate_others(j, i, j->chunk.count - i, &failed))
                break;
        size_t failed = 0;
        if (made && compute_for_lengths(j, first, made, &failed)) {
            leat_job_raise(j, first + failed);
            return LEAT_JOB_DONE;
        }
        for (size_t o = 0; o < leat_program_outputs(c->program); o++)
            if (offsets[o] && !leat_program_output(c->program, o)->called && !leat_program_output(c->program, o)->open)
                sum_steps(j, o, first, offsets[o]);
        leat_job_drop_made(j);
    }
    return LEAT_JOB_DONE;
}
