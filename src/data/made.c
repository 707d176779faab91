/*
 * Data sets that are not files: arrays in memory, and sources that compute their values.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/internal.h"
#include "format/fingerprint.h"
#include "store/layout.h"

struct made {
    struct leat_source source;
    struct leat_store_layout layout; /* the schema, checked and copied */
    uint8_t *storage;
    struct leat_array *arrays; /* NULL: computed */
    leat_compute_fn compute;
    void (*release)(void *user);
    void *user;
};

static void made_close(struct leat_source *source)
{
    struct made *m = (struct made *)source;
    if (m->release)
        m->release(m->user);
    leat_store_layout_destroy(&m->layout);
    leat_free(m->storage);
    leat_free(m->arrays);
    leat_free(m);
}

static int array_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                      const void **rows, size_t *failed, struct leat_error *error)
{
    const struct leat_array *a = &((const struct made *)source)->arrays[field];
    for (size_t i = 0; i < n; i++)
        rows[i] = (const uint8_t *)a->data + (int64_t)samples[i] * a->stride_bytes;
    return LEAT_OK;
}

static int array_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    const struct made *m = (const struct made *)source;
    *data = (uint64_t)m->arrays[field].stride_bytes == m->layout.info[field].unit ? m->arrays[field].data : NULL;
    return LEAT_OK;
}

static int array_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                      uint64_t *got, struct leat_error *error)
{
    const struct made *m = (const struct made *)source;
    const struct leat_array *a = &m->arrays[field];
    *data = (const uint8_t *)a->data + (int64_t)sample * a->stride_bytes;
    *got = (uint64_t)a->stride_bytes == m->layout.info[field].unit ? n : 0;
    return LEAT_OK;
}

static int computed(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                    size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct made *m = (const struct made *)source;
    *failed = n;
    return m->compute(m->user, fields, n_fields, samples, n, out, failed, error);
}

static const struct leat_source_vtable vtable_of_arrays = {
    .name = "arrays", .close = made_close, .rows = array_rows, .column = array_column, .span = array_span};
static const struct leat_source_vtable vtable_of_computed = {
    .name = "source", .close = made_close, .compute = computed};

static struct made *make(const struct leat_field *fields, size_t n_fields, uint64_t count, enum leat_storage storage,
                         struct leat_error *error)
{
    struct made *m = leat_new(struct made);
    if (!m || !(m->storage = leat_alloc(n_fields))) {
        leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    } else if (count > INT64_MAX) {
        leat_fail(error, LEAT_E_RANGE, "a data set has less than 2^63 samples");
    } else if (!leat_store_layout_init(&m->layout, fields, n_fields, error)) {
        memset(m->storage, (int)storage, n_fields);
        m->source = (struct leat_source){.path = "",
                                         .count = count,
                                         .fields = m->layout.fields,
                                         .n_fields = n_fields, /* without those that leat derives from photos */
                                         .storage = m->storage,
                                         .metadata = "{}",
                                         .notice = ""};
        return m;
    }
    if (m)
        made_close(&m->source);
    return NULL;
}

static void sum(struct made *m)
{
    for (uint64_t i = 0; i < m->source.count; i++) {
        uint64_t sample[2] = {0, 0};
        for (size_t f = 0; f < m->source.n_fields; f++) {
            const struct leat_array *a = &m->arrays[f];
            leat_fingerprint_value(
                sample, leat_hash64((const uint8_t *)a->data + (int64_t)i * a->stride_bytes, m->layout.info[f].unit));
        }
        leat_fingerprint_append(m->source.fingerprint, sample);
    }
}

int leat_dataset_from_arrays(const struct leat_field *fields, const struct leat_array *arrays, size_t n_fields,
                             uint64_t count, void (*release)(void *user), void *user, struct leat_dataset **out,
                             struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct made *m = make(fields, n_fields, count, LEAT_STORAGE_MAPPED, error);
    if (!m)
        return error->code;
    m->source.v = &vtable_of_arrays;
    int rc = LEAT_OK;
    for (size_t f = 0; f < n_fields && !rc; f++)
        if (m->layout.info[f].varying)
            rc = leat_fail(error, LEAT_E_INVALID, "field '%s' varies in size: an array has values of one size",
                           fields[f].name);
    if (!rc && !(m->arrays = leat_new_array(n_fields, sizeof *m->arrays)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    if (rc) {
        made_close(&m->source);
        return rc;
    }
    memcpy(m->arrays, arrays, n_fields * sizeof *arrays);
    sum(m);
    rc = leat_dataset_of_source(&m->source, out, error);
    if (!rc) {
        m->release = release;
        m->user = user;
    }
    return rc;
}

int leat_dataset_from_source(const struct leat_field *fields, size_t n_fields, uint64_t count, const char *version,
                             leat_compute_fn compute, void (*release)(void *user), void *user,
                             struct leat_dataset **out, struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct made *m = make(fields, n_fields, count, LEAT_STORAGE_COMPUTED, error);
    if (!m)
        return error->code;
    uint64_t sample[2] = {0, 0};
    leat_fingerprint_value(sample, leat_hash64(version ? version : "", version ? strlen(version) : 0));
    leat_fingerprint_append(m->source.fingerprint, sample);
    m->source.v = &vtable_of_computed;
    m->compute = compute;
    int rc = leat_dataset_of_source(&m->source, out, error);
    if (!rc) {
        m->release = release;
        m->user = user;
    }
    return rc;
}
