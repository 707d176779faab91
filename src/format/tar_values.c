/*
 * Values of tars that are made from the bytes of a file (tar.h): arrays of .npy files, numbers in text, and bytes that
 * the user says are an array. What is another thing than the field is breaks its sample only.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/made_values.h"
#include "format/tar.h"

/* A larger file is no array of one sample. */
#define LARGEST (UINT64_C(1) << 32)

/* Where values are made: the same file is opened once, and its bytes go to a buffer that grows. */
struct maker {
    struct leat_tar *tar;
    const struct leat_tar_file *of;
    struct leat_io_file *file;
    uint8_t *buffer;
    size_t room;
};

static int make(struct maker *m, size_t field, uint64_t sample, struct leat_values *out, size_t k, size_t i,
                struct leat_error *error)
{
    const struct leat_tar_file *f = leat_tar_file_of(m->tar, sample);
    const struct leat_field *type = &m->tar->fields[field];
    struct leat_tar_member member;
    const char *fault = NULL;
    bool found;
    int rc = leat_tar_find(m->tar, field, sample, &found, &member, error);
    if (!rc && !found && leat_made_lacking(type, out, k, i))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path);
    if (rc || !found)
        return rc;
    const uint64_t n = leat_tar_bytes(&member);
    fault = n > LARGEST ? "it has more than 4 GiB" : leat_made_is_longer(type, n) ? leat_made_longer : NULL;
    if (fault)
        return leat_tar_fail(m->tar, field, sample, &member, LEAT_E_DECODE, fault, error);
    if (f != m->of) {
        leat_io_release(m->file);
        m->file = NULL;
        m->of = f;
        if ((rc = leat_their_file_bytes(&f->file, &m->tar->all.pace, &m->file, error)))
            return rc;
    }
    if (!leat_grow(&m->buffer, &m->room, (size_t)n + 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path);
    rc = leat_io_read(m->file, leat_tar_at(&member), n, m->buffer, error);
    if (rc)
        return rc;
    rc = leat_made_value(type, m->buffer, (size_t)n, out, k, i, &fault);
    if (fault)
        return leat_tar_fail(m->tar, field, sample, &member, LEAT_E_DECODE, fault, error);
    return rc ? leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path) : LEAT_OK;
}

static void end_maker(struct maker *m)
{
    leat_io_release(m->file);
    leat_free(m->buffer);
}

int leat_tar_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                     size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct maker m = {.tar = (struct leat_tar *)source};
    int rc = LEAT_OK;
    size_t i = 0;
    for (; i < n && !rc; i += !rc) {
        if (leat_values_cancelled(out))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled");
        else if (!i || leat_tar_file_of(m.tar, samples[i]) != m.of)
            rc = leat_their_file_check(&leat_tar_file_of(m.tar, samples[i])->file, error);
        for (size_t k = 0; k < n_fields && !rc; k++)
            rc = make(&m, fields[k], samples[i], out, k, i, error);
    }
    *failed = i;
    end_maker(&m);
    return rc;
}

/* ---- the fingerprint ------------------------------------------------------------------------- */

/* The checksum of an array: the index has those of .npy files whose values stand in them as they are delivered. Others
 * are made. One that cannot be made counts as nothing, as it is of no pack. */
static int sum_array(struct maker *m, size_t field, uint64_t sample, uint64_t *sum, struct leat_error *error)
{
    struct leat_tar_member member;
    struct leat_values values;
    const struct leat_tar_file *f = leat_tar_file_of(m->tar, sample);
    bool found;
    int rc = leat_tar_find(m->tar, field, sample, &found, &member, error);
    if (rc)
        return rc;
    const unsigned form = found ? leat_tar_form_of(&member) : LEAT_TAR_OPAQUE;
    *sum = 0;
    if (found && m->tar->storage[field] == LEAT_STORAGE_MAPPED) {
        *sum = form == LEAT_TAR_INTEGER ? leat_hash64(&member.number, 8) : 0;
        return LEAT_OK;
    }
    if (form >= LEAT_TAR_ARRAY && form - LEAT_TAR_ARRAY < f->index.n_shapes &&
        !f->index.shapes[form - LEAT_TAR_ARRAY].order) {
        *sum = (uint64_t)member.number;
        return LEAT_OK;
    }
    if (leat_values_init(&values, 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", f->file.path);
    rc = make(m, field, sample, &values, 0, 0, error);
    if (!rc)
        *sum = leat_hash64(values.at[0].data, (size_t)values.at[0].bytes);
    leat_values_destroy(&values);
    return rc == LEAT_E_DECODE ? LEAT_OK : rc;
}

static int sum_sample(struct maker *m, uint64_t i, uint64_t sample[2], struct leat_error *error)
{
    struct leat_tar *t = m->tar;
    const struct leat_tar_file *f = leat_tar_file_of(t, i);
    struct leat_tar_sample at[1];
    struct leat_tar_member member;
    bool found;
    int rc = leat_tar_index_sample(&f->index, i - f->file.first, at, error);
    for (size_t k = 0; k < t->source.n_fields && !rc; k++) {
        uint64_t sum = 0;
        if (t->fields[k].flags & LEAT_FIELD_DERIVED)
            continue;
        if (t->fields[k].kind == LEAT_KIND_ARRAY) {
            rc = sum_array(m, k, i, &sum, error);
            leat_fingerprint_value(sample, sum);
        } else if (!(rc = leat_tar_find(t, k, i, &found, &member, error))) {
            const uint64_t none = t->fields[k].kind == LEAT_KIND_JSON ? 4 : 0;
            leat_fingerprint_file(sample, f->index.keys + at->key, found ? leat_tar_bytes(&member) : none);
        }
    }
    return rc;
}

int leat_tar_sum(struct leat_tar *t, const struct leat_open_options *options, struct leat_error *error)
{
    struct maker m = {.tar = t};
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < t->source.count && !rc; i++) {
        uint64_t sample[2] = {0, 0};
        rc = sum_sample(&m, i, sample, error);
        leat_fingerprint_append(t->source.fingerprint, sample);
        if (!rc && options->progress && i % 65536 == 65535 && options->progress(options->user, i, t->source.count))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", t->source.path);
    }
    end_maker(&m);
    return rc;
}
