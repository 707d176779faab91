/*
 * A loader's program on samples in the caller's memory (leat/apply.h): a batch on the side of the window, whose rows
 * are not the plan's.
 */
#include "engine/given.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/random.h"
#include "engine/side.h"
#include "leat/apply.h"

#define USUAL_BYTES (UINT64_C(4) << 20) /* longer samples are rare, and their buffers go when they are made */

void leat_given_rows(const struct leat_given_rows *given, uint64_t first, uint64_t n, struct leat_plan_row *rows)
{
    for (uint64_t i = 0; i < n; i++)
        rows[i] = (struct leat_plan_row){.row = first + i,
                                         .key = given->keys[first + i],
                                         .piece = {.position = first + i, .count = UINT64_MAX},
                                         .valid = true};
}

static struct leat_piece other(const struct leat_given_rows *given, uint64_t row, uint64_t tag, unsigned n)
{
    const uint64_t key = leat_key_mix(given->keys[row], tag);
    return (struct leat_piece){.position = leat_order_substitute(key, n, given->n, row), .count = UINT64_MAX};
}

struct leat_piece leat_given_substitute(const struct leat_given_rows *given, uint64_t row, unsigned attempt)
{
    return other(given, row, LEAT_TAG_SUBSTITUTE, attempt);
}

struct leat_piece leat_given_companion(const struct leat_given_rows *given, uint64_t row, unsigned n)
{
    return other(given, row, LEAT_TAG_COMPANION, n);
}

static int check(const struct leat_loader *l, uint64_t n, uint64_t *longest, struct leat_error *error)
{
    uint64_t lent;
    int rc = leat_dataset_lent_now(l->dataset, &lent, longest, error);
    if (!rc && (!n || n > lent))
        rc = leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " rows are asked for of %" PRIu64 " samples that are lent", n,
                       lent);
    if (!rc && leat_program_has_variants(l->program))
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "this program is drawn per batch, or changes with the epoch, which a loader knows: give sizes "
                       "that are fixed");
    return rc ? rc : leat_loader_check_rows(l, n, error);
}

/* Tasks keep buffers for such values from call to call: when the loader was opened, nobody knew how long they are. */
static void expect_values(struct leat_loader *l, uint64_t longest)
{
    const uint64_t room = leat_region_round(2 * longest);
    if (longest <= USUAL_BYTES && room > l->tasks.usual_room)
        l->tasks.usual_room = room;
}

/* Until no thread reads what is lent. A loader that is closing has parked tasks that nobody continues. */
static void wait_for_tasks(struct leat_loader *l)
{
    while (l->closed ? l->tasks.running : !leat_tasks_are_done(&l->tasks))
        if (!leat_loader_help(l))
            leat_loader_wait(l, INT64_MAX);
}

int leat_rows_apply(struct leat_loader *l, uint64_t n, const uint64_t *keys, struct leat_batch **out,
                    struct leat_error *error)
{
    const struct leat_given_rows given = {keys, n};
    const struct leat_plan_batch rows = {.global_rows = n, .rows = n};
    *out = NULL;
    uint64_t longest;
    int rc = check(l, n, &longest, error);
    if (!rc)
        rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    l->callers.in_next++; /* a closing waits */
    l->job.given = &given;
    expect_values(l, longest);
    leat_engine_unlock();
    rc = leat_side_make(l, &rows, NULL, true, out, error);
    leat_engine_lock();
    wait_for_tasks(l);
    l->job.given = NULL;
    leat_loader_leave(l);
    return rc;
}
