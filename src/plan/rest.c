/*
 * A decision on rows that holds from within an epoch. The rows before it stay, and the rest of the epoch follows from
 * the decision:
 *
 *     row of the epoch    0 1 2 3 4 5 6 7 8 9
 *     as opened           7 2 9 0 4 1 8 5 3 6
 *     5 and more from 4   7 2 9 0|8 5 6            those of the selected that the epoch has not had, in its own order
 *     as opened from 6    7 2 9 0 8 5|4 1 3 6      selected are all
 *     listed 0 0 from 8   7 2 9 0 8 5 4 1|0 0      these rows, in this order
 *
 * All rows of that epoch are one list, which is made as the decision enters the log, and made again from the log when a
 * state is loaded. It is kept until a decision is made when the run has passed that epoch.
 */
#include "plan/rest.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/geometry.h"
#include "plan/order.h"

static bool has(const uint64_t *bits, uint64_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void add(uint64_t *bits, uint64_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* Appends those of `rows` that are not among the first `had`, and are selected. Returns how many there are then.
 * `bits`: zero, one for each sample. */
static uint64_t keep_rest(int64_t *first, uint64_t had, const int64_t *rows, uint64_t n,
                          const struct leat_list *selects, uint64_t *bits, uint64_t *chosen)
{
    uint64_t end = had;
    for (uint64_t i = 0; i < had; i++)
        add(bits, (uint64_t)first[i]);
    for (uint64_t i = 0; selects && i < selects->n; i++)
        add(chosen, (uint64_t)selects->positions[i]);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t position = (uint64_t)rows[i];
        if (!has(bits, position) && (!selects || has(chosen, position)))
            first[end++] = rows[i];
    }
    return end;
}

/* The rest in the order of the opening. */
static int rest_in_order(const struct leat_source_order *o, const struct leat_list *selects, uint64_t epoch,
                         uint64_t had, struct leat_list *list)
{
    const size_t words = (size_t)(o->count / 64 + 1);
    uint64_t *bits = leat_new_array(2 * words, sizeof *bits);
    int64_t *rows = leat_new_array((size_t)o->rows + 1, sizeof *rows);
    if (bits && rows) {
        leat_order_rows(o, NULL, epoch, 0, o->rows, rows);
        list->n = keep_rest(list->positions, had, rows, o->rows, selects, bits, bits + words);
    }
    const int rc = bits && rows ? LEAT_OK : LEAT_E_NOMEM;
    leat_free(bits);
    leat_free(rows);
    return rc;
}

/* The rest of a list that has the first rows of an epoch already, and room for as many as there can be. */
static int make_rest(const struct leat_source_order *o, const struct leat_list *decided, struct leat_position at,
                     struct leat_list *list, struct leat_error *error)
{
    if (decided && !decided->selects) {
        memcpy(list->positions + at.row, decided->positions, decided->n * sizeof *list->positions);
        list->n = at.row + decided->n;
    } else if (rest_in_order(o, decided, at.epoch, at.row, list)) {
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the rows of an epoch");
    }
    if (list->n == at.row)
        return leat_fail(error, LEAT_E_INVALID,
                         "epoch %llu has had all samples that are selected by its row %llu: nothing is left of it",
                         (unsigned long long)at.epoch, (unsigned long long)at.row);
    return LEAT_OK;
}

int leat_rest_new(const struct leat_plan *plan, struct leat_position at, const struct leat_list *decided,
                  struct leat_rest **out, struct leat_error *error)
{
    const struct leat_source_order *o = plan->sources;
    const struct leat_list *before = leat_plan_list(plan, at.epoch);
    const uint64_t room = at.row + (decided && !decided->selects ? decided->n : o->rows) + 1;
    *out = NULL;
    if ((before && !before->positions) || (decided && !decided->positions))
        return leat_fail(error, LEAT_E_RANGE, "the rows of epoch %llu are not known any more",
                         (unsigned long long)at.epoch);
    struct leat_rest *rest = leat_new(struct leat_rest);
    struct leat_list *list = rest ? rest->list = leat_new(struct leat_list) : NULL;
    if (!list || !(list->positions = leat_new_array((size_t)room, sizeof *list->positions))) {
        leat_rest_free(rest);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the %llu rows of an epoch", (unsigned long long)room);
    }
    rest->epoch = at.epoch;
    leat_order_rows(o, before, at.epoch, 0, at.row, list->positions);
    const int rc = make_rest(o, decided, at, list, error);
    if (rc)
        leat_rest_free(rest);
    else
        *out = rest;
    return rc;
}

int leat_rest_load(struct leat_plan *plan, uint64_t epoch, struct leat_error *error)
{
    const uint32_t n = plan->n_log;
    int rc = LEAT_OK;
    for (uint32_t i = 1; !rc && i < n; i++) {
        const struct leat_entry *e = &plan->log[i];
        struct leat_rest *rest;
        if (!leat_entry_is_rest(e) || e->at.epoch < epoch)
            continue;
        plan->n_log = i; /* as it was when this was decided */
        rc = e->at.row >= leat_plan_epoch_rows(plan, e->at.epoch) || e->now.rests > LEAT_PLAN_MAX_RESTS ||
                     !leat_rest_has_room(plan, epoch, e->at.epoch)
                 ? leat_fail(error, LEAT_E_RANGE, "epoch %llu has no row %llu", (unsigned long long)e->at.epoch,
                             (unsigned long long)e->at.row)
                 : leat_rest_new(plan, e->at, e->list, &rest, error);
        plan->n_log = n;
        if (!rc)
            leat_rest_set(plan, rest);
    }
    return rc;
}

/* ---- those that there are ---------------------------------------------------------------------------------------- */

void leat_rest_set(struct leat_plan *plan, struct leat_rest *rest)
{
    struct leat_rest **at = &plan->rests, *same;
    while (*at && (*at)->epoch < rest->epoch)
        at = &(*at)->next;
    same = *at && (*at)->epoch == rest->epoch ? *at : NULL;
    rest->next = same ? same->next : *at;
    *at = rest;
    if (same) {
        same->next = NULL;
        leat_rest_free(same);
    }
}

void leat_rest_forget(struct leat_plan *plan, uint64_t epoch)
{
    while (plan->rests && plan->rests->epoch < epoch) {
        struct leat_rest *first = plan->rests;
        plan->rests = first->next;
        first->next = NULL;
        leat_rest_free(first);
    }
}

void leat_rest_free(struct leat_rest *rest)
{
    for (struct leat_rest *next; rest; rest = next) {
        next = rest->next;
        leat_list_free(rest->list);
        leat_free(rest);
    }
}

bool leat_rest_has_room(const struct leat_plan *plan, uint64_t from, uint64_t epoch)
{
    unsigned others = 0;
    for (const struct leat_rest *rest = plan->rests; rest; rest = rest->next)
        others += rest->epoch >= from && rest->epoch != epoch;
    return others < LEAT_PLAN_MAX_REST_EPOCHS;
}
