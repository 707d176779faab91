/*
 * Data sets whose samples are lent to them: values in memory of the caller, which takes them back (leat/apply.h). A
 * value is a file in memory, so that it goes the way of the photos of a folder.
 */
#include "leat/apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/good_photos.h"
#include "data/internal.h"
#include "store/layout.h"
#include "store/text.h"

struct lent {
    struct leat_source source;
    struct leat_store_layout layout; /* the schema, checked and copied */
    uint8_t *storage;
    struct leat_value_ref *values; /* [n_fields][n] */
    uint64_t n, longest;           /* bytes of the values of a sample */
};

static void lent_close(struct leat_source *source)
{
    struct lent *l = (struct lent *)source;
    leat_store_layout_destroy(&l->layout);
    leat_free(l->storage);
    leat_free(l->values);
    leat_free(l);
}

static const struct leat_value_ref *value_of(const struct leat_source *source, size_t field, uint64_t sample)
{
    const struct lent *l = (const struct lent *)source;
    return &l->values[field * l->n + sample];
}

static int extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, struct leat_extent *out,
                   size_t *failed, struct leat_error *error)
{
    const struct lent *l = (const struct lent *)source;
    for (size_t i = 0; i < n; i++) {
        if (samples[i] >= l->n) {
            *failed = i;
            return leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " samples are lent", l->n);
        }
        const struct leat_value_ref *value = value_of(source, field, samples[i]);
        out[i] = (struct leat_extent){.file = field * l->n + samples[i], .length = value->length};
        if (leat_codec_of(source->fields[field].kind))
            leat_good_photos_describe(leat_hash64(value->data, value->length), &out[i].info);
    }
    return LEAT_OK;
}

static int file(struct leat_source *source, uint64_t number, struct leat_io_file **out, struct leat_error *error)
{
    const struct lent *l = (const struct lent *)source;
    if (number < l->n * source->n_fields)
        return leat_io_from_memory("", l->values[number].data, l->values[number].length, out, error);
    *out = NULL;
    return leat_fail(error, LEAT_E_RANGE, "the samples are no longer lent");
}

static void mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health) {}

static void keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                 const uint8_t *rows, size_t length)
{
    leat_good_photos_add(leat_hash64(photo, photo_bytes), rows, length);
}

static const struct leat_source_vtable vtable = {
    .name = "lent", .close = lent_close, .extents = extents, .file = file, .mark = mark, .keep = keep};

int leat_dataset_lent(const struct leat_field *fields, size_t n_fields, struct leat_dataset **out,
                      struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct lent *l = leat_new(struct lent);
    if (!l)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    if (!(l->storage = leat_alloc(n_fields)))
        leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    else if (!leat_store_layout_init(&l->layout, fields, n_fields, error)) {
        memset(l->storage, LEAT_STORAGE_EXTENT, n_fields);
        l->source = (struct leat_source){.v = &vtable,
                                         .path = "",
                                         .count = LEAT_MOST_LENT,
                                         .fields = l->layout.fields,
                                         .n_fields = n_fields,
                                         .storage = l->storage,
                                         .metadata = "{}",
                                         .notice = ""};
        return leat_dataset_of_source(&l->source, out, error);
    }
    lent_close(&l->source);
    return error->code;
}

static struct lent *lent_of(const struct leat_dataset *d, struct leat_error *error)
{
    const struct leat_base *base = d->base;
    if (base->n_owned == 1 && base->owned[0]->v == &vtable)
        return (struct lent *)base->owned[0];
    leat_fail(error, LEAT_E_INVALID, "this is no data set that samples are lent to: leat_dataset_lent makes one");
    return NULL;
}

static int check(const struct lent *l, size_t f, const struct leat_value_ref *value, struct leat_error *error)
{
    const struct leat_field *field = &l->layout.fields[f];
    const uint64_t unit = l->layout.info[f].unit;
    size_t bad;
    if (value->path)
        return leat_fail(error, LEAT_E_INVALID, "field '%s': values that are lent lie in memory, not in a file",
                         field->name);
    if (field->kind == LEAT_KIND_ARRAY && (l->layout.info[f].varying ? value->length % unit : value->length - unit))
        return leat_fail(error, LEAT_E_INVALID,
                         "field '%s': a value of %" PRIu64 " bytes is lent, where %s%" PRIu64 " are wanted",
                         field->name, value->length, l->layout.info[f].varying ? "a multiple of " : "", unit);
    if (!leat_text_fits(field->kind, value->data, (size_t)value->length, &bad))
        return leat_fail(error, LEAT_E_INVALID, "field '%s': the value is not %s from its byte %zu on", field->name,
                         leat_text_kind(field->kind), bad);
    return LEAT_OK;
}

int leat_dataset_lend(struct leat_dataset *d, const struct leat_value_ref *values, uint64_t n, struct leat_error *error)
{
    struct lent *l = lent_of(d, error);
    if (!l)
        return LEAT_E_INVALID;
    leat_free(l->values);
    l->values = NULL;
    l->n = l->longest = 0;
    if (n > LEAT_MOST_LENT)
        return leat_fail(error, LEAT_E_RANGE, "%" PRIu64 " samples are more than can be lent at a time", n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bytes = 0;
        for (size_t f = 0; f < l->source.n_fields; f++) {
            int rc = check(l, f, &values[f * n + i], error);
            if (rc) {
                leat_error_at_sample(error, (int64_t)i, l->layout.fields[f].name);
                return rc;
            }
            bytes += values[f * n + i].length;
        }
        l->longest = bytes > l->longest ? bytes : l->longest;
    }
    if (n && !(l->values = leat_new_array(n * l->source.n_fields, sizeof *values)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to note %" PRIu64 " samples", n);
    if (n)
        memcpy(l->values, values, n * l->source.n_fields * sizeof *values);
    l->n = n;
    return LEAT_OK;
}

bool leat_dataset_is_lent(const struct leat_dataset *d)
{
    return lent_of(d, NULL) != NULL;
}

int leat_dataset_lent_now(const struct leat_dataset *d, uint64_t *n, uint64_t *longest, struct leat_error *error)
{
    const struct lent *l = lent_of(d, error);
    *n = l ? l->n : 0;
    *longest = l ? l->longest : 0;
    return l ? LEAT_OK : LEAT_E_INVALID;
}
