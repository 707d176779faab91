/*
 * Many values of varying size at once, for a query. A local file is mapped, and its values are copied from there, each
 * within leat_guarded; any other is read value by value. Checksums are compared as everywhere.
 */
#include "data/texts.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"

/* Reads the bytes of one extent. `*open`: the file of the extent before it. */
static int read_one(const struct leat_fetch *fetch, struct leat_io_file **open, const struct leat_source **of,
                    uint64_t *number, struct leat_error *error)
{
    struct leat_source *source = fetch->ref.source;
    const struct leat_extent *e = &fetch->extent;
    if (!*open || *of != source || *number != e->file) {
        leat_io_release(*open);
        *open = NULL;
        int rc = source->v->file(source, e->file, open, error);
        if (rc)
            return rc;
        *of = source;
        *number = e->file;
    }
    const uint8_t *map = (*open)->backend->map ? leat_io_map(*open, NULL) : NULL;
    if (map && e->offset <= (*open)->size && e->length <= (*open)->size - e->offset)
        return leat_guarded_copy(fetch->buffer, map + e->offset, (size_t)e->length, error);
    return leat_io_read(*open, e->offset, e->length, fetch->buffer, error);
}

static int read_extents(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *refs, size_t n,
                        struct leat_texts *t, struct leat_error *error)
{
    struct leat_extent extents[LEAT_TEXTS];
    struct leat_io_file *open = NULL;
    const struct leat_source *of = NULL;
    uint64_t number = 0, bytes = 0;
    size_t failed;
    int rc = leat_dataset_extents(d, field, refs, n, extents, &failed, error);
    for (size_t i = 0; i < n && !rc; i++)
        if (!leat_add_u64(bytes, extents[i].length, &bytes) || bytes > SIZE_MAX / 2)
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for %zu values", n);
    if (!rc && bytes + 1 > t->room) {
        leat_free(t->memory);
        t->room = 0;
        t->memory = leat_alloc((size_t)bytes + 1);
        if (t->memory)
            t->room = bytes + 1;
        else
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " bytes of values", bytes);
    }
    bytes = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_fetch fetch = {.ref = refs[i], .field = field, .extent = extents[i], .buffer = t->memory + bytes};
        leat_ref_resolve(&fetch.ref, &fetch.field);
        if ((rc = read_one(&fetch, &open, &of, &number, error)))
            leat_error_at_sample(error, refs[i].id, d->base->fields[field].name);
        else
            rc = leat_fetch_check(&fetch, error);
        t->at[i] = fetch.buffer;
        t->length[i] = extents[i].length;
        bytes += extents[i].length;
    }
    leat_io_release(open);
    return rc;
}

static int compute(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *refs, size_t n,
                   struct leat_texts *t, struct leat_error *error)
{
    size_t failed;
    if (t->computed)
        leat_values_destroy(&t->values);
    t->computed = !leat_values_init(&t->values, 1, n);
    if (!t->computed)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %zu values", n);
    t->values.may_lack = t->may_lack;
    int rc = leat_dataset_compute(d, &field, 1, refs, n, &t->values, &failed, error);
    for (size_t i = 0; i < n && !rc; i++) {
        t->lacking[i] = t->values.at[i].lacking;
        t->at[i] = t->values.at[i].data;
        t->length[i] = t->values.at[i].bytes;
    }
    return rc;
}

int leat_texts_read(const struct leat_dataset *d, size_t field, const uint64_t *positions, size_t n,
                    struct leat_texts *t, struct leat_error *error)
{
    struct leat_sample_ref refs[LEAT_TEXTS];
    leat_dataset_locate(d, positions, n, refs);
    const enum leat_storage storage = leat_ref_storage(&refs[0], field);
    size_t same = 1;
    while (same < n && leat_ref_storage(&refs[same], field) == storage)
        same++;
    t->n = same;
    memset(t->lacking, 0, sizeof t->lacking);
    return (storage == LEAT_STORAGE_COMPUTED ? compute : read_extents)(d, field, refs, same, t, error);
}

void leat_texts_destroy(struct leat_texts *t)
{
    if (t->computed)
        leat_values_destroy(&t->values);
    leat_free(t->memory);
    memset(t, 0, sizeof *t);
}
