/* Batches that are put together. A part is gone through by its runs: rows that lie one after the other, none left out.
 */
#include "engine/assemble.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/loader.h"
#include "engine/results.h"
#include "engine/task.h"

struct run {
    uint64_t first, n; /* the place of its rows in the batch */
};

uint64_t leat_assemble_place(const struct leat_batch *b, uint64_t row)
{
    uint64_t place = row;
    for (uint64_t i = 0; b->faults.n_broken && i < row; i++)
        place -= b->left_out[i];
    return place;
}

/* The run of a part that begins at its row `*at` or later. A batch that is complete has its rows together; one that is
 * loose has them at their planned places. */
static bool next_run(const struct leat_excerpt *p, uint64_t *at, struct run *run)
{
    const struct leat_batch *b = p->batch;
    const bool *out = b->left_out,
               some = b->apart.loose || b->faults.n_broken; /* tasks may still note rows of a loose one */
    const uint64_t end = p->first + p->n;
    while (some && *at < end && out[*at])
        ++*at;
    run->first = *at;
    *at = some ? *at : end;
    while (*at < end && !out[*at])
        ++*at;
    run->n = *at - run->first;
    if (!b->apart.loose)
        run->first = leat_assemble_place(b, run->first);
    return run->n;
}

static int64_t steps_of(const struct leat_batch *b, size_t output, uint64_t row)
{
    const int64_t *offsets = leat_batch_values(b, output).offsets + row;
    return b->apart.loose ? leat_batch_steps(b, output, row) : offsets[1] - offsets[0];
}

void leat_assemble_offsets(const struct leat_excerpt *parts, size_t n, size_t output, uint64_t rows, int64_t *to)
{
    struct run run;
    uint64_t k = 0;
    to[0] = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = parts[i].first; next_run(&parts[i], &at, &run);)
            for (uint64_t r = run.first; r < run.first + run.n; r++, k++)
                to[k + 1] = to[k] + steps_of(parts[i].batch, output, r);
    for (; k < rows; k++)
        to[k + 1] = to[k];
}

static bool copy_notes(const struct leat_excerpt *part, uint64_t begin, struct leat_batch *to)
{
    for (size_t i = 0; i < part->batch->faults.n_broken; i++) {
        struct leat_broken_row note = part->batch->faults.broken[i];
        if (note.row < part->first || note.row - part->first >= part->n)
            continue;
        if (!leat_grow(&to->faults.broken, &to->faults.broken_room, to->faults.n_broken + 1,
                       sizeof *to->faults.broken) ||
            !(note.reason = leat_strdup(note.reason)))
            return false;
        note.row += begin - part->first;
        to->faults.broken[to->faults.n_broken++] = note;
    }
    return true;
}

bool leat_assemble_notes(const struct leat_excerpt *parts, size_t n, struct leat_batch *b)
{
    uint64_t begin = 0, left_out = 0;
    for (size_t i = 0; i < n; begin += parts[i++].n) {
        const struct leat_excerpt *p = &parts[i];
        if (!copy_notes(p, begin, b))
            return false;
        for (uint64_t k = p->first; p->batch->faults.n_broken && k < p->first + p->n; k++)
            left_out += p->batch->left_out[k];
        if (b->apart.numbers)
            memcpy(b->apart.numbers + begin, p->batch->apart.numbers + p->first, p->n * sizeof *b->apart.numbers);
    }
    b->rows = b->plan.rows - left_out;
    return true;
}

int leat_assemble(struct leat_loader *l, const struct leat_plan_batch *plan, const struct leat_excerpt *parts, size_t n,
                  struct leat_batch **out, struct leat_error *error)
{
    struct leat_batch *b = leat_batch_new(&l->pool, plan, LEAT_HELD, error);
    if (!b)
        return LEAT_E_NOMEM;
    b->state = LEAT_BATCH_FILLING;
    b->copied = true;
    leat_batch_drop_results(b);
    int rc = leat_assemble_notes(parts, n, b) ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a batch");
    if (!rc && leat_batch_fail_if_empty(b)) {
        rc = b->faults.failure.code;
        if (error)
            *error = b->faults.failure;
        leat_loader_count_raised(l, &parts->plan, parts->first + b->faults.broken[0].row);
    }
    for (size_t o = 0; !rc && o < l->pool.n_outputs; o++)
        if (b->offsets[o] && !leat_program_output(l->program, o)->hidden)
            leat_assemble_offsets(parts, n, o, plan->rows, b->offsets[o]);
    if (!rc)
        rc = leat_loader_allocate(l, b, error);
    if (rc) {
        leat_batch_recycle(b);
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        parts[i].batch->tasks++;
    *out = b;
    return LEAT_OK;
}

/* The values of a run in one output, to the rows from `row` on. */
static void copy_values(const struct leat_batch *from, struct run run, struct leat_batch *to, size_t o, uint64_t row)
{
    const struct leat_output *output = leat_program_output(to->program, o);
    const struct leat_view source = leat_batch_values(from, o), target = leat_batch_values(to, o);
    if (!output->ragged) {
        memcpy(target.data + row * output->row_bytes, source.data + run.first * output->row_bytes,
               run.n * output->row_bytes);
        return;
    }
    uint64_t each = from->apart.loose ? 1 : run.n; /* there may be room between rows that are not complete */
    for (uint64_t i = 0; i < run.n; i += each) {
        uint64_t begin = (uint64_t)target.offsets[row + i], end = (uint64_t)target.offsets[row + i + each];
        memcpy(target.data + begin * output->row_bytes,
               source.data + (uint64_t)source.offsets[run.first + i] * output->row_bytes,
               (end - begin) * output->row_bytes);
    }
}

void leat_assemble_values(const struct leat_excerpt *parts, size_t n, size_t o, struct leat_batch *to)
{
    struct run run;
    for (uint64_t i = 0, row = 0; i < n; i++)
        for (uint64_t at = parts[i].first; next_run(&parts[i], &at, &run); row += run.n)
            copy_values(parts[i].batch, run, to, o, row);
}

void leat_assemble_rows(const struct leat_excerpt *parts, size_t n, struct leat_batch *to)
{
    struct run run;
    for (uint64_t i = 0, row = 0; i < n; i++)
        for (uint64_t at = parts[i].first; next_run(&parts[i], &at, &run); row += run.n) {
            const struct leat_batch *from = parts[i].batch;
            memcpy(to->ids + row, from->ids + run.first, run.n * sizeof *to->ids);
            memcpy(to->keys + row, from->keys + run.first, run.n * sizeof *to->keys);
            memcpy(to->domains + row, from->domains + run.first, run.n * sizeof *to->domains);
            memcpy(to->valid + row, from->valid + run.first, run.n * sizeof *to->valid);
        }
}

void leat_assemble_fill(struct leat_loader *l, const struct leat_excerpt *parts, size_t n, struct leat_batch *b)
{
    leat_engine_unlock();                          /* nobody writes to rows that are made */
    for (size_t o = 0; o < l->pool.n_outputs; o++) /* one by one, so that memory is written from front to back */
        if (b->buffers[o])
            leat_assemble_values(parts, n, o, b);
    leat_assemble_rows(parts, n, b);
    if (parts->batch->apart.loose) /* else the program has seen the batches that the rows come from */
        leat_batch_finish(b);
    leat_engine_lock();
    for (size_t i = 0; i < n; i++)
        leat_batch_let_go(l, parts[i].batch);
    l->due |= LEAT_DUE_WAKE; /* one of whose rows none is left may be waited for */
}
