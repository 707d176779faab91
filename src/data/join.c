/*
 * The data set that a loader of a mixture reads: its sources one behind the other.
 *
 *     positions    0 .. n0 - 1  |  n0 .. n0 + n1 - 1  | ...       source by source
 *     selection    its ids      |  its ids + N        | ...       N: samples of the base; so ids mostly ascend, and
 *     ids          the remainder of dividing by N                 are packed
 *
 * Views of one base keep their ids, and the base is joined once, however many there are. Any others are concatenated.
 * Documents that rows are packed of may differ in other fields: only those that packing takes are joined then.
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/internal.h"

static bool of_one_base(struct leat_dataset *const *datasets, size_t n)
{
    bool same = true;
    for (size_t i = 1; i < n && same; i++)
        same = leat_base_is_same(datasets[0]->base, datasets[i]->base);
    return same && datasets[0]->base->count && n <= (uint64_t)INT64_MAX / datasets[0]->base->count;
}

int leat_dataset_join(struct leat_dataset *const *datasets, size_t n, struct leat_dataset **out,
                      struct leat_error *error)
{
    struct leat_selection s = {0};
    *out = NULL;
    if (!n || !of_one_base(datasets, n))
        return leat_dataset_concat(datasets, n, out, error);
    struct leat_base *base = datasets[0]->base;
    int rc = LEAT_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = leat_selection_push_view(&s, datasets[i], 0, datasets[i]->count, i * base->count);
    if (!rc)
        rc = leat_selection_seal(&s);
    if (rc) {
        leat_selection_destroy(&s);
        return leat_fail(error, rc, "no memory to join %zu views", n);
    }
    if ((rc = leat_dataset_make(leat_base_retain(base), NULL, NULL, out, error))) {
        leat_selection_destroy(&s);
        return rc;
    }
    (*out)->selected = (*out)->joined = true;
    (*out)->selection = s;
    (*out)->count = s.count;
    return LEAT_OK;
}

/* All samples of the base of a data set with some of its fields, in the order that these are given in. */
static int take_fields(struct leat_dataset *d, const char *const *fields, size_t n, struct leat_dataset **out,
                       struct leat_error *error)
{
    static const char *const plain[] = {"", ""};
    struct leat_dataset *whole, *one[] = {NULL, NULL};
    assert(n <= 2);
    int rc = leat_dataset_make(leat_base_retain(d->base), NULL, NULL, &whole, error);
    if (rc)
        return rc;
    for (size_t f = 0; f < n && !rc; f++)
        rc = leat_dataset_zip(&whole, plain, 1, true, &fields[f], 1, &one[f], error);
    if (!rc)
        rc = leat_dataset_zip(one, plain, n, true, NULL, 0, out, error);
    leat_dataset_release(whole);
    for (size_t f = 0; f < n; f++)
        leat_dataset_release(one[f]);
    if (!rc)
        (*out)->base->n_classes = 0; /* of labels, which are left out */
    return rc;
}

/* The same samples, under the same ids, with some of their fields. */
static int narrowed(struct leat_dataset *d, const char *const *fields, size_t n, struct leat_dataset **out,
                    struct leat_error *error)
{
    struct leat_dataset *taken;
    struct leat_selection s = {0};
    int rc = take_fields(d, fields, n, &taken, error);
    *out = rc ? NULL : taken;
    if (rc || !d->selected)
        return rc;
    rc = leat_selection_push_view(&s, d, 0, d->count, 0);
    rc = rc ? rc : leat_selection_seal(&s);
    if (rc) {
        leat_selection_destroy(&s);
        (void)leat_fail(error, rc, "no memory for a view");
    } else
        rc = leat_dataset_make(leat_base_retain(taken->base), &s, NULL, out, error);
    leat_dataset_release(taken);
    return rc;
}

int leat_dataset_join_fields(struct leat_dataset *const *datasets, size_t n, const char *const *fields, size_t n_fields,
                             struct leat_dataset **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_dataset **parts = leat_new_array(n, sizeof *parts);
    if (!parts)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to join %zu data sets", n);
    int rc = LEAT_OK;
    size_t made = 0;
    while (made < n && !(rc = narrowed(datasets[made], fields, n_fields, &parts[made], error)))
        made++;
    if (!rc)
        rc = leat_dataset_concat(parts, n, out, error);
    while (made)
        leat_dataset_release(parts[--made]);
    leat_free(parts);
    return rc;
}
