/*
 * Delivery out of order where the caller chooses the rows of each batch: leat/elsewhere.h.
 */
#include "leat/elsewhere.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/control.h"
#include "engine/unordered.h"

/* The planned batch of a step of the running epoch, from `at` on. */
static bool find_step(const struct leat_loader *l, struct leat_position at, uint64_t step, struct leat_plan_batch *out)
{
    int rc;
    while (!(rc = leat_plan_batch(l->plan, at, out)) && out->step < step && !out->last)
        at = out->next;
    return !rc && out->step == step;
}

static int enter(struct leat_loader *l, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc || l->unordered)
        return rc;
    leat_engine_unlock();
    return leat_fail(error, LEAT_E_INVALID, "rows can be chosen only without in_order");
}

static int left(const struct leat_loader *l, uint64_t *step, struct leat_row_run **runs, uint64_t *n,
                struct leat_error *error)
{
    struct leat_plan_batch part;
    if (l->consumer.reader.ended)
        return LEAT_E_END;
    if (*step < l->unordered->at_step)
        *step = l->unordered->at_step;
    if (!find_step(l, l->consumer.at, *step, &part))
        return LEAT_E_END;
    *runs = part.rows ? leat_new_array(part.rows / 2 + 1, sizeof **runs) : NULL;
    if (part.rows && !*runs)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of a batch");
    for (uint64_t i = 0; i < part.rows; i++) {
        if (leat_unordered_was_received(l, part.at, i))
            continue;
        struct leat_row_run *last = *n ? &(*runs)[*n - 1] : NULL;
        if (last && last->first + last->n == i)
            last->n++;
        else
            (*runs)[(*n)++] = (struct leat_row_run){part.step, i, 1};
    }
    if (!*n) {
        leat_free(*runs);
        *runs = NULL;
    }
    return LEAT_OK;
}

int leat_loader_left(struct leat_loader *l, uint64_t *step, struct leat_row_run **runs, uint64_t *n,
                     struct leat_error *error)
{
    *runs = NULL;
    *n = 0;
    int rc = enter(l, error);
    if (rc)
        return rc;
    rc = left(l, step, runs, n, error);
    leat_engine_unlock();
    return rc;
}

/* The numbers of rows that the next batch may have. */
static int numbers_of(struct leat_loader *l, const struct leat_row_run *runs, uint64_t n, uint64_t rows,
                      uint64_t *numbers, struct leat_error *error)
{
    struct leat_plan_batch part = {.next = l->consumer.at};
    uint64_t k = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct leat_row_run *run = &runs[i];
        if ((i == 0 || run->step != part.step) &&
            ((i && (run->step < part.step || part.last)) || !find_step(l, part.next, run->step, &part)))
            return leat_fail(error, LEAT_E_INVALID, "step %" PRIu64 " is not behind the one before it, or was received",
                             run->step);
        if (run->first >= part.rows || run->n > part.rows - run->first)
            return leat_fail(error, LEAT_E_RANGE, "step %" PRIu64 " has %" PRIu64 " rows", run->step, part.rows);
        for (uint64_t row = run->first; row < run->first + run->n && k < rows; row++) {
            numbers[k++] = part.begin + row;
            if ((k > 1 && numbers[k - 1] <= numbers[k - 2]) || leat_unordered_was_received(l, part.at, row))
                return leat_fail(error, LEAT_E_INVALID,
                                 "row %" PRIu64 " of step %" PRIu64 " was received, or is not behind the one before it",
                                 row, part.step);
        }
    }
    if (!leat_unordered_is_near(l, numbers[rows - 1]))
        return leat_fail(error, LEAT_E_INVALID, "step %" PRIu64 " is too far from the earliest missing row", part.step);
    return leat_unordered_can_mark(l, numbers, rows) ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for rows");
}

static int choose(struct leat_loader *l, const struct leat_row_run *runs, uint64_t n, uint64_t *step,
                  struct leat_error *error)
{
    struct leat_plan_batch serve;
    uint64_t rows = 0;
    for (uint64_t i = 0; i < n; i++)
        rows += runs[i].n;
    if (l->record)
        return leat_fail(error, LEAT_E_INVALID, "rows of a loader with log_dir are those of its record");
    if (l->consumer.reader.ended || leat_plan_batch(l->plan, l->unordered->serve, &serve))
        return leat_fail(error, LEAT_E_INVALID, "the epoch has no further batch");
    if (!rows || rows != serve.rows)
        return leat_fail(error, LEAT_E_INVALID, "the next batch has %" PRIu64 " rows, not %" PRIu64, serve.rows, rows);
    uint64_t *numbers = leat_new_array(rows, sizeof *numbers);
    if (!numbers)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of a batch");
    *step = serve.step;
    int rc = numbers_of(l, runs, n, rows, numbers, error);
    if (rc)
        leat_free(numbers);
    else
        leat_unordered_choose(l, numbers, rows);
    return rc;
}

int leat_loader_choose(struct leat_loader *l, const struct leat_row_run *runs, uint64_t n, uint64_t *step,
                       struct leat_error *error)
{
    int rc = enter(l, error);
    if (rc)
        return rc;
    rc = choose(l, runs, n, step, error);
    l->due |= rc ? 0 : LEAT_DUE_WAKE | LEAT_DUE_WORK;
    leat_loader_settle(l);
    leat_engine_unlock();
    return rc;
}
