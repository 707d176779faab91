/*
 * Data sets that are not files: arrays in memory, and sources that compute their values.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/chunks.h"
#include "data/internal.h"
#include "format/fingerprint.h"
#include "store/layout.h"
#include "store/text.h"

struct made {
    struct leat_source source;
    struct leat_store_layout layout; /* the schema, checked and copied */
    uint8_t *storage;
    struct leat_array *arrays; /* NULL: computed */
    const char **classes;      /* with their texts behind them; NULL: none */
    bool *lacks;               /* of each field; NULL: none */
    leat_compute_fn compute;
    leat_length_fn length;      /* NULL: lengths are not known before their values */
    struct leat_chunks *chunks; /* NULL: all is computed sample by sample */
    size_t asks_many;
    void (*release)(void *user);
    void *user;
};

static void made_close(struct leat_source *source)
{
    struct made *m = (struct made *)source;
    leat_chunks_free(m->chunks);
    if (m->release)
        m->release(m->user);
    leat_store_layout_destroy(&m->layout);
    leat_free(m->storage);
    leat_free(m->arrays);
    leat_free(m->classes);
    leat_free(m->lacks);
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
    const bool dense = !a->offsets && (uint64_t)a->stride_bytes == m->layout.info[field].unit;
    *got = dense ? n : 0;
    return LEAT_OK;
}

/* Begin and end of value `i` of a field that varies, in steps. */
static void bounds(const struct leat_array *a, uint64_t i, int64_t at[2])
{
    for (unsigned k = 0; k < 2; k++)
        at[k] = a->offset_bytes == 4 ? ((const int32_t *)a->offsets)[i + k] : ((const int64_t *)a->offsets)[i + k];
}

static const uint8_t *varying_value(const struct made *m, size_t field, uint64_t i, uint64_t *bytes)
{
    int64_t at[2];
    bounds(&m->arrays[field], i, at);
    *bytes = (uint64_t)(at[1] - at[0]) * m->layout.info[field].unit;
    return (const uint8_t *)m->arrays[field].data + (uint64_t)at[0] * m->layout.info[field].unit;
}

static int array_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                         size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct made *m = (const struct made *)source;
    for (size_t f = 0; f < n_fields; f++)
        for (size_t i = 0; i < n; i++) {
            uint64_t bytes;
            const uint8_t *value = varying_value(m, fields[f], samples[i], &bytes);
            *failed = n;
            if (leat_values_put(out, f, i, value, bytes))
                return leat_fail(error, LEAT_E_NOMEM, "no memory for values of %" PRIu64 " bytes", bytes);
        }
    return LEAT_OK;
}

static uint64_t array_length(struct leat_source *source, size_t field, uint64_t sample)
{
    uint64_t bytes;
    varying_value((const struct made *)source, field, sample, &bytes);
    return bytes;
}

static const uint8_t *array_in_memory(const struct leat_source *source, size_t field, uint64_t sample, uint64_t *bytes)
{
    return varying_value((const struct made *)source, field, sample, bytes);
}

static int computed(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                    size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    const struct made *m = (const struct made *)source;
    *failed = n;
    if (m->chunks)
        return leat_chunks_compute(m->chunks, fields, n_fields, samples, n, out, failed, error);
    return m->compute(m->user, fields, n_fields, samples, n, out, failed, error);
}

static uint64_t computed_length(struct leat_source *source, size_t field, uint64_t sample)
{
    const struct made *m = (const struct made *)source;
    return m->length ? m->length(m->user, field, sample) : UINT64_MAX;
}

static const struct leat_source_vtable vtable_of_arrays = {.name = "arrays",
                                                           .close = made_close,
                                                           .rows = array_rows,
                                                           .column = array_column,
                                                           .compute = array_compute,
                                                           .length = array_length,
                                                           .in_memory = array_in_memory,
                                                           .span = array_span};
static size_t asks_many(const struct leat_source *source)
{
    const struct made *m = (const struct made *)source;
    return m->chunks ? leat_chunks_ask_many(m->chunks) : m->asks_many;
}

static const struct leat_source_vtable vtable_of_computed = {
    .name = "source", .close = made_close, .compute = computed, .length = computed_length, .asks_many = asks_many};

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

static uint64_t hash_value(const struct made *m, size_t f, uint64_t i)
{
    const struct leat_array *a = &m->arrays[f];
    uint64_t bytes = m->layout.info[f].unit;
    const uint8_t *value = m->layout.info[f].varying ? varying_value(m, f, i, &bytes)
                                                     : (const uint8_t *)a->data + (int64_t)i * a->stride_bytes;
    return leat_hash64(value, bytes);
}

static void sum(struct made *m)
{
    for (uint64_t i = 0; i < m->source.count; i++) {
        uint64_t sample[2] = {0, 0};
        for (size_t f = 0; f < m->source.n_fields; f++)
            leat_fingerprint_value(sample, hash_value(m, f, i));
        leat_fingerprint_append(m->source.fingerprint, sample);
    }
}

static void name_version(struct made *m, const char *version)
{
    uint64_t sample[2] = {0, 0};
    leat_fingerprint_value(sample, leat_hash64(version, strlen(version)));
    leat_fingerprint_append(m->source.fingerprint, sample);
}

static int check_offsets(const struct made *m, size_t f, struct leat_error *error)
{
    const struct leat_array *a = &m->arrays[f];
    const char *name = m->layout.fields[f].name;
    int64_t before = 0, at[2];
    if (!a->offsets || (a->offset_bytes != 4 && a->offset_bytes != 8))
        return leat_fail(error, LEAT_E_INVALID, "field '%s' varies in size: its array needs offsets", name);
    for (uint64_t i = 0; i < m->source.count; i++) {
        bounds(a, i, at);
        if (at[0] < before || at[1] < at[0] || at[1] > INT64_MAX / (int64_t)m->layout.info[f].unit)
            return leat_fail(error, LEAT_E_INVALID,
                             "field '%s': the offsets of value %" PRIu64 " are %" PRId64 " and %" PRId64
                             ": they may not descend or be negative",
                             name, i, at[0], at[1]);
        before = at[1];
    }
    return LEAT_OK;
}

static int check_text(const struct made *m, size_t f, struct leat_error *error)
{
    for (uint64_t i = 0; i < m->source.count; i++) {
        uint64_t bytes;
        const uint8_t *value = varying_value(m, f, i, &bytes);
        const enum leat_kind kind = m->layout.fields[f].kind;
        size_t bad;
        if (!leat_text_fits(kind, value, bytes, &bad))
            return leat_fail(error, LEAT_E_INVALID, "field '%s', sample %" PRIu64 ", byte %zu: this is no %s",
                             m->layout.fields[f].name, i, bad, leat_text_kind(kind));
    }
    return LEAT_OK;
}

static int finish(struct made *m, void (*release)(void *user), void *user, struct leat_dataset **out,
                  struct leat_error *error)
{
    int rc = leat_dataset_of_source(&m->source, out, error);
    if (!rc) {
        m->release = release;
        m->user = user;
    }
    return rc;
}

int leat_dataset_from_arrays(const struct leat_field *fields, const struct leat_array *arrays, size_t n_fields,
                             uint64_t count, const char *version, void (*release)(void *user), void *user,
                             struct leat_dataset **out, struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct made *m = make(fields, n_fields, count, LEAT_STORAGE_MAPPED, error);
    if (!m)
        return error->code;
    m->source.v = &vtable_of_arrays;
    int rc = LEAT_OK;
    if (!(m->arrays = leat_new_array(n_fields, sizeof *m->arrays)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    else
        memcpy(m->arrays, arrays, n_fields * sizeof *arrays);
    for (size_t f = 0; f < n_fields && !rc; f++) {
        if (!m->layout.info[f].varying)
            continue;
        m->storage[f] = LEAT_STORAGE_COMPUTED;
        rc = check_offsets(m, f, error);
        if (!rc && !version && (fields[f].kind == LEAT_KIND_STR || fields[f].kind == LEAT_KIND_JSON))
            rc = check_text(m, f, error);
    }
    if (rc) {
        made_close(&m->source);
        return rc;
    }
    if (version)
        name_version(m, version);
    else
        sum(m);
    return finish(m, release, user, out, error);
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
    name_version(m, version ? version : "");
    m->source.v = &vtable_of_computed;
    m->compute = compute;
    return finish(m, release, user, out, error);
}

int leat_dataset_from_chunks(const struct leat_field *fields, size_t n_fields, const uint64_t *rows, uint64_t n_chunks,
                             const char *version, leat_decode_fn decode, leat_compute_fn compute,
                             void (*release)(void *user), void *user, struct leat_dataset **out,
                             struct leat_error *error)
{
    struct leat_error unused;
    error = error ? error : &unused;
    *out = NULL;
    struct made *m = make(fields, n_fields, 0, LEAT_STORAGE_COMPUTED, error);
    if (!m)
        return error->code;
    const int rc = leat_chunks_new(&m->layout, n_fields, rows, n_chunks, decode, compute, user, &m->chunks, error);
    if (rc) {
        made_close(&m->source);
        return rc;
    }
    m->source.count = leat_chunks_count(m->chunks);
    name_version(m, version ? version : "");
    m->source.v = &vtable_of_computed;
    m->compute = compute;
    return finish(m, release, user, out, error);
}

/* ---- more about one -------------------------------------------------------------------------- */

static int find_made(const struct leat_dataset *d, struct made **out, struct leat_error *error)
{
    const struct leat_base *base = d->base;
    const struct leat_source_vtable *v = base->n_owned == 1 ? base->owned[0]->v : NULL;
    *out = v == &vtable_of_arrays || v == &vtable_of_computed ? (struct made *)base->owned[0] : NULL;
    return *out ? LEAT_OK : leat_fail(error, LEAT_E_INVALID, "this is no data set of arrays or of a source");
}

int leat_dataset_know_lengths(struct leat_dataset *d, leat_length_fn length, struct leat_error *error)
{
    struct made *m;
    const int rc = find_made(d, &m, error);
    if (!rc)
        m->length = length;
    return rc;
}

int leat_dataset_name_classes(struct leat_dataset *d, const char *const *names, size_t n, struct leat_error *error)
{
    struct made *m;
    size_t bytes = 0;
    int rc = find_made(d, &m, error);
    if (rc || !n)
        return rc;
    if (m->classes)
        return leat_fail(error, LEAT_E_INVALID, "the classes of this data set have names");
    for (size_t i = 0; i < n; i++)
        bytes += strlen(names[i]) + 1;
    if (n > SIZE_MAX / 2 / sizeof *names || !(m->classes = leat_alloc(n * sizeof *names + bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for %zu names of classes", n);
    char *to = (char *)&m->classes[n];
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(names[i]) + 1;
        m->classes[i] = memcpy(to, names[i], length);
        to += length;
    }
    m->source.classes = d->base->classes = m->classes;
    m->source.n_classes = d->base->n_classes = n;
    m->source.classes_apart = d->base->classes_apart = true;
    return LEAT_OK;
}

int leat_dataset_may_lack(struct leat_dataset *d, const size_t *fields, size_t n, struct leat_error *error)
{
    struct made *m;
    int rc = find_made(d, &m, error);
    if (rc || !n)
        return rc;
    if (m->lacks || !m->compute)
        return leat_fail(error, LEAT_E_INVALID, "which values may be missing is said once, and of a source");
    for (size_t i = 0; i < n; i++)
        if (fields[i] >= m->source.n_fields)
            return leat_fail(error, LEAT_E_INVALID, "there is no field %zu", fields[i]);
    if (!(m->lacks = leat_new_array(m->source.n_fields, sizeof *m->lacks)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set");
    for (size_t i = 0; i < n; i++)
        m->lacks[fields[i]] = true;
    m->source.lacks = m->lacks;
    return LEAT_OK;
}

int leat_dataset_ask_many(struct leat_dataset *d, struct leat_error *error)
{
    struct made *m;
    const int rc = find_made(d, &m, error);
    if (!rc && (!m->compute || m->chunks))
        return leat_fail(error, LEAT_E_INVALID, "this is no data set of a source that computes its samples");
    if (!rc)
        m->asks_many = LEAT_ASKED_OF_CALLS;
    return rc;
}
