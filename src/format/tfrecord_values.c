/*
 * Values of TFRecord files that are computed (tfrecord.h): lists of numbers, and bytes that the user says are an array.
 * What is another thing than the field is breaks its sample only.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/made_values.h"
#include "format/tfrecord.h"
#include "io/guard.h"

/* Where values are made: the same file is opened once, and its bytes go to a buffer that grows. */
struct maker {
    struct leat_tfrecord *t;
    const struct leat_tfrecord_file *of;
    struct leat_io_file *file;
    uint8_t *buffer;
    size_t room;
};

static void end_maker(struct maker *m)
{
    leat_io_release(m->file);
    leat_free(m->buffer);
}

static int read_place(struct maker *m, const struct leat_tfrecord_file *f, const struct leat_place *at,
                      struct leat_error *error)
{
    if (f != m->of) {
        leat_io_release(m->file);
        m->file = NULL;
        m->of = NULL;
        const int rc = leat_their_file_bytes(&f->file, &m->t->all.pace, &m->file, error);
        if (rc)
            return rc;
        m->of = f;
    }
    if (!leat_grow(&m->buffer, &m->room, (size_t)at->length + 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path);
    return leat_io_read(m->file, at->offset, at->length, m->buffer, error);
}

/* Whether a list of n numbers is a value of the field. */
static bool has_room(const struct leat_field *f, uint64_t n)
{
    uint64_t step = 1;
    for (unsigned d = f->shape[0] < 0; d < f->ndim; d++)
        step *= (uint64_t)f->shape[d];
    return f->shape[0] < 0 ? n % step == 0 : n == step;
}

/* Unpacks the numbers of a list, which has so many. */
static int unpack(struct maker *m, size_t field, uint64_t sample, const struct leat_place *at, struct leat_values *out,
                  size_t k, size_t i, struct leat_error *error)
{
    const struct leat_field *f = &m->t->fields[field];
    const size_t each = leat_dtype_size(f->dtype);
    const uint64_t n = leat_tfrecord_count_of(at);
    uint64_t value = 0, done = 0;
    if (!has_room(f, n))
        return leat_tfrecord_fail(m->t, field, sample, at, LEAT_E_DECODE, "the record has another number of values",
                                  error);
    struct leat_tfrecord_list list = leat_tfrecord_list(leat_tfrecord_kind_of(at), m->buffer, (size_t)at->length);
    uint8_t *to = leat_values_room(out, k, i, n * each);
    if (!to)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", m->of->file.path);
    while (done < n && leat_tfrecord_next(&list, &value) == 1)
        memcpy(to + done++ * each, &value, each);
    const uint64_t sum = n == 1 ? value : leat_hash64(to, (size_t)(n * each));
    if (done == n && sum == at->sum)
        return LEAT_OK;
    return leat_tfrecord_fail(m->t, field, sample, at, LEAT_E_CORRUPT,
                              "its bytes are not those that were there when its index was "
                              "made",
                              error);
}

static int make(struct maker *m, size_t field, uint64_t sample, struct leat_values *out, size_t k, size_t i,
                struct leat_error *error)
{
    const struct leat_field *type = &m->t->fields[field];
    const struct leat_tfrecord_file *f = leat_tfrecord_file_of(m->t, sample);
    const char *fault = NULL;
    struct leat_place at;
    uint64_t number;
    int rc = leat_tfrecord_find(m->t, field, sample, &number, &at, error);
    if (!rc && number == UINT64_MAX && leat_made_lacking(type, out, k, i))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path);
    if (rc || number == UINT64_MAX)
        return rc;
    fault = leat_tfrecord_fault(m->t, field, &at);
    if (!fault && leat_tfrecord_kind_of(&at) == LEAT_TFRECORD_BYTES && leat_made_is_longer(type, at.length))
        fault = leat_made_longer;
    if (fault)
        return leat_tfrecord_fail(m->t, field, sample, &at, LEAT_E_DECODE, fault, error);
    if ((rc = read_place(m, f, &at, error)))
        return rc;
    if (leat_tfrecord_kind_of(&at) != LEAT_TFRECORD_BYTES)
        return unpack(m, field, sample, &at, out, k, i, error);
    rc = leat_made_value(type, m->buffer, (size_t)at.length, out, k, i, &fault);
    if (fault)
        return leat_tfrecord_fail(m->t, field, sample, &at, LEAT_E_DECODE, fault, error);
    return rc ? leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path) : LEAT_OK;
}

int leat_tfrecord_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                          size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct maker m = {.t = (struct leat_tfrecord *)source};
    int rc = LEAT_OK;
    size_t i = 0;
    for (; i < n && !rc; i += !rc) {
        if (leat_values_cancelled(out))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled");
        else if (!i || leat_tfrecord_file_of(m.t, samples[i]) != m.of)
            rc = leat_their_file_check(&leat_tfrecord_file_of(m.t, samples[i])->file, error);
        for (size_t k = 0; k < n_fields && !rc; k++)
            rc = make(&m, fields[k], samples[i], out, k, i, error);
    }
    *failed = i;
    end_maker(&m);
    return rc;
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

/* The checksum of a value that a pack would have. One that cannot be made counts as nothing, as it is of no pack. */
static int sum_value(struct maker *m, size_t field, uint64_t sample, uint64_t *sum, struct leat_error *error)
{
    const struct leat_field *f = &m->t->fields[field];
    struct leat_values values;
    struct leat_place at;
    uint64_t number;
    const void *row;
    int rc;
    *sum = 0;
    if (m->t->storage[field] == LEAT_STORAGE_MAPPED) {
        rc = leat_tfrecord_number(m->t, field, sample, &row, error);
        uint64_t value = 0;
        const size_t each = leat_dtype_size(f->dtype);
        rc = rc ? rc : leat_guarded_copy(&value, row, each, error);
        *sum = rc ? 0 : leat_hash64(&value, each);
        return rc == LEAT_E_DECODE ? LEAT_OK : rc;
    }
    rc = leat_tfrecord_find(m->t, field, sample, &number, &at, error);
    const bool found = !rc && number != UINT64_MAX, faulty = found && leat_tfrecord_fault(m->t, field, &at);
    if (m->t->storage[field] == LEAT_STORAGE_EXTENT && !rc && !found)
        *sum = f->kind == LEAT_KIND_JSON ? leat_hash64("null", 4) : leat_hash64("", 0);
    else if (m->t->storage[field] == LEAT_STORAGE_EXTENT && !faulty)
        *sum = at.sum;
    if (rc || faulty || m->t->storage[field] == LEAT_STORAGE_EXTENT)
        return rc;
    if (found && leat_tfrecord_kind_of(&at) != LEAT_TFRECORD_BYTES) { /* the index has the hash of its numbers */
        const uint64_t n = leat_tfrecord_count_of(&at);
        *sum = !has_room(f, n) ? 0 : n == 1 ? leat_hash64(&at.sum, leat_dtype_size(f->dtype)) : at.sum;
        return rc;
    }
    if (leat_values_init(&values, 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", m->t->source.path);
    rc = make(m, field, sample, &values, 0, 0, error);
    if (!rc)
        *sum = leat_hash64(values.at[0].data, (size_t)values.at[0].bytes);
    leat_values_destroy(&values);
    return rc == LEAT_E_DECODE ? LEAT_OK : rc;
}

int leat_tfrecord_sum(struct leat_tfrecord *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct maker m = {.t = t};
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < t->source.count && !rc; i++) {
        uint64_t sample[2] = {0, 0}, sum;
        for (size_t k = 0; k < t->source.n_fields && !rc; k++) {
            if (t->fields[k].flags & LEAT_FIELD_DERIVED)
                continue;
            rc = sum_value(&m, k, i, &sum, error);
            leat_fingerprint_value(sample, sum);
        }
        leat_fingerprint_append(t->source.fingerprint, sample);
        if (!rc && options->progress && i % 65536 == 65535 && options->progress(options->user, i, t->source.count))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", t->source.path);
    }
    end_maker(&m);
    return rc;
}
