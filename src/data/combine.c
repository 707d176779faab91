/*
 * Views taken together as sets. Both selections are brought into ascending order; then their runs are walked side by
 * side, and each stretch between two borders is in the result or not.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/internal.h"

bool leat_base_is_same(const struct leat_base *a, const struct leat_base *b)
{
    if (a == b)
        return true;
    bool same = a->n_parts == b->n_parts && a->count == b->count && a->n_fields == b->n_fields &&
                !memcmp(a->sums, b->sums, sizeof a->sums);
    for (size_t i = 0; i < a->n_parts && same; i++) {
        const struct leat_source *x = a->parts[i].source, *y = b->parts[i].source;
        same = x == y || (*x->path && a->parts[i].first_id == b->parts[i].first_id && !strcmp(x->path, y->path) &&
                          !memcmp(x->fingerprint, y->fingerprint, sizeof x->fingerprint));
    }
    return same;
}

/* Walks the stretches of ids of a set in ascending order. */
struct walk {
    const struct leat_dataset *dataset;
    struct leat_selection sorted; /* of a view that is in another order */
    const struct leat_selection *s;
    struct leat_selection_cursor cursor;
    uint64_t begin, end; /* the stretch; UINT64_MAX behind the last */
};

static int by_begin(const void *a, const void *b)
{
    const uint64_t x = ((const uint64_t *)a)[0], y = ((const uint64_t *)b)[0];
    return (x > y) - (x < y);
}

static void walk_on(struct walk *w)
{
    uint64_t count;
    if (w->s) {
        w->begin = w->end = UINT64_MAX;
        if (leat_selection_next(w->s, &w->cursor, &w->begin, &count))
            w->end = w->begin + count;
    } else if (!w->end) {
        w->end = w->dataset->count;
    } else {
        w->begin = w->end = UINT64_MAX;
    }
}

static int sort_runs(struct walk *w, struct leat_error *error)
{
    const struct leat_selection *s = &w->dataset->selection;
    struct leat_selection_cursor cursor = {0};
    size_t n = 0, room = 0;
    uint64_t(*runs)[2] = NULL;
    uint64_t begin, count, end = 0;
    int rc = LEAT_OK;
    while (!rc && leat_selection_next(s, &cursor, &begin, &count)) {
        if (!leat_grow(&runs, &room, n + 1, sizeof *runs)) {
            rc = LEAT_E_NOMEM;
            break;
        }
        runs[n][0] = begin;
        runs[n++][1] = begin + count;
    }
    if (n)
        qsort(runs, n, sizeof *runs, by_begin);
    for (size_t i = 0; i < n && !rc; i++) {
        begin = runs[i][0] > end ? runs[i][0] : end;
        if (runs[i][1] > begin)
            rc = leat_selection_push(&w->sorted, begin, runs[i][1] - begin);
        end = runs[i][1] > end ? runs[i][1] : end;
    }
    if (!rc)
        rc = leat_selection_seal(&w->sorted);
    leat_free(runs);
    return rc ? leat_fail(error, rc, "no memory for a view of %zu runs of samples", n) : LEAT_OK;
}

static int walk_begin(struct walk *w, const struct leat_dataset *d, struct leat_error *error)
{
    *w = (struct walk){.dataset = d, .s = d->selected ? &d->selection : NULL};
    int rc = LEAT_OK;
    if (d->selected && !d->selection.ascending) {
        rc = sort_runs(w, error);
        w->s = &w->sorted;
    }
    if (!rc)
        walk_on(w);
    if (!rc && !w->s && !d->count)
        w->begin = w->end = UINT64_MAX;
    return rc;
}

int leat_dataset_combine(struct leat_dataset *left, struct leat_dataset *right, enum leat_combine how,
                         struct leat_dataset **out, struct leat_error *error)
{
    static const char *const names[] = {"and", "or", "minus"};
    struct leat_selection s = {0};
    struct walk a, b = {0};
    *out = NULL;
    if ((unsigned)how > LEAT_COMBINE_MINUS)
        return leat_fail(error, LEAT_E_INVALID, "views are combined by AND, OR or MINUS, not by %u", (unsigned)how);
    if (!leat_base_is_same(left->base, right->base))
        return leat_fail(error, LEAT_E_INVALID,
                         "these are views of different data sets: only views of one can be combined (leat.concat joins "
                         "data sets)");
    int rc = walk_begin(&a, left, error);
    if (!rc)
        rc = walk_begin(&b, right, error);
    uint64_t at = 0;
    while (!rc && (a.begin != UINT64_MAX || b.begin != UINT64_MAX)) {
        if (a.end <= at && a.begin != UINT64_MAX) {
            walk_on(&a);
            continue;
        }
        if (b.end <= at && b.begin != UINT64_MAX) {
            walk_on(&b);
            continue;
        }
        const bool in_a = a.begin <= at, in_b = b.begin <= at;
        const uint64_t stop_a = in_a ? a.end : a.begin, stop_b = in_b ? b.end : b.begin;
        const uint64_t stop = stop_a < stop_b ? stop_a : stop_b;
        if (how == LEAT_COMBINE_AND ? in_a && in_b : how == LEAT_COMBINE_OR ? in_a || in_b : in_a && !in_b)
            if (leat_selection_push(&s, at, stop - at))
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a view of %zu runs of samples", s.n_runs);
        at = stop;
    }
    leat_selection_destroy(&a.sorted);
    leat_selection_destroy(&b.sorted);
    if (rc) {
        leat_selection_destroy(&s);
        return rc;
    }
    return leat_dataset_make(leat_base_retain(left->base), &s, leat_view_combine(left, right, names[how]), out, error);
}
