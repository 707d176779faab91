/* Files of arrays whose first axis counts samples: arrays.h. */
#include "format/arrays_sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/blocks.h"

enum { REMOTE_BLOCK = 1 << 20 };

int leat_arrays_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                        size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct leat_arrays *a = (const struct leat_arrays *)source;
    uint8_t *raw = NULL;
    size_t room = 0;
    int rc = LEAT_OK;
    for (size_t k = 0; k < n_fields && !rc; k++) {
        const struct leat_array_column *c = &a->columns[fields[k]];
        if (!leat_grow(&raw, &room, (size_t)c->row_bytes, 1))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a value of \"%s\"", c->name);
        *failed = n;
        for (size_t i = 0; i < n && !rc; i++) {
            *failed = i;
            if (leat_values_cancelled(out))
                rc = leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled");
            uint8_t *to = rc ? NULL : leat_values_room(out, k, i, c->row_bytes);
            if (!rc && !to)
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a value of \"%s\"", c->name);
            rc = rc ? rc : leat_arrays_fetch(a, c, samples[i], 1, raw, error);
            if (!rc)
                leat_npy_values(&c->row, raw, to);
        }
    }
    leat_free(raw);
    return rc;
}

int leat_arrays_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                     const void **rows, size_t *failed, struct leat_error *error)
{
    const struct leat_array_column *c = &((const struct leat_arrays *)source)->columns[field];
    for (size_t i = 0; i < n; i++)
        rows[i] = c->base + samples[i] * c->row_bytes;
    return LEAT_OK;
}

int leat_arrays_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                        struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct leat_array_column *c = &((const struct leat_arrays *)source)->columns[field];
    for (size_t i = 0; i < n; i++)
        extents[i] =
            (struct leat_extent){.file = field, .offset = c->at + samples[i] * c->row_bytes, .length = c->row_bytes};
    return LEAT_OK;
}

int leat_arrays_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    *out = leat_io_retain(((const struct leat_arrays *)source)->columns[file].file);
    return LEAT_OK;
}

void leat_arrays_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health)
{
}

int leat_arrays_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_io_unchanged(((const struct leat_arrays *)source)->file, error);
}

int leat_arrays_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    const struct leat_arrays *a = (const struct leat_arrays *)source;
    *data = a->storage[field] == LEAT_STORAGE_MAPPED ? a->columns[field].base : NULL;
    return LEAT_OK;
}

int leat_arrays_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    *out = (struct leat_source_about){.bytes = ((const struct leat_arrays *)source)->file->size, .broken = UINT64_MAX};
    return LEAT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

void leat_arrays_close(struct leat_source *source)
{
    struct leat_arrays *a = (struct leat_arrays *)source;
    for (size_t k = 0; a->columns && k < a->source.n_fields; k++)
        leat_io_release(a->columns[k].file);
    leat_io_release(a->file);
    leat_free(a->columns);
    leat_free(a->fields);
    leat_free(a->storage);
    leat_free(a->notice);
    leat_free(a->path);
    leat_free(a);
}

int leat_arrays_open_file(const char *path, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *raw;
    int rc = leat_io_open(path, &raw, error);
    *out = raw;
    if (rc || !leat_io_is_remote(path))
        return rc;
    rc = leat_blocks_over(raw, REMOTE_BLOCK, true, NULL, NULL, out, error);
    leat_io_release(raw);
    return rc;
}

int leat_arrays_refuse(const char *path, uint64_t at, const char *name, bool pickled, const char *fault,
                       struct leat_error *error)
{
    const int64_t place = at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET;
    const char *dot = strrchr(path, '.'); /* a .npy has no other array */
    const char *how = dot && !strcasecmp(dot, ".npy") ? "" : ": name the fields to take without it, as in fields=[...]";
    if (pickled)
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, path, place,
                            "the field \"%s\" of %s holds pickles (an array of objects, |O), which leat never loads, "
                            "as they can run any code%s",
                            name, path, how);
    return leat_fail_at(error, LEAT_E_FORMAT, path, place,
                        "the array \"%s\" of %s, at byte %" PRIu64 ", is none that leat takes, as %s%s", name, path, at,
                        fault, how);
}

/* The type of a row, or why it is none. */
static const char *row_of(const struct leat_npy *npy, struct leat_field *f, struct leat_array_column *c)
{
    if (!npy->ndim)
        return "it is a single number, and the first axis counts samples";
    f->kind = LEAT_KIND_ARRAY;
    f->dtype = npy->dtype;
    c->row = *npy;
    c->row.ndim = npy->ndim - 1;
    c->row_bytes = leat_dtype_size(npy->dtype);
    for (unsigned d = 1; d < npy->ndim; d++) {
        c->row.shape[d - 1] = npy->shape[d];
        f->shape[f->ndim++] = (int64_t)npy->shape[d];
        if (!leat_mul_u64(c->row_bytes, npy->shape[d], &c->row_bytes))
            return "its shape is too large";
    }
    if (npy->bytes > INT64_MAX || c->row_bytes > INT64_MAX)
        return "its shape is too large";
    c->row.bytes = c->row_bytes;
    c->fortran = npy->fortran && npy->ndim > 1;
    c->turned = c->fortran || (npy->swapped && leat_dtype_size(npy->dtype) > 1);
    return c->row_bytes ? NULL : "its rows have no elements";
}

static int place(struct leat_arrays *a, size_t k, const struct leat_found_array *array, const struct leat_field *wish,
                 struct leat_error *error)
{
    struct leat_array_column *c = &a->columns[k];
    struct leat_field *f = &a->fields[k];
    char said[128], is[128];
    const char *fault = row_of(&array->npy, f, c);
    if (!fault && array->compressed && c->row_bytes > LEAT_ARRAYS_COMPRESSED_ROW)
        fault = "its rows have more than 256 MiB, which is too much for a compressed one: write it without compression";
    if (fault)
        return leat_arrays_refuse(a->path, array->at, c->name, false, fault, error);
    if (leat_wanted_says(wish) && !leat_wanted_is(wish, f))
        return leat_fail(error, LEAT_E_INVALID, "fields says of \"%s\" that it is %s, and in %s it is %s", c->name,
                         leat_field_text(wish, said, sizeof said), a->path, leat_field_text(f, is, sizeof is));
    if (leat_wanted_says(wish))
        f->layout = wish->layout;
    if (array->at > c->file->size || array->npy.bytes > c->file->size - array->at)
        return leat_fail_at(error, LEAT_E_CORRUPT, a->path, (int64_t)a->file->size,
                            "%s: the array \"%s\" has %" PRIu64 " bytes from byte %" PRIu64
                            " on, and the file ends before: it is cut, copy it again",
                            a->path, c->name, array->npy.bytes, array->at);
    const uint64_t count = array->npy.shape[0];
    if (k && count != a->source.count)
        return leat_fail(error, LEAT_E_INVALID,
                         "%s: the first axis counts samples, and \"%s\" has %" PRIu64 ", \"%s\" %" PRIu64
                         ": choose arrays of one length, such as fields=[\"%s\"]",
                         a->path, a->columns[0].name, a->source.count, c->name, count, c->name);
    a->source.count = count;
    c->at = array->at;
    c->checked = array->checked;
    c->crc = array->crc;
    c->crc_at = array->crc_at;
    if (c->file->backend->map && !array->compressed) {
        const uint8_t *base = leat_io_map(c->file, error);
        if (!base && c->file->size)
            return LEAT_E_IO;
        c->base = base + c->at;
    }
    const bool aligned = c->base && (uintptr_t)c->base % leat_dtype_size(f->dtype) == 0;
    a->storage[k] = c->turned ? LEAT_STORAGE_COMPUTED : aligned ? LEAT_STORAGE_MAPPED : LEAT_STORAGE_EXTENT;
    return LEAT_OK;
}

/* Adds array i of the file as a field. */
static int add(struct leat_arrays *a, const struct leat_arrays_in *in, size_t i, const char *name,
               const struct leat_field *wish, struct leat_arrays_kept *kept, struct leat_error *error)
{
    const size_t k = a->source.n_fields;
    struct leat_found_array array = {0};
    if (k == LEAT_ARRAYS_MOST)
        return leat_fail_at(error, LEAT_E_INVALID, a->path, LEAT_NO_OFFSET,
                            "%s has %zu arrays, and a data set at most %d: choose some with fields=[...]", a->path,
                            in->n, LEAT_ARRAYS_MOST);
    snprintf(a->columns[k].name, sizeof a->columns[k].name, "%s", name);
    a->fields[k].name = a->columns[k].name;
    int rc = in->find(in->user, i, name, wish, kept, &array, error);
    a->columns[k].file = array.file;
    a->source.n_fields++;
    return rc ? rc : place(a, k, &array, wish, error);
}

static int no_array(const struct leat_arrays_in *in, char (*names)[LEAT_FIELD_NAME], const char *wanted,
                    struct leat_error *error)
{
    const struct leat_known there = leat_known_texts(names, in->n);
    return leat_fail_name(error, LEAT_E_INVALID, &there, wanted, "%s has no array \"%s\", which fields names", in->path,
                          wanted);
}

static int add_all(struct leat_arrays *a, const struct leat_arrays_in *in, char (*names)[LEAT_FIELD_NAME],
                   const struct leat_open_options *options, struct leat_arrays_kept *kept, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < in->n && !rc && !options->n_fields; i++) {
        for (size_t k = 0; k < i && k < LEAT_ARRAYS_MOST && !rc; k++)
            if (!strcmp(names[i], names[k]))
                rc = leat_fail(error, LEAT_E_INVALID,
                               "two arrays of %s have the name \"%s\": choose others with fields", in->path, names[i]);
        rc = rc ? rc : add(a, in, i, names[i], NULL, kept, error);
    }
    for (size_t w = 0; w < options->n_fields && !rc; w++) {
        const struct leat_field *wish = &options->fields[w];
        size_t i = 0;
        while (i < in->n && strcmp(names[i], wish->name) != 0)
            i++;
        rc = i < in->n ? add(a, in, i, names[i], wish, kept, error) : no_array(in, names, wish->name, error);
    }
    if (!rc && !a->source.n_fields)
        rc = leat_fail_at(error, LEAT_E_FORMAT, a->path, LEAT_NO_OFFSET, "%s has no arrays", a->path);
    return rc;
}

static int fill(struct leat_arrays *a, const struct leat_arrays_in *in, const struct leat_open_options *options,
                struct leat_error *error)
{
    char(*names)[LEAT_FIELD_NAME] = leat_new_array(in->n + 1, sizeof *names);
    const size_t all = in->n < LEAT_ARRAYS_MOST ? in->n : LEAT_ARRAYS_MOST,
                 most = options->n_fields ? options->n_fields : all;
    a->path = leat_strdup(in->path);
    a->notice = leat_strdup(in->notice);
    a->columns = leat_new_array(most + 1, sizeof *a->columns);
    a->fields = leat_new_array(most + 1, sizeof *a->fields);
    a->storage = leat_new_array(most + 1, 1);
    int rc = names && a->path && a->notice && a->columns && a->fields && a->storage
                 ? leat_wanted_check(options, error)
                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", in->path);
    for (size_t i = 0; i < in->n && !rc; i++) {
        size_t length;
        const char *name = in->name(in->user, i, &length);
        if (!leat_field_name_add(names[i], name, length))
            rc = leat_fail(error, LEAT_E_INVALID, "%s: the name \"%s...\" of an array is longer than %d bytes",
                           in->path, names[i], LEAT_FIELD_NAME - 1);
    }
    struct leat_arrays_kept *kept = NULL;
    if (!rc && !options->verifying) {
        rc = leat_arrays_kept_load(in->file, options->index_dir, &kept, error);
        rc = rc ? rc : add_all(a, in, names, options, kept, error);
    }
    leat_free(names);
    a->source.path = a->path;
    a->source.fields = a->fields;
    a->source.storage = a->storage;
    a->source.metadata = "{}";
    a->source.notice = a->notice;
    rc = rc || options->verifying ? rc : leat_arrays_sum(a, options, kept, error);
    leat_arrays_kept_free(kept);
    return rc;
}

int leat_arrays_open(const struct leat_arrays_in *in, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error)
{
    struct leat_arrays *a = leat_new(struct leat_arrays);
    *out = NULL;
    if (!a)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", in->path);
    a->source.v = in->v;
    a->file = leat_io_retain(in->file);
    const int rc = fill(a, in, options, error);
    if (rc)
        leat_arrays_close(&a->source);
    else
        *out = &a->source;
    return rc;
}
