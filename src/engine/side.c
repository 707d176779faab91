/*
 * Single batches, on the side of the window: the rows of a step computed again, the samples that stand in for broken
 * ones, and batches that a consumer missed. They are held from the beginning, and their tasks go before those of the
 * window.
 */
#include "engine/side.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/ahead.h"
#include "engine/loader.h"

int leat_loader_fail_folded(uint64_t epoch, uint64_t step, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_RANGE,
                     "step %" PRIu64 " of epoch %" PRIu64 " lies before decisions that were folded, because the log "
                     "was long: this loader can no longer plan it. Open one with the whole log of the run (log=) to "
                     "repeat it",
                     step, epoch);
}

static int seek(const struct leat_loader *l, uint64_t epoch, uint64_t step, struct leat_plan_batch *plan,
                struct leat_error *error)
{
    struct leat_position at;
    if (leat_plan_step_is_folded(l->plan, epoch, step))
        return leat_loader_fail_folded(epoch, step, error);
    int rc = leat_plan_seek(l->plan, epoch, step, &at);
    if (!rc)
        rc = leat_plan_batch(l->plan, at, plan);
    if (rc || !plan->rows)
        return leat_fail(error, LEAT_E_RANGE,
                         "epoch %" PRIu64 " has no step %" PRIu64 " for this rank: it has %" PRIu64 " steps", epoch,
                         step, leat_plan_rank_steps(l->plan, epoch));
    return LEAT_OK;
}

int leat_side_planned(const struct leat_loader *l, const struct leat_plan_batch *plan, uint64_t begin, uint64_t n,
                      struct leat_planned_rows to, struct leat_error *error)
{
    enum { N = 256 };
    struct leat_plan_row rows[N];
    struct leat_sample_ref refs[N];
    uint64_t positions[N];
    const uint64_t *const source_begin = l->job.packing ? l->job.row_begin : l->job.source_begin;
    for (uint64_t first = 0, count; first < n; first += count) {
        count = n - first < N ? n - first : N;
        int rc = leat_loader_enter(l, error);
        if (rc)
            return rc;
        rc = leat_plan_rows(l->plan, plan, begin + first, count, rows);
        leat_engine_unlock();
        if (rc)
            return leat_fail(error, rc,
                             "epoch %" PRIu64 " can no longer be planned: decisions made since gave up what it needs",
                             plan->epoch);
        for (uint64_t i = 0; i < count; i++) {
            if (to.domains)
                to.domains[first + i] = (int32_t)rows[i].piece.source;
            if (to.positions)
                to.positions[first + i] = (int64_t)rows[i].piece.position;
            positions[i] = source_begin[rows[i].piece.source] + rows[i].piece.position;
        }
        if (to.ids && !l->job.packing)
            leat_dataset_locate(l->dataset, positions, count, refs);
        for (uint64_t i = 0; to.ids && i < count; i++)
            to.ids[first + i] = l->job.packing ? (int64_t)positions[i] : refs[i].id;
    }
    return LEAT_OK;
}

/* The rows that are planned for a step: ids, or else domains and positions. */
static int look_at_plan(const struct leat_loader *l, uint64_t epoch, uint64_t step, bool ids,
                        struct leat_planned_rows *out, uint64_t *n, struct leat_error *error)
{
    struct leat_plan_batch plan;
    *n = 0;
    *out = (struct leat_planned_rows){0};
    int rc = leat_loader_check_process(l, error);
    if (!rc)
        rc = seek(l, epoch, step, &plan, error);
    if (rc)
        return rc;
    struct leat_planned_rows p = {.ids = ids ? leat_new_array(plan.rows, sizeof *p.ids) : NULL,
                                  .domains = ids ? NULL : leat_new_array(plan.rows, sizeof *p.domains),
                                  .positions = ids ? NULL : leat_new_array(plan.rows, sizeof *p.positions)};
    rc = p.ids || (p.domains && p.positions)
             ? leat_side_planned(l, &plan, 0, plan.rows, p, error)
             : leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " rows", plan.rows);
    if (rc) {
        leat_free(p.ids);
        leat_free(p.domains);
        leat_free(p.positions);
        return rc;
    }
    *out = p;
    *n = plan.rows;
    return LEAT_OK;
}

int leat_loader_plan(const struct leat_loader *l, uint64_t epoch, uint64_t step, int64_t **ids, uint64_t *n,
                     struct leat_error *error)
{
    struct leat_planned_rows p;
    int rc = look_at_plan(l, epoch, step, true, &p, n, error);
    *ids = p.ids;
    return rc;
}

int leat_loader_plan_domains(const struct leat_loader *l, uint64_t epoch, uint64_t step, int32_t **domains,
                             int64_t **positions, uint64_t *n, struct leat_error *error)
{
    struct leat_planned_rows p;
    int rc = look_at_plan(l, epoch, step, false, &p, n, error);
    *domains = p.domains;
    *positions = p.positions;
    return rc;
}

int leat_loader_mix_counts(const struct leat_loader *l, uint64_t epoch, uint64_t rows, uint64_t *counts, uint32_t n,
                           struct leat_error *error)
{
    int rc = leat_loader_check_process(l, error);
    if (rc)
        return rc;
    if (!l->input.mixed || n != l->input.n_sources)
        return leat_fail(error, LEAT_E_INVALID, "this loader reads no mixture of %" PRIu32 " sources", n);
    rc = leat_plan_mix_counts(l->plan, epoch, rows, counts);
    if (rc == LEAT_E_NOMEM)
        return leat_fail(error, rc, "no memory for the counts of %" PRIu32 " sources", n);
    return rc ? leat_fail(error, rc, "epoch %" PRIu64 " has no rows, or decisions made since gave up what it needs",
                          epoch)
              : LEAT_OK;
}

int leat_side_begin(struct leat_loader *l, const struct leat_plan_batch *plan, const uint64_t *numbers,
                    const void *for_whom, struct leat_batch **out, struct leat_error *error)
{
    struct leat_batch *b = leat_batch_new(&l->pool, plan, LEAT_HELD, error);
    int rc = b ? LEAT_OK : LEAT_E_NOMEM;
    if (!rc && !leat_ahead_is_wanted(l) && !l->ragged) {
        rc = leat_loader_allocate(l, b, error);
        b->state = LEAT_BATCH_FILLING;
    }
    if (rc) {
        if (b)
            leat_batch_recycle(b);
        return rc;
    }
    b->apart.listed = numbers != NULL;
    if (numbers)
        memcpy(b->apart.numbers, numbers, plan->rows * sizeof *numbers);
    b->for_whom = for_whom;
    b->next = l->side;
    l->side = *out = b;
    l->due |= LEAT_DUE_WORK;
    return LEAT_OK;
}

void leat_side_remove(struct leat_loader *l, struct leat_batch *b)
{
    struct leat_batch **p = &l->side;
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    b->next = NULL;
}

void leat_side_cancel(struct leat_loader *l, const void *for_whom, struct leat_position before)
{
    for (struct leat_batch *b = l->side, *next; b; b = next) {
        next = b->next;
        if (b->for_whom != for_whom || !leat_position_precedes(b->plan.at, before))
            continue;
        leat_side_remove(l, b);
        leat_batch_cancel(b);
    }
}

/* Makes a batch, under the lock: this thread and any idle one. */
static int make(struct leat_loader *l, const struct leat_plan_batch *plan, const uint64_t *numbers, bool part,
                struct leat_batch **out, struct leat_error *error)
{
    const uint64_t interrupts = atomic_load(&l->consumer.reader.interrupts);
    struct leat_batch *b;
    int rc = leat_side_begin(l, plan, numbers, plan, &b, error);
    if (rc)
        return rc;
    while (!rc && !leat_batch_is_done(b)) {
        if (l->closed || leat_scheduler.stopping)
            rc = leat_fail(error, LEAT_E_CLOSED, "the loader was closed");
        else if (atomic_load(&l->consumer.reader.interrupts) != interrupts)
            rc = leat_fail(error, LEAT_E_CANCELLED, "interrupted");
        else if (!leat_loader_help(l)) {
            l->due |= LEAT_DUE_WORK;
            leat_loader_settle(l);
            leat_loader_wait(l, INT64_MAX);
        }
    }
    if (!rc && (b->state == LEAT_BATCH_FAILED || (!part && leat_batch_fail_if_empty(b)))) {
        rc = b->faults.failure.code;
        if (error)
            *error = b->faults.failure;
    }
    leat_side_remove(l, b);
    l->due |= LEAT_DUE_WAKE;
    if (rc) {
        leat_batch_cancel(b);
        return rc;
    }
    leat_loader_put_out(l, b);
    l->pace.last_next_ns = leat_clock_ns(); /* it keeps its memory for the next one */
    *out = b;
    return LEAT_OK;
}

int leat_side_make(struct leat_loader *l, const struct leat_plan_batch *plan, const uint64_t *numbers, bool part,
                   struct leat_batch **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    l->callers.in_next++;
    rc = make(l, plan, numbers, part, out, error);
    leat_loader_leave(l);
    return rc;
}

/* Leaves rows [first, first + n) of a planned batch in it. */
static int cut(const struct leat_loader *l, uint64_t first, uint64_t n, struct leat_plan_batch *plan,
               struct leat_error *error)
{
    if (!first && n == plan->rows)
        return LEAT_OK;
    if (!n || first >= plan->rows || n > plan->rows - first)
        return leat_fail(error, LEAT_E_RANGE,
                         "step %" PRIu64 " of epoch %" PRIu64 " has %" PRIu64 " rows for this rank, and no %" PRIu64
                         " from row %" PRIu64 " on",
                         plan->step, plan->epoch, plan->rows, n, first);
    if (l->delivery->numbers_rows)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "without in_order the rows of a batch are known together: ask for all of them");
    if (leat_program_has_batch_stage(l->program) || l->pool.n_segments > 1)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "an operator of this program sees batches as a whole: ask for all %" PRIu64
                         " rows of the step",
                         plan->rows);
    plan->begin += first;
    plan->rows = n;
    return LEAT_OK;
}

/* `part`: rows [first, first + n) of the batch, not all of them. */
static int make_planned(struct leat_loader *l, uint64_t epoch, uint64_t step, bool part, uint64_t first, uint64_t n,
                        struct leat_batch **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_plan_batch plan;
    uint64_t *numbers = NULL;
    int rc = leat_loader_check_process(l, error);
    if (!rc)
        rc = seek(l, epoch, step, &plan, error);
    const uint64_t whole = rc ? 0 : plan.rows;
    if (!rc && part)
        rc = cut(l, first, n, &plan, error);
    if (!rc && l->delivery->rows_of)
        rc = l->delivery->rows_of(l, &plan, &numbers, error);
    if (!rc)
        rc = leat_side_make(l, &plan, numbers, plan.rows < whole, out, error);
    leat_free(numbers);
    return rc;
}

int leat_loader_batch_at(struct leat_loader *l, uint64_t epoch, uint64_t step, struct leat_batch **out,
                         struct leat_error *error)
{
    return make_planned(l, epoch, step, false, 0, 0, out, error);
}

/* ---- into the caller's memory ---------------------------------------------------------------- */

/* The tensor of a batch that a place is for: of its type, shape and strides, with as many rows or more. */
static int find_tensor(const struct leat_batch *b, const struct leat_tensor *place, struct leat_tensor *out,
                       struct leat_error *error)
{
    for (size_t o = 0; o < leat_batch_outputs(b); o++) {
        if (leat_batch_tensor(b, o, out) || strcmp(out->name, place->name) != 0)
            continue;
        if (out->offsets)
            return leat_fail(error, LEAT_E_UNSUPPORTED,
                             "rows of output \"%s\" differ in length: it comes in memory of its own", out->name);
        const size_t axes = out->ndim * sizeof *out->shape;
        if (out->dtype == place->dtype && out->ndim == place->ndim && out->shape[0] <= place->shape[0] &&
            !memcmp(out->shape + 1, place->shape + 1, axes - sizeof *out->shape) &&
            !memcmp(out->strides, place->strides, axes))
            return LEAT_OK;
        return leat_fail(error, LEAT_E_INVALID,
                         "output \"%s\" of %" PRId64 " rows of %s has another type, shape or strides than the memory "
                         "that it is wanted in",
                         out->name, out->shape[0], leat_dtype_name(out->dtype));
    }
    return leat_fail(error, LEAT_E_NOT_FOUND, "the batch has no output \"%s\"", place->name);
}

int leat_rows_make(struct leat_loader *l, uint64_t epoch, uint64_t step, uint64_t first, uint64_t n,
                   const struct leat_tensor *into, size_t n_into, struct leat_batch **out, struct leat_error *error)
{
    struct leat_tensor from;
    int rc = make_planned(l, epoch, step, true, first, n, out, error);
    for (size_t i = 0; !rc && i < n_into; i++)
        rc = find_tensor(*out, &into[i], &from, error);
    for (size_t i = 0; !rc && i < n_into; i++) {
        rc = find_tensor(*out, &into[i], &from, error);
        memcpy(into[i].data, from.data, (size_t)(from.shape[0] * from.strides[0]) * leat_dtype_size(from.dtype));
    }
    if (rc) {
        leat_batch_free(*out);
        *out = NULL;
    }
    return rc;
}
