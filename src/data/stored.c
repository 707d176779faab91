/*
 * Data sets of arrays that lie in files (leat/stored.h): one field, whose values are computed.
 *
 *     dense rows    a part of an array each
 *     sparse rows   pointers[i] to pointers[i + 1] of two arrays: values, and their columns
 *
 * Columns of a file become those of the field by `map`, and rise in the row that is made.
 */
#include "leat/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/role.h"
#include "data/internal.h"
#include "format/chunked.h"
#include "format/source.h"
#include "kernels/sparse.h"
#include "kernels/values.h"

struct stored {
    struct leat_field field;
    uint64_t count;
    struct leat_chunked *values, *columns; /* columns NULL: dense rows */
    enum leat_dtype column_dtype;
    enum leat_dtype from, to; /* types of values in the file and of the field */
    const int64_t *pointers;
    const int32_t *map;
    uint64_t n_map;
    bool drops;     /* some column of the file is left out */
    uint32_t item;  /* bytes of a value of the field */
    uint64_t width; /* of dense rows: values in the file */
    uint64_t made;  /* of dense rows: values of the field */
    void (*release)(void *user);
    void *user;
};

/* The memory of a call: a row as it is in the file, its columns as those of the field, and these with their places. */
struct scratch {
    uint8_t *stored, *values, *raw, *bytes;
    int32_t *columns;
    uint32_t *places;
    struct leat_column_word *words;
    size_t stored_room, values_room, raw_room, columns_room, places_room, words_room;
};

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for rows of stored arrays");
}

struct copy {
    void *to;
    size_t bytes;
};

static void copy(void *user, const uint8_t *bytes)
{
    const struct copy *c = user;
    memcpy(c->to, bytes, c->bytes);
}

/* Values, as those of the field. */
static int read_values(const struct stored *s, uint64_t first, uint64_t n, uint8_t *to, struct scratch *t,
                       struct leat_error *error)
{
    if (s->from == s->to)
        return leat_chunked_within(s->values, first, n, copy, &(struct copy){to, n * s->item})
                   ? LEAT_OK
                   : leat_chunked_read(s->values, first, n, to, error);
    if (!leat_grow(&t->raw, &t->raw_room, n * leat_dtype_size(s->from) + 1, 1))
        return no_memory(error);
    const int rc = leat_chunked_read(s->values, first, n, t->raw, error);
    if (!rc)
        leat_values_convert(s->from, s->to, t->raw, to, n);
    return rc;
}

/* ---- dense rows ------------------------------------------------------------------------------ */

static int make_dense(const struct stored *s, uint64_t sample, struct scratch *t, struct leat_values *out, size_t f,
                      size_t i, struct leat_error *error)
{
    uint8_t *to = leat_values_room(out, f, i, s->made * s->item);
    if (!to)
        return no_memory(error);
    if (!s->map)
        return read_values(s, sample * s->width, s->width, to, t, error);
    if (!leat_grow(&t->values, &t->values_room, s->width * s->item, 1))
        return no_memory(error);
    const int rc = read_values(s, sample * s->width, s->width, t->values, t, error);
    memset(to, 0, s->made * s->item);
    for (uint64_t k = 0; k < s->width && !rc; k++)
        if (s->map[k] >= 0)
            memcpy(to + (uint64_t)s->map[k] * s->item, t->values + k * s->item, s->item);
    return rc;
}

/* ---- sparse rows ----------------------------------------------------------------------------- */

/* A row has at most one value in each column of the file. */
static uint64_t most_values(const struct stored *s)
{
    return s->map ? s->n_map : (uint64_t)s->field.columns;
}

/* LEAT_NO_OFFSET: of a chunk that was not written, or is said to lie where no file reaches. */
static int64_t offset_of(uint64_t byte)
{
    return byte <= INT64_MAX ? (int64_t)byte : LEAT_NO_OFFSET;
}

static int fail_column(const struct stored *s, uint64_t sample, uint64_t k, const char *what, int64_t column,
                       struct leat_error *error)
{
    uint64_t byte;
    char at[40] = "";
    const char *path = leat_chunked_place(s->columns, (uint64_t)s->pointers[sample] + k, &byte);
    if (offset_of(byte) != LEAT_NO_OFFSET)
        snprintf(at, sizeof at, " (byte %" PRIu64 ")", byte);
    return leat_fail_at(error, LEAT_E_DECODE, path, offset_of(byte),
                        "%s, %s, row %" PRIu64 ", value %" PRIu64 "%s: column %" PRId64 " %s", path,
                        leat_chunked_name(s->columns), sample, k, at, column, what);
}

static int64_t stored_column(const struct stored *s, const uint8_t *stored, uint64_t k)
{
    int64_t column;
    leat_values_convert(s->column_dtype, LEAT_I64, stored + k * leat_dtype_size(s->column_dtype), &column, 1);
    return column;
}

/* Pointers may say anything: such a row would take as much memory as there are values in the file. */
static int fail_length(const struct stored *s, uint64_t sample, uint64_t n, uint64_t most, struct leat_error *error)
{
    uint64_t byte;
    const char *path = leat_chunked_place(s->columns, (uint64_t)s->pointers[sample], &byte);
    return leat_fail_at(error, LEAT_E_DECODE, path, offset_of(byte),
                        "%s, %s, row %" PRIu64 ": %" PRIu64 " values in a row of %" PRIu64 " columns", path,
                        leat_chunked_name(s->columns), sample, n, most);
}

/* Leaves out columns that are -1; t->places says where the others stood. Returns how many these are. */
static uint64_t leave_out(struct scratch *t, uint64_t length)
{
    uint64_t n = 0;
    for (uint64_t k = 0; k < length; k++) {
        const int32_t column = t->columns[k];
        t->columns[n] = column;
        t->places[n] = (uint32_t)k;
        n += column >= 0;
    }
    return n;
}

/* The row of columns in another order than theirs. */
struct ordered {
    const struct scratch *t;
    size_t n_parts, n, item;
    bool all;
    uint8_t *to;
};

static void put_in_order(void *user, const uint8_t *values)
{
    const struct ordered *o = user;
    const struct scratch *t = o->t;
    if (o->n_parts)
        leat_columns_turn(t->columns, t->places, o->n_parts, values, o->item, o->n, o->to);
    else
        leat_columns_put(t->words, t->columns, o->all ? NULL : t->places, values, o->item, o->n, o->to);
}

/* Columns that do not rise, or not all of which are kept: in order, with their values. */
static int make_ordered(const struct stored *s, uint64_t sample, uint64_t length, bool all, struct scratch *t,
                        struct leat_values *out, size_t f, size_t i, struct leat_error *error)
{
    const size_t n_words = leat_column_words((size_t)s->field.columns);
    if (!leat_grow(&t->places, &t->places_room, length + 1, sizeof *t->places) ||
        !leat_grow(&t->words, &t->words_room, n_words, sizeof *t->words) ||
        (!t->bytes && !(t->bytes = leat_new_array(n_words, 64))))
        return no_memory(error);
    const size_t n_parts = all ? leat_columns_parts(t->columns, length, t->places) : 0;
    const uint64_t n = all ? length : leave_out(t, length);
    if (!n_parts && leat_columns_collect(t->words, n_words, t->bytes, t->columns, n) != n) {
        const uint64_t twice = leat_columns_twice(t->words, n_words, t->columns, n);
        return fail_column(s, sample, all ? twice : t->places[twice], "of the field stands twice in the row",
                           t->columns[twice], error);
    }
    uint8_t *to = leat_values_room(out, f, i, n * (s->item + sizeof(int32_t)));
    if (!to)
        return no_memory(error);
    struct ordered o = {.t = t, .n_parts = n_parts, .n = n, .item = s->item, .all = all, .to = to};
    const uint64_t first = (uint64_t)s->pointers[sample];
    if (s->from == s->to && leat_chunked_within(s->values, first, length, put_in_order, &o))
        return LEAT_OK;
    if (!leat_grow(&t->values, &t->values_room, length * s->item + 1, 1))
        return no_memory(error);
    const int rc = read_values(s, first, length, t->values, t, error);
    if (!rc)
        put_in_order(&o, t->values);
    return rc;
}

struct taking {
    enum leat_dtype dtype;
    uint64_t n, most, good;
    int32_t *columns;
};

static void take(void *user, const uint8_t *stored)
{
    struct taking *k = user;
    k->good = leat_columns_take(k->dtype, stored, k->n, k->most, k->columns);
}

/* The columns of a row as the file has them, in t->columns. */
static int take_columns(const struct stored *s, uint64_t sample, uint64_t n, uint64_t most, struct scratch *t,
                        struct leat_error *error)
{
    const uint64_t first = (uint64_t)s->pointers[sample];
    struct taking k = {.dtype = s->column_dtype, .n = n, .most = most};
    if (!leat_grow(&t->columns, &t->columns_room, n + 1, sizeof *t->columns))
        return no_memory(error);
    k.columns = t->columns;
    if (leat_chunked_within(s->columns, first, n, take, &k) && k.good == n)
        return LEAT_OK;
    if (!leat_grow(&t->stored, &t->stored_room, n * leat_dtype_size(s->column_dtype) + 1, 1))
        return no_memory(error);
    const int rc = leat_chunked_read(s->columns, first, n, t->stored, error);
    if (rc)
        return rc;
    take(&k, t->stored);
    return k.good == n ? LEAT_OK
                       : fail_column(s, sample, k.good, "is beyond the columns of the file",
                                     stored_column(s, t->stored, k.good), error);
}

static int make_sparse(const struct stored *s, uint64_t sample, struct scratch *t, struct leat_values *out, size_t f,
                       size_t i, struct leat_error *error)
{
    const uint64_t first = (uint64_t)s->pointers[sample], n = (uint64_t)s->pointers[sample + 1] - first,
                   most = most_values(s);
    bool all = true;
    if (n > most)
        return fail_length(s, sample, n, most, error);
    const int rc = take_columns(s, sample, n, most, t, error);
    if (rc)
        return rc;
    for (uint64_t k = 0; k < n && s->map; k++) {
        t->columns[k] = s->map[t->columns[k]];
        all &= t->columns[k] >= 0;
    }
    if (!all || !leat_columns_rise(t->columns, n))
        return make_ordered(s, sample, n, all, t, out, f, i, error);
    uint8_t *to = leat_values_room(out, f, i, n * (s->item + sizeof(int32_t)));
    if (!to)
        return no_memory(error);
    memcpy(to + n * s->item, t->columns, n * sizeof(int32_t));
    return read_values(s, first, n, to, t, error);
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Where the values of a sample lie. */
static uint64_t place_of(const struct stored *s, uint64_t sample, uint64_t *n)
{
    const uint64_t first = s->columns ? (uint64_t)s->pointers[sample] : sample * s->width;
    *n = s->columns ? (uint64_t)s->pointers[sample + 1] - first : s->width;
    return first;
}

static void expect(const struct stored *s, uint64_t sample)
{
    uint64_t n;
    const uint64_t first = place_of(s, sample, &n);
    leat_chunked_expect(s->values, first, n);
    if (s->columns)
        leat_chunked_expect(s->columns, first, n);
}

static int compute(void *user, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct stored *s = user;
    struct scratch t = {0};
    *failed = n;
    int rc = leat_chunked_check(s->values, error);
    if (!rc && s->columns)
        rc = leat_chunked_check(s->columns, error);
    for (size_t i = 0; i < n && !rc; i++) {
        uint64_t length;
        const uint64_t first = place_of(s, samples[i], &length);
        leat_chunked_ahead(s->values, first, length);
        if (s->columns)
            leat_chunked_ahead(s->columns, first, length);
    }
    for (size_t f = 0; f < n_fields && !rc; f++)
        for (size_t i = 0; i < n && !rc; i++) {
            if (i + 1 < n)
                expect(s, samples[i + 1]);
            if (leat_values_cancelled(out))
                rc = leat_fail(error, LEAT_E_CANCELLED, "reading was stopped");
            else if ((rc = (s->columns ? make_sparse : make_dense)(s, samples[i], &t, out, f, i, error)))
                *failed = i;
        }
    leat_free(t.stored);
    leat_free(t.values);
    leat_free(t.raw);
    leat_free(t.columns);
    leat_free(t.places);
    leat_free(t.words);
    leat_free(t.bytes);
    return rc;
}

/* How many columns of a row are left out is known once they are read; a row of too many is broken. */
static uint64_t length_of(void *user, size_t field, uint64_t sample)
{
    const struct stored *s = user;
    uint64_t n;
    place_of(s, sample, &n);
    return s->columns && !s->drops && n <= most_values(s) ? n * (s->item + sizeof(int32_t)) : UINT64_MAX;
}

static void stored_close(void *user)
{
    struct stored *s = user;
    leat_chunked_free(s->values);
    leat_chunked_free(s->columns);
    if (s->release)
        s->release(s->user);
    leat_free(s);
}

static int check_sparse(const struct stored *s, struct leat_error *error)
{
    const uint64_t values = leat_chunked_elements(s->values), columns = leat_chunked_elements(s->columns),
                   most = values < columns ? values : columns;
    const enum leat_dtype d = s->column_dtype;
    if (!s->pointers)
        return leat_fail(error, LEAT_E_INVALID, "%s: sparse rows have pointers", s->field.name);
    if (s->field.role != LEAT_ROLE_SPARSE || d == LEAT_BOOL || d == LEAT_F16 || d == LEAT_BF16 || d == LEAT_F32 ||
        d == LEAT_F64 || !leat_dtype_size(d))
        return leat_fail(error, LEAT_E_INVALID, "%s is no field of sparse rows with columns that are integers",
                         s->field.name);
    for (uint64_t i = 0; i <= s->count; i++)
        if (s->pointers[i] < (i ? s->pointers[i - 1] : 0) || (uint64_t)s->pointers[i] > most)
            return leat_fail(error, LEAT_E_CORRUPT,
                             "%s: pointer %" PRIu64 " is %" PRId64 ", behind %" PRId64 ", and there are %" PRIu64
                             " values: pointers do not fall, and lead to values",
                             leat_chunked_name(s->values), i, s->pointers[i], i ? s->pointers[i - 1] : 0, most);
    return LEAT_OK;
}

/* Whether no two columns become the same one; `last` is the largest that one becomes. */
static int check_once(const struct stored *s, int64_t last, struct leat_error *error)
{
    int rc = LEAT_OK;
    uint64_t *taken = leat_new_array((size_t)last / 64 + 1, sizeof *taken);
    if (!taken)
        return no_memory(error);
    for (uint64_t i = 0; i < s->n_map && !rc; i++) {
        if (s->map[i] < 0)
            continue;
        const uint64_t bit = UINT64_C(1) << (s->map[i] & 63);
        if (taken[s->map[i] >> 6] & bit)
            rc = leat_fail(error, LEAT_E_INVALID, "%s: column %" PRIu64 " would become %d, as one before it does",
                           s->field.name, i, (int)s->map[i]);
        taken[s->map[i] >> 6] |= bit;
    }
    leat_free(taken);
    return rc;
}

static int check_map(struct stored *s, struct leat_error *error)
{
    int64_t last = 0;
    const int64_t most = s->columns ? s->field.columns : (int64_t)s->made;
    if (s->map && s->n_map > INT32_MAX)
        return leat_fail(error, LEAT_E_INVALID, "%s: %" PRIu64 " columns are too many", s->field.name, s->n_map);
    for (uint64_t i = 0; s->map && i < s->n_map; i++) {
        if (s->map[i] >= most)
            return leat_fail(error, LEAT_E_INVALID, "%s: column %" PRIu64 " would become %d of %" PRId64, s->field.name,
                             i, (int)s->map[i], most);
        last = s->map[i] > last ? s->map[i] : last;
        s->drops |= s->map[i] < 0;
    }
    return s->map ? check_once(s, last, error) : LEAT_OK;
}

static int open_stored(struct stored *s, const struct leat_stored_rows *r, struct leat_error *error)
{
    int rc = leat_chunked_new(&r->values, &s->values, error);
    if (!rc && r->columns)
        rc = leat_chunked_new(r->columns, &s->columns, error);
    if (rc)
        return rc;
    s->to = s->columns ? s->field.item : s->field.dtype;
    s->from = r->value_dtype ? r->value_dtype : s->to;
    s->item = (uint32_t)leat_dtype_size(s->to);
    if (r->values.item != leat_dtype_size(s->from))
        return leat_fail(error, LEAT_E_INVALID, "%s: its values are not those of the array", r->field.name);
    if (s->columns) {
        if (r->values.ndim != 1 || r->columns->ndim != 1 || r->columns->item != leat_dtype_size(s->column_dtype))
            return leat_fail(error, LEAT_E_INVALID, "%s: values and columns are arrays of one dimension",
                             r->field.name);
        return check_sparse(s, error);
    }
    if (s->field.ndim > LEAT_MAX_DIMS)
        return leat_fail(error, LEAT_E_INVALID, "%s has %u dimensions", r->field.name, s->field.ndim);
    s->made = 1;
    for (unsigned d = 0; d < s->field.ndim; d++)
        if (s->field.shape[d] < 0 || !leat_mul_u64(s->made, (uint64_t)s->field.shape[d], &s->made))
            s->made = UINT64_MAX;
    s->width = r->values.shape[0] ? leat_chunked_elements(s->values) / r->values.shape[0] : s->map ? s->n_map : s->made;
    if (r->values.shape[0] != s->count || s->width != (s->map ? s->n_map : s->made) || s->made > INT64_MAX / 16)
        return leat_fail(error, LEAT_E_INVALID, "%s: its rows are not those of the array", r->field.name);
    return LEAT_OK;
}

int leat_stored_read(const struct leat_stored_array *array, uint64_t first, uint64_t n, void *to,
                     struct leat_error *error)
{
    struct leat_chunked *c;
    int rc = leat_chunked_new(array, &c, error);
    if (rc)
        return rc;
    rc = leat_chunked_read(c, first, n, to, error);
    leat_chunked_free(c);
    return rc;
}

int leat_dataset_from_stored(const struct leat_stored_rows *rows, uint64_t count, const char *version,
                             void (*release)(void *user), void *user, struct leat_dataset **out,
                             struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct stored *s = leat_new(struct stored);
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    s->field = rows->field;
    s->count = count;
    s->column_dtype = rows->column_dtype;
    s->pointers = rows->pointers;
    s->map = rows->map;
    s->n_map = rows->n_map;
    int rc = open_stored(s, rows, error);
    rc = rc ? rc : check_map(s, error);
    rc = rc ? rc : leat_dataset_from_source(&rows->field, 1, count, version, compute, stored_close, s, out, error);
    if (rc) {
        stored_close(s);
        return rc;
    }
    s->release = release;
    s->user = user;
    return leat_dataset_know_lengths(*out, length_of, error);
}
