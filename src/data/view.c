/*
 * The steps that made a view of the opened data. A saved state says with it which part of a data set its run was over:
 *
 *     [["split", [0.9, 0.1], "0", 0], ["slice", 0, 1000, 2], ["select", [5, 3]], ["select", 100000, "hash of them"]]
 *     [["where", "language = 'en'"]]     [["and", [["where", ..]], [["slice", ..]]]]     (or, minus)
 *     [["concat", [100, []], [50, [["slice", 0, 10, 1]]]]]
 *
 * Steps are in order. A seed is text, since JSON's numbers end at 2^63. Joined views are parts of data opened together:
 * each has its number of samples and its own steps.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "data/internal.h"

#define MAX_LISTED 256 /* positions of a select that are listed: some 3 KB */
#define MAX_VIEW 8192  /* bytes: a state stays small */
#define MAX_FRACTIONS 4096

char *leat_view_add(const struct leat_dataset *d, json_t *step)
{
    json_t *steps = d && d->view ? json_loads(d->view, 0, NULL) : json_array();
    bool known = step && (!d || d->view || !d->selected);
    bool whole = !json_array_append_new(steps, step);
    char *text = known && whole ? json_dumps(steps, JSON_COMPACT) : NULL,
         *view = text && strlen(text) <= MAX_VIEW ? leat_strdup(text) : NULL;
    free(text);
    json_decref(steps);
    return view;
}

static void hash_of(const int64_t *positions, uint64_t n, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, leat_hash64(positions, n * sizeof *positions));
}

json_t *leat_view_select(const int64_t *positions, uint64_t n)
{
    char hash[17];
    hash_of(positions, n, hash);
    if (n > MAX_LISTED)
        return json_pack("[s, I, s]", "select", (json_int_t)n, hash);
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(positions[i]));
    return json_pack("[s, o]", "select", list);
}

json_t *leat_view_split(const double *fractions, size_t n, uint64_t seed, size_t part)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(fractions[i]));
    return json_pack("[s, o, o, I]", "split", list, json_sprintf("%" PRIu64, seed), (json_int_t)part);
}

json_t *leat_view_concat(struct leat_dataset *const *datasets, size_t n)
{
    json_t *step = json_pack("[s]", "concat");
    for (size_t i = 0; i < n; i++) {
        const struct leat_dataset *d = datasets[i];
        json_t *steps = d->view ? json_loads(d->view, 0, NULL) : d->selected ? NULL : json_array();
        if (json_array_append_new(step, json_pack("[I, o]", (json_int_t)d->base->count, steps))) {
            json_decref(step);
            return NULL;
        }
    }
    return step;
}

char *leat_view_combine(const struct leat_dataset *left, const struct leat_dataset *right, const char *how)
{
    json_t *step = json_pack("[s]", how);
    const struct leat_dataset *sides[2] = {left, right};
    for (size_t i = 0; i < 2; i++) {
        const struct leat_dataset *d = sides[i];
        json_t *steps = d->view ? json_loads(d->view, 0, NULL) : d->selected ? NULL : json_array();
        if (json_array_append_new(step, steps)) {
            json_decref(step);
            return NULL;
        }
    }
    return leat_view_add(NULL, step);
}

const char *leat_dataset_view_text(const struct leat_dataset *d)
{
    return d->view;
}

/* ---- back to a data set ---------------------------------------------------------------------- */

static int malformed(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_INVALID,
                     "the view of the state is malformed: give the text that state_dict() gave, unchanged");
}

static bool number(const json_t *step, size_t i, uint64_t *out)
{
    return leat_json_number(json_array_get(step, i), INT64_MAX, out);
}

static int apply_select(struct leat_dataset *d, const json_t *step, const int64_t *positions, uint64_t n,
                        struct leat_dataset **out, struct leat_error *error)
{
    const json_t *list = json_array_get(step, 1), *v;
    const char *wanted = json_string_value(json_array_get(step, 2));
    uint64_t length;
    char hash[17];
    size_t i;
    if (json_is_array(list)) {
        int64_t *listed = leat_new_array(json_array_size(list) + 1, sizeof *listed);
        if (!listed)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a view");
        json_array_foreach(list, i, v) listed[i] = json_is_integer(v) ? json_integer_value(v) : -1;
        int rc = leat_dataset_select(d, listed, i, out, error);
        leat_free(listed);
        return rc;
    }
    if (!wanted || !number(step, 1, &length))
        return malformed(error);
    if (!positions)
        return leat_fail(error, LEAT_E_INVALID,
                         "the run was over a select of %" PRIu64
                         " positions, of which the state has the hash only: the list is needed",
                         length);
    hash_of(positions, n, hash);
    if (n != length || strcmp(hash, wanted) != 0)
        return leat_fail(error, LEAT_E_INVALID,
                         "the run was over a select of %" PRIu64 " positions with hash %.32s, these are %" PRIu64
                         " with hash %s: give the list that the run had, in its order",
                         length, wanted, n, hash);
    return leat_dataset_select(d, positions, n, out, error);
}

static int apply_split(struct leat_dataset *d, const json_t *step, struct leat_dataset **out, struct leat_error *error)
{
    const json_t *list = json_array_get(step, 1), *v;
    const char *seed = json_string_value(json_array_get(step, 2));
    size_t n = json_array_size(list), i;
    uint64_t part;
    if (!n || n > MAX_FRACTIONS || !seed || !*seed || strspn(seed, "0123456789") != strlen(seed) ||
        !number(step, 3, &part) || part >= n)
        return malformed(error);
    double *fractions = leat_new_array(n, sizeof *fractions);
    struct leat_dataset **parts = leat_new_array(n, sizeof *parts);
    int rc = fractions && parts ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a view");
    if (!rc) {
        json_array_foreach(list, i, v) fractions[i] = json_is_number(v) ? json_number_value(v) : -1;
        rc = leat_dataset_split(d, fractions, n, strtoull(seed, NULL, 10), parts, error);
    }
    for (i = 0; !rc && i < n; i++)
        if (i == part)
            *out = parts[i];
        else
            leat_dataset_release(parts[i]);
    leat_free(fractions);
    leat_free(parts);
    return rc;
}

static int apply_all(struct leat_dataset *d, const json_t *steps, const int64_t *positions, uint64_t n,
                     struct leat_dataset **out, struct leat_error *error);

static int apply_concat(struct leat_dataset *d, const json_t *step, const int64_t *positions, uint64_t n,
                        struct leat_dataset **out, struct leat_error *error)
{
    struct leat_selection s = {0};
    uint64_t begin = 0, count;
    int rc = LEAT_OK;
    for (size_t i = 1; !rc && i < json_array_size(step); i++) {
        const json_t *part = json_array_get(step, i);
        struct leat_dataset *whole, *view;
        if (!number(part, 0, &count) || count > d->count - begin || !json_is_array(json_array_get(part, 1))) {
            rc = malformed(error);
            break;
        }
        if ((rc = leat_dataset_slice(d, begin, begin + count, 1, &whole, error)))
            break;
        rc = apply_all(whole, json_array_get(part, 1), positions, n, &view, error);
        leat_dataset_release(whole);
        if (rc)
            break;
        if (leat_selection_push_view(&s, view, 0, view->count, 0))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a view");
        leat_dataset_release(view);
        begin += count;
    }
    if (!rc && begin != d->count)
        rc = malformed(error);
    if (rc) {
        leat_selection_destroy(&s);
        return rc;
    }
    char *view = leat_view_add(d, json_deep_copy(step));
    rc = leat_dataset_make(leat_base_retain(d->base), &s, NULL, out, error);
    if (rc)
        leat_free(view);
    else
        (*out)->view = view;
    return rc;
}

static int apply_combine(struct leat_dataset *d, const json_t *step, enum leat_combine how, const int64_t *positions,
                         uint64_t n, struct leat_dataset **out, struct leat_error *error)
{
    struct leat_dataset *sides[2] = {NULL, NULL};
    int rc = LEAT_OK;
    for (size_t i = 0; i < 2 && !rc; i++) {
        const json_t *steps = json_array_get(step, i + 1);
        rc = json_is_array(steps) ? apply_all(d, steps, positions, n, &sides[i], error) : malformed(error);
    }
    if (!rc)
        rc = leat_dataset_combine(sides[0], sides[1], how, out, error);
    leat_dataset_release(sides[0]);
    leat_dataset_release(sides[1]);
    return rc;
}

static int apply(struct leat_dataset *d, const json_t *step, const int64_t *positions, uint64_t n,
                 struct leat_dataset **out, struct leat_error *error)
{
    const char *kind = json_string_value(json_array_get(step, 0));
    uint64_t begin, end, stride;
    if (kind && !strcmp(kind, "select"))
        return apply_select(d, step, positions, n, out, error);
    if (kind && !strcmp(kind, "split"))
        return apply_split(d, step, out, error);
    if (kind && !strcmp(kind, "concat"))
        return apply_concat(d, step, positions, n, out, error);
    if (kind && !strcmp(kind, "where") && json_is_string(json_array_get(step, 1)))
        return leat_dataset_where(d, json_string_value(json_array_get(step, 1)), out, error);
    if (kind && !strcmp(kind, "and"))
        return apply_combine(d, step, LEAT_COMBINE_AND, positions, n, out, error);
    if (kind && !strcmp(kind, "or"))
        return apply_combine(d, step, LEAT_COMBINE_OR, positions, n, out, error);
    if (kind && !strcmp(kind, "minus"))
        return apply_combine(d, step, LEAT_COMBINE_MINUS, positions, n, out, error);
    if (!kind || strcmp(kind, "slice") != 0 || !number(step, 1, &begin) || !number(step, 2, &end) ||
        !number(step, 3, &stride))
        return malformed(error);
    return leat_dataset_slice(d, begin, end, stride, out, error);
}

static int apply_all(struct leat_dataset *d, const json_t *steps, const int64_t *positions, uint64_t n,
                     struct leat_dataset **out, struct leat_error *error)
{
    int rc = LEAT_OK;
    struct leat_dataset *at = leat_dataset_retain(d), *made;
    for (size_t i = 0; !rc && i < json_array_size(steps); i++) {
        rc = apply(at, json_array_get(steps, i), positions, n, &made, error);
        if (rc)
            break;
        leat_dataset_release(at);
        at = made;
    }
    if (rc)
        leat_dataset_release(at);
    else
        *out = at;
    return rc;
}

int leat_dataset_view(struct leat_dataset *d, const char *view, const int64_t *positions, uint64_t n,
                      struct leat_dataset **out, struct leat_error *error)
{
    *out = NULL;
    json_t *steps = strnlen(view, MAX_VIEW + 1) > MAX_VIEW ? NULL : json_loads(view, JSON_REJECT_DUPLICATES, NULL);
    int rc = json_is_array(steps) ? apply_all(d, steps, positions, n, out, error) : malformed(error);
    json_decref(steps);
    return rc;
}
