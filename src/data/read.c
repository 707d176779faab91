/*
 * From positions to bytes: the place of a sample, and the reading of its values. Each error names its sample.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"
#include "codec/codec.h"
#include "data/dataset.h"
#include "data/good_photos.h"
#include "data/internal.h"
#include "io/guard.h"
#include "store/text.h"

/* ---- locating -------------------------------------------------------------------------------- */

size_t leat_base_part_of(const struct leat_base *base, uint64_t id)
{
    return LEAT_BISECT(i, 1, base->n_parts, base->parts[i].first_id <= id) - 1;
}

void leat_dataset_locate(const struct leat_dataset *d, const uint64_t *positions, size_t n,
                         struct leat_sample_ref *refs)
{
    const struct leat_base *base = d->base;
    if (!d->selected && base->n_parts == 1 && base->parts[0].first_id == 0) {
        struct leat_source *source = base->parts[0].source;
        for (size_t i = 0; i < n; i++)
            refs[i] = (struct leat_sample_ref){source, positions[i], (int64_t)positions[i]};
        return;
    }
    const struct leat_base_part *part = &base->parts[0];
    for (size_t i = 0; i < n; i++) {
        uint64_t id = (uint64_t)leat_dataset_id(d, positions[i]);
        if (id < part->first_id || id - part->first_id >= part->source->count) /* neighbours mostly lie in one part */
            part = &base->parts[leat_base_part_of(base, id)];
        refs[i] = (struct leat_sample_ref){part->source, id - part->first_id, (int64_t)id};
    }
}

/* To the sample behind a reference, once. False: there is none. */
static bool step_behind(struct leat_sample_ref *ref, size_t *field)
{
    const int64_t id = ref->id;
    uint64_t sample = ref->sample;
    if (ref->source->storage[*field])
        return false;
    const struct leat_dataset *d = ref->source->v->behind(ref->source, field, &sample);
    leat_dataset_locate(d, &sample, 1, ref);
    ref->id = id;
    return true;
}

void leat_ref_resolve(struct leat_sample_ref *ref, size_t *field)
{
    while (step_behind(ref, field))
        ;
}

uint64_t leat_ref_length(const struct leat_sample_ref *ref, size_t field)
{
    struct leat_sample_ref found = *ref;
    uint64_t length;
    do
        length = found.source->v->length ? found.source->v->length(found.source, field, found.sample) : UINT64_MAX;
    while (length == UINT64_MAX && step_behind(&found, &field));
    return length;
}

unsigned leat_dataset_storages(const struct leat_dataset *d, size_t field)
{
    unsigned set = 0;
    for (size_t i = 0; i < d->base->n_parts; i++) {
        const struct leat_source *source = d->base->parts[i].source;
        size_t of = field;
        const struct leat_dataset *behind = source->storage[of] ? NULL : source->v->behind(source, &of, NULL);
        set |= behind ? leat_dataset_storages(behind, of) : 1u << source->storage[of];
    }
    return set;
}

bool leat_dataset_lacks(const struct leat_dataset *d, size_t field)
{
    for (size_t i = 0; i < d->base->n_parts; i++) {
        const struct leat_source *source = d->base->parts[i].source;
        size_t of = field;
        const struct leat_dataset *behind = source->storage[of] ? NULL : source->v->behind(source, &of, NULL);
        if (behind ? leat_dataset_lacks(behind, of) : source->lacks && source->lacks[of])
            return true;
    }
    return false;
}

bool leat_dataset_looks_up(const struct leat_dataset *d)
{
    for (size_t i = 0; i < d->base->n_parts; i++)
        if (d->base->parts[i].source->looks_up)
            return true;
    return false;
}

/* ---- many values ----------------------------------------------------------------------------- */

enum { CHUNK = 256 };

static bool is_fixed(const struct leat_field *field)
{
    return field->kind == LEAT_KIND_ARRAY && (field->ndim == 0 || field->shape[0] >= 0);
}

/* Bytes of a value of fixed size, or of one step of the first dimension of a varying one. The schema was validated
 * when it was read, but its sizes come from a file. */
int leat_field_row_bytes(const struct leat_field *field, uint64_t *bytes, struct leat_error *error)
{
    *bytes = leat_dtype_size(field->dtype);
    for (unsigned d = is_fixed(field) ? 0 : 1; d < field->ndim; d++)
        if (field->shape[d] < 0 || !leat_mul_u64(*bytes, (uint64_t)field->shape[d], bytes))
            return leat_fail(error, LEAT_E_CORRUPT, "field \"%s\" has an impossible shape", field->name);
    return *bytes || !field->ndim || is_fixed(field)
               ? LEAT_OK
               : leat_fail(error, LEAT_E_CORRUPT, "field \"%s\" has an impossible shape", field->name);
}

/* The next references that share a source, at most CHUNK of them, with their samples in one array. */
static size_t same_source(const struct leat_sample_ref *refs, size_t n, uint64_t samples[CHUNK])
{
    size_t run = 0;
    for (; run < n && run < CHUNK && refs[run].source == refs[0].source; run++)
        samples[run] = refs[run].sample;
    return run;
}

/* Callers of rows or extents know the storage already. */
static int check_storage(const struct leat_source *source, size_t field, enum leat_storage asked,
                         struct leat_error *error)
{
    return !source->storage[field] || source->storage[field] == asked
               ? LEAT_OK
               : leat_fail(error, LEAT_E_UNSUPPORTED, "values of this source cannot be reached in that way");
}

static int at_sample(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *ref, int rc,
                     struct leat_error *error)
{
    leat_error_at_sample(error, ref->id, d->base->fields[field].name);
    return rc;
}

int leat_dataset_rows(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *refs, size_t n,
                      void *cold, const void **rows, size_t *failed, struct leat_error *error)
{
    uint64_t samples[CHUNK], each = 0;
    if (cold && leat_field_row_bytes(&d->base->fields[field], &each, NULL))
        cold = NULL;
    for (size_t i = 0; i < n;) {
        size_t run = same_source(refs + i, n - i, samples), bad = 0;
        void *room = cold ? (uint8_t *)cold + i * each : NULL;
        int rc = check_storage(refs[i].source, field, LEAT_STORAGE_MAPPED, error);
        if (!rc)
            rc = refs[i].source->v->rows(refs[i].source, field, samples, run, room, rows + i, &bad, error);
        if (rc) {
            *failed = i + bad;
            return at_sample(d, field, &refs[*failed], rc, error);
        }
        i += run;
    }
    return LEAT_OK;
}

int leat_dataset_extents(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *refs, size_t n,
                         struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    uint64_t samples[CHUNK];
    for (size_t i = 0; i < n;) {
        size_t run = same_source(refs + i, n - i, samples), bad = 0;
        int rc = check_storage(refs[i].source, field, LEAT_STORAGE_EXTENT, error);
        if (!rc)
            rc = refs[i].source->v->extents(refs[i].source, field, samples, run, extents + i, &bad, error);
        if (rc) {
            *failed = i + bad;
            return at_sample(d, field, &refs[*failed], rc, error);
        }
        i += run;
    }
    return LEAT_OK;
}

/* Checks that a source has computed each value, and that it fits its field. */
static int check_computed(const struct leat_dataset *d, const size_t *fields, size_t n_fields,
                          const struct leat_sample_ref *refs, size_t n, const struct leat_values *values,
                          size_t *failed, struct leat_error *error)
{
    for (size_t f = 0; f < n_fields; f++) {
        const struct leat_field *field = &d->base->fields[fields[f]];
        uint64_t each = 1;
        size_t bad;
        int rc = field->kind == LEAT_KIND_ARRAY ? leat_field_row_bytes(field, &each, error) : LEAT_OK;
        for (size_t i = 0; i < n && !rc; i++) {
            const struct leat_computed *c = &values->at[f * n + i];
            *failed = i;
            if (c->lacking && values->may_lack)
                continue;
            if (!c->data)
                rc = leat_fail(error, LEAT_E_INVALID, "the source gave no value of field \"%s\"", field->name);
            else if (is_fixed(field) ? c->bytes != each : c->bytes % each != 0)
                rc = leat_fail(error, LEAT_E_INVALID,
                               "the source gave %" PRIu64 " bytes for field \"%s\", which has %s%" PRIu64, c->bytes,
                               field->name, is_fixed(field) ? "" : "a multiple of ", each);
            else if (!leat_text_fits(field->kind, c->data, (size_t)c->bytes, &bad))
                rc = leat_fail(error, LEAT_E_INVALID,
                               "the source gave for field \"%s\" a value that is not %s from its byte %zu on",
                               field->name, leat_text_kind(field->kind), bad);
            if (rc)
                return at_sample(d, fields[f], &refs[i], rc, error);
        }
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* Values of a source that fills memory with them. */
static int fill_values(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                       size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    uint8_t **to = leat_new_array(n_fields, sizeof *to);
    uint64_t *each = leat_new_array(n_fields, sizeof *each);
    int rc = to && each ? LEAT_OK : LEAT_E_NOMEM;
    *failed = n;
    for (size_t f = 0; f < n_fields && !rc; f++) {
        rc = leat_field_row_bytes(&source->fields[fields[f]], &each[f], error);
        if (!rc && !(to[f] = leat_new_array(n, (size_t)each[f] + !each[f])))
            rc = LEAT_E_NOMEM;
    }
    if (!rc)
        rc = source->v->fill(source, fields, n_fields, samples, n, out->rows, to, failed, error);
    for (size_t f = 0; f < n_fields && !rc; f++)
        for (size_t i = 0; i < n && !rc; i++)
            rc = leat_values_put(out, f, i, to[f] + i * each[f], each[f]);
    for (size_t f = 0; f < n_fields && to; f++)
        leat_free(to[f]);
    leat_free(to);
    leat_free(each);
    return rc == LEAT_E_NOMEM ? leat_fail(error, rc, "no memory for computed values") : rc;
}

/* Computes values for references that share a source. */
static int compute_run(const size_t *fields, size_t n_fields, const struct leat_sample_ref *refs, size_t n,
                       struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct leat_source *source = refs[0].source;
    uint64_t *samples = leat_new_array(n, sizeof *samples);
    if (!samples)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to compute %zu samples", n);
    for (size_t i = 0; i < n; i++)
        samples[i] = refs[i].sample;
    int rc = source->v->fill ? fill_values(source, fields, n_fields, samples, n, out, failed, error)
                             : source->v->compute(source, fields, n_fields, samples, n, out, failed, error);
    leat_free(samples);
    return rc;
}

int leat_dataset_compute(const struct leat_dataset *d, const size_t *fields, size_t n_fields,
                         const struct leat_sample_ref *refs, size_t n, struct leat_values *out, size_t *failed,
                         struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0, run; i < n && !rc; i += run) {
        struct leat_values part, *to = out;
        size_t bad;
        for (run = 1; i + run < n && refs[i + run].source == refs[i].source; run++)
            ;
        if (run < n && leat_values_init(to = &part, n_fields, run))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to compute %zu samples", n);
        to->cancelled = out->cancelled;
        to->may_lack = out->may_lack;
        to->rows = run < n ? NULL : out->rows; /* the rows of a batch are of one source, if it asks for them */
        bad = run;
        if (!rc)
            rc = compute_run(fields, n_fields, refs + i, run, to, &bad, error);
        if (rc) {
            *failed = bad < run ? i + bad : n;
            if (bad < run)
                leat_error_at_sample(error, refs[*failed].id, NULL);
        }
        for (size_t f = 0; f < n_fields && !rc && to == &part; f++)
            if (leat_values_take(out, f, i, &part, f))
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory for computed values");
        if (to == &part)
            leat_values_destroy(&part);
    }
    return rc ? rc : check_computed(d, fields, n_fields, refs, n, out, failed, error);
}

bool leat_dataset_is_filled(const struct leat_dataset *d, size_t field)
{
    const struct leat_source *source = d->base->parts[0].source;
    const struct leat_dataset *behind = source->storage[field] ? NULL : source->v->behind(source, &field, NULL);
    return d->base->n_parts == 1 && (behind ? leat_dataset_is_filled(behind, field) : source->v->fill != NULL);
}

bool leat_dataset_follows_batches(const struct leat_dataset *d)
{
    bool follows = false;
    for (size_t p = 0; p < d->base->n_parts && !follows; p++) {
        const struct leat_source *source = d->base->parts[p].source;
        for (size_t f = 0; f < source->n_fields && !follows; f++) {
            size_t of = f;
            const struct leat_dataset *behind = source->storage[f] ? NULL : source->v->behind(source, &of, NULL);
            follows = behind ? leat_dataset_follows_batches(behind) : source->v->fill != NULL;
        }
    }
    return follows;
}

int leat_dataset_fill(const struct leat_dataset *d, const size_t *fields, size_t n_fields,
                      const struct leat_sample_ref *refs, size_t n, const struct leat_batch_rows *rows,
                      uint8_t *const *to, size_t *failed, struct leat_error *error)
{
    size_t theirs[LEAT_MAX_FILLED];
    uint64_t samples[CHUNK];
    struct leat_sample_ref ref = {0};
    *failed = 0;
    assert(n <= CHUNK && n_fields <= LEAT_MAX_FILLED);
    for (size_t i = 0; i < n; i++) {
        theirs[0] = fields[0];
        ref = refs[i];
        leat_ref_resolve(&ref, &theirs[0]);
        samples[i] = ref.sample;
    }
    for (size_t f = 1; f < n_fields && n; f++) {
        struct leat_sample_ref one = refs[0];
        theirs[f] = fields[f];
        leat_ref_resolve(&one, &theirs[f]);
    }
    const int rc = n ? ref.source->v->fill(ref.source, theirs, n_fields, samples, n, rows, to, failed, error) : LEAT_OK;
    return rc ? at_sample(d, fields[0], &refs[*failed], rc, error) : LEAT_OK;
}

/* ---- one value of varying size --------------------------------------------------------------- */

static int at_fetch(const struct leat_fetch *fetch, int rc, struct leat_error *error)
{
    leat_error_at_sample(error, fetch->ref.id, fetch->ref.source->fields[fetch->field].name);
    return rc;
}

/* Whether the buffer has room for the row index. */
static bool has_rows_behind(const struct leat_extent *extent)
{
    return extent->info.form == LEAT_FORM_ORIGINAL && extent->info.rows_length && !extent->info.rows;
}

uint64_t leat_fetch_room(const struct leat_extent *extent, bool with_rows)
{
    uint64_t bytes = extent->length;
    if (!leat_add_u64(bytes, extent->before, &bytes) || !leat_add_u64(bytes, extent->after, &bytes))
        return UINT64_MAX;
    return with_rows && has_rows_behind(extent) && !leat_add_u64(bytes, extent->info.rows_length, &bytes) ? UINT64_MAX
                                                                                                          : bytes;
}

const uint8_t *leat_fetch_rows(const struct leat_fetch *fetch)
{
    const struct leat_extent *extent = &fetch->extent;
    if (fetch->with_rows && has_rows_behind(extent))
        return (const uint8_t *)fetch->buffer + extent->length;
    return extent->info.rows_length ? extent->info.rows : NULL;
}

uint64_t leat_fetch_bytes(const struct leat_extent *extent, bool with_rows)
{
    return leat_fetch_room(extent, with_rows && !extent->info.rows_apart);
}

void leat_error_at_extent(struct leat_error *error, struct leat_source *source, const struct leat_extent *extent)
{
    struct leat_io_file *file = NULL;
    if (source->v->file(source, extent->file, &file, NULL))
        return; /* it is gone by now: the error does without it */
    leat_error_at_file(error, file->path, LEAT_NO_OFFSET);
    leat_io_release(file);
}

/* The bytes that are read for a value. */
static struct leat_extent read_of(const struct leat_extent *extent)
{
    return (struct leat_extent){.file = extent->file,
                                .offset = extent->offset - extent->before,
                                .length = extent->before + extent->length + extent->after};
}

/* Where they lie in memory. There is no buffer if nothing is read. */
static uint8_t *read_to(const struct leat_fetch *fetch)
{
    return fetch->extent.before ? (uint8_t *)fetch->buffer - fetch->extent.before : fetch->buffer;
}

/* Reads `length` bytes from where the extent's read begins, and waits for them. */
static int read_now(struct leat_fetch *fetch, uint64_t length, struct leat_error *error)
{
    struct leat_io_request request = {
        .offset = fetch->extent.offset - fetch->extent.before, .length = length, .buffer = read_to(fetch)};
    leat_ref_resolve(&fetch->ref, &fetch->field);
    struct leat_source *source = fetch->ref.source;
    int rc = source->v->file(source, fetch->extent.file, &request.file, error);
    if (rc)
        return at_fetch(fetch, rc, error);
    rc = leat_io_wait(&request);
    leat_io_release(request.file);
    if (rc && error)
        *error = request.error;
    return rc ? at_fetch(fetch, rc, error) : LEAT_OK;
}

/* The source's memory of a photo: the starts of its rows, and whether its bytes were good. Neither holds for other
 * bytes. */
static void recall(struct leat_fetch *fetch)
{
    struct leat_extent *extent = &fetch->extent;
    struct leat_source *source = fetch->ref.source;
    bool apart = extent->info.rows_apart && has_rows_behind(extent);
    bool compare = extent->info.remembered && extent->info.health == LEAT_HEALTH_UNCHECKED;
    if (!apart && !compare)
        return;
    uint64_t checksum = compare ? leat_hash64(fetch->buffer, (size_t)extent->length) : 0;
    uint8_t *behind = (uint8_t *)fetch->buffer + extent->length;
    if (!source->v->recall(source, fetch->field, fetch->ref.sample, behind, apart ? extent->info.rows_length : 0,
                           compare ? &checksum : NULL)) {
        extent->info.rows = NULL;
        extent->info.rows_length = 0;
    } else if (compare) {
        extent->info.health = LEAT_HEALTH_GOOD;
        leat_fetch_mark(fetch, LEAT_HEALTH_GOOD);
    }
}

int leat_fetch_check(struct leat_fetch *fetch, struct leat_error *error)
{
    const struct leat_extent *extent = &fetch->extent, all = read_of(extent);
    const uint8_t *data = read_to(fetch);
    struct leat_source *source = fetch->ref.source;
    if (extent->pages) {
        int rc = source->v->check_piece(source, fetch->ref.sample, &all, data, fetch->mapped, error);
        return rc ? at_fetch(fetch, rc, error) : LEAT_OK;
    }
    if (extent->verify && leat_hash64(data, (size_t)all.length) != extent->checksum) {
        int rc = leat_fail(error, LEAT_E_CORRUPT,
                           "sample %" PRId64 ", field \"%s\": the %" PRIu64 " bytes at %" PRIu64
                           " are not what was written (their checksum differs); run leat verify, and restore the file "
                           "or pack it again",
                           fetch->ref.id, source->fields[fetch->field].name, all.length, all.offset);
        struct leat_io_file *file = NULL;
        if (!source->v->file(source, extent->file, &file, NULL)) /* or it is gone by now */
            leat_io_forget(file, all.offset, all.length);
        if (source->v->doubt)
            source->v->doubt(source, fetch->field, fetch->ref.sample);
        leat_error_at_file(error, file ? file->path : NULL, (int64_t)all.offset);
        leat_io_release(file);
        return at_fetch(fetch, rc, error);
    }
    const struct leat_field *field = &source->fields[fetch->field];
    size_t bad;
    if (!leat_text_fits(field->kind, fetch->buffer, (size_t)extent->length, &bad)) {
        int rc = leat_fail(error, LEAT_E_CORRUPT,
                           "sample %" PRId64 ", field \"%s\": the value is not %s from its byte %zu on: the file was "
                           "not made by leat, make it again, or take the field as \"bytes\"",
                           fetch->ref.id, field->name, leat_text_kind(field->kind), bad);
        leat_error_at_extent(error, source, extent);
        return at_fetch(fetch, rc, error);
    }
    if (extent->verify)
        source->v->mark(source, fetch->field, fetch->ref.sample, true, LEAT_HEALTH_UNCHECKED);
    if (fetch->with_rows)
        recall(fetch);
    return LEAT_OK;
}

void leat_extent_narrow(const struct leat_sample_ref *ref, struct leat_extent *e, uint64_t begin, uint64_t length)
{
    struct leat_extent pages = *e;
    if (e->before || e->after || e->pages) { /* a part already: what is verified with it stays */
        e->before += begin;
        e->after += e->length - begin - length;
    } else if (e->verify && ref->source->v->piece &&
               ref->source->v->piece(ref->source, ref->sample, &pages, begin, length)) {
        e->pages = true;
        e->file = pages.file;
        e->before = e->offset + begin - pages.offset;
        e->after = pages.length - e->before - length;
    } else if (e->verify) {
        e->before = begin;
        e->after = e->length - begin - length;
    }
    e->offset += begin;
    e->length = length;
}

int leat_fetch_read(struct leat_fetch *fetch, struct leat_value *out, struct leat_error *error)
{
    const uint64_t bytes = leat_fetch_room(&fetch->extent, false);
    out->length = fetch->extent.length;
    out->owned = bytes < SIZE_MAX ? leat_alloc((size_t)bytes) : NULL;
    if (!out->owned)
        return at_fetch(fetch, leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %" PRIu64 " bytes", bytes),
                        error);
    out->data = fetch->buffer = (uint8_t *)out->owned + fetch->extent.before;
    int rc = read_now(fetch, bytes, error);
    return rc ? rc : leat_fetch_check(fetch, error);
}

void leat_fetch_mark(const struct leat_fetch *fetch, enum leat_health health)
{
    struct leat_source *source = fetch->ref.source;
    if (!fetch->made)
        source->v->mark(source, fetch->field, fetch->ref.sample, false, health);
}

void leat_fetch_keep(const struct leat_fetch *fetch, const uint8_t *rows, size_t length)
{
    struct leat_source *source = fetch->ref.source;
    if (fetch->made)
        leat_good_photos_add(fetch->extent.checksum, rows, length);
    else if (source->v->keep)
        source->v->keep(source, fetch->field, fetch->ref.sample, fetch->buffer, (size_t)fetch->extent.length, rows,
                        length);
}

void leat_fetch_know(struct leat_fetch *fetch)
{
    fetch->extent.checksum = leat_hash64(fetch->buffer, (size_t)fetch->extent.length);
    leat_good_photos_describe(fetch->extent.checksum, &fetch->extent.info);
}

/* ---- values for people ----------------------------------------------------------------------- */

struct copy {
    uint8_t *to;
    const void *const *rows;
    size_t n, each;
    volatile size_t at; /* the row being copied, which a fault is blamed on */
};

static int copy_rows(void *arg)
{
    struct copy *c = arg;
    for (size_t i = 0; i < c->n; i++) {
        c->at = i;
        memcpy(c->to + i * c->each, c->rows[i], c->each);
    }
    return LEAT_OK;
}

static int read_fixed(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *ref, uint64_t bytes,
                      struct leat_value *out, struct leat_error *error)
{
    const void *row;
    size_t failed;
    struct copy copy = {leat_alloc((size_t)bytes), &row, 1, (size_t)bytes, 0};
    if (!copy.to)
        return at_sample(d, field, ref,
                         leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %" PRIu64 " bytes", bytes), error);
    out->data = out->owned = copy.to;
    out->length = bytes;
    int rc = leat_dataset_rows(d, field, ref, 1, copy.to, &row, &failed, error);
    if (rc || row == copy.to)
        return rc;
    rc = leat_guarded(copy_rows, &copy, error);
    return rc ? at_sample(d, field, ref, rc, error) : LEAT_OK;
}

/* Stored bytes [begin, begin + n) of a value, or as many as there are; and the facts about its photo if it is one. */
static int read_stored(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *ref, uint64_t begin,
                       uint64_t n, struct leat_value *out, struct leat_extent *extent, struct leat_error *error)
{
    struct leat_fetch fetch = {.ref = *ref, .field = field};
    size_t failed;
    int rc = leat_dataset_extents(d, field, ref, 1, &fetch.extent, &failed, error);
    if (rc)
        return rc;
    leat_ref_resolve(&fetch.ref, &fetch.field);
    const uint64_t length = fetch.extent.length;
    begin = begin < length ? begin : length;
    n = n < length - begin ? n : length - begin;
    if (n < length)
        leat_extent_narrow(&fetch.ref, &fetch.extent, begin, n);
    rc = leat_fetch_read(&fetch, out, error);
    *extent = fetch.extent;
    return rc;
}

static int read_computed(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *ref,
                         struct leat_value *out, struct leat_error *error)
{
    struct leat_values values;
    size_t failed = 0;
    int rc = leat_values_init(&values, 1, 1) ? leat_fail(error, LEAT_E_NOMEM, "no memory for a value")
                                             : leat_dataset_compute(d, &field, 1, ref, 1, &values, &failed, error);
    out->length = rc ? 0 : values.at[0].bytes;
    if (!rc && !(out->data = out->owned = leat_alloc((size_t)out->length + 1)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %" PRIu64 " bytes", out->length);
    if (!rc)
        memcpy(out->owned, values.at[0].data, (size_t)out->length);
    leat_values_destroy(&values);
    return rc ? at_sample(d, field, ref, rc, error) : LEAT_OK;
}

struct leat_value_ref leat_value_given(const struct leat_value *value)
{
    const uint8_t *data = value->data;
    return (struct leat_value_ref){.data = data ? data - value->before : NULL, .length = value->length + value->before};
}

/* A value in another form as people see it: a fast photo as its original bytes, a raw one as its elements. */
static int present(const struct leat_codec *codec, uint8_t form, struct leat_value *out, struct leat_error *error)
{
    if (form == LEAT_FORM_RAW) {
        const uint8_t *from = out->data;
        out->decoded = true;
        const int rc = codec->view(out, error);
        out->before = rc ? 0 : (uint32_t)((const uint8_t *)out->data - from);
        return rc;
    }
    uint8_t *original;
    size_t length;
    int rc = codec->restore(out->data, out->length, &original, &length, error);
    if (rc)
        return rc;
    leat_free(out->owned);
    out->data = out->owned = original;
    out->length = length;
    out->shape[0] = (int64_t)length;
    return LEAT_OK;
}

static int check_field(const struct leat_dataset *d, size_t field, struct leat_error *error)
{
    return field < d->base->n_fields
               ? LEAT_OK
               : leat_fail(error, LEAT_E_RANGE, "field %zu is not below the %zu fields of the data set", field,
                           d->base->n_fields);
}

int leat_dataset_read(const struct leat_dataset *d, uint64_t position, size_t field, struct leat_value *out,
                      struct leat_error *error)
{
    struct leat_sample_ref ref;
    uint64_t bytes;
    memset(out, 0, sizeof *out);
    int rc = check_field(d, field, error);
    if (rc)
        return rc;
    if (position >= d->count)
        return leat_fail(error, LEAT_E_RANGE,
                         "position %" PRIu64 " is not below the %" PRIu64 " samples of the data set", position,
                         d->count);
    const struct leat_field *f = &d->base->fields[field];
    leat_dataset_locate(d, &position, 1, &ref);
    if ((rc = leat_field_row_bytes(f, &bytes, error)))
        return at_sample(d, field, &ref, rc, error);
    out->dtype = f->dtype;
    out->ndim = f->ndim;
    memcpy(out->shape, f->shape, sizeof out->shape);
    const enum leat_storage storage = leat_ref_storage(&ref, field);
    if (storage == LEAT_STORAGE_MAPPED) {
        rc = read_fixed(d, field, &ref, bytes, out, error);
    } else {
        struct leat_extent extent = {0};
        rc = storage == LEAT_STORAGE_COMPUTED ? read_computed(d, field, &ref, out, error)
                                              : read_stored(d, field, &ref, 0, UINT64_MAX, out, &extent, error);
        if (f->kind != LEAT_KIND_ARRAY) {
            out->dtype = LEAT_U8;
            out->ndim = 1;
            bytes = 1;
        }
        if (!is_fixed(f))
            out->shape[0] = (int64_t)(out->length / bytes);
        if (!rc && is_fixed(f) && out->length != bytes)
            rc = at_sample(
                d, field, &ref,
                leat_fail(error, LEAT_E_CORRUPT, "a value has %" PRIu64 " bytes, not %" PRIu64, out->length, bytes),
                error);
        else if (!rc && extent.info.form != LEAT_FORM_ORIGINAL) {
            rc = present(leat_codec_of(f->kind), extent.info.form, out, error);
            if (rc) {
                leat_error_at_extent(error, ref.source, &extent);
                at_sample(d, field, &ref, rc, error);
            }
        } else if (!rc && out->length % bytes)
            rc = at_sample(d, field, &ref,
                           leat_fail(error, LEAT_E_CORRUPT,
                                     "a value of %" PRIu64 " bytes is not a whole number of rows of %" PRIu64 " bytes",
                                     out->length, bytes),
                           error);
    }
    if (rc)
        leat_value_clear(out);
    return rc;
}

int leat_dataset_read_part(const struct leat_dataset *d, uint64_t position, size_t field, uint64_t begin, uint64_t n,
                           struct leat_value *out, struct leat_error *error)
{
    struct leat_sample_ref ref;
    uint64_t bytes;
    memset(out, 0, sizeof *out);
    int rc = check_field(d, field, error);
    if (rc)
        return rc;
    const struct leat_field *f = &d->base->fields[field];
    if (f->kind != LEAT_KIND_ARRAY || is_fixed(f))
        return leat_fail(error, LEAT_E_TYPE, "field \"%s\" has no arrays of varying length, of which a part is read",
                         f->name);
    if (position < d->count)
        leat_dataset_locate(d, &position, 1, &ref);
    if (position >= d->count || leat_ref_storage(&ref, field) != LEAT_STORAGE_EXTENT ||
        leat_field_row_bytes(f, &bytes, NULL)) {
        if ((rc = leat_dataset_read(d, position, field, out, error)))
            return rc;
        const uint64_t rows = (uint64_t)out->shape[0], each = rows ? out->length / rows : 0;
        begin = begin < rows ? begin : rows;
        n = n < rows - begin ? n : rows - begin;
        memmove(out->owned, (uint8_t *)out->owned + begin * each, (size_t)(n * each));
        out->length = n * each;
        out->shape[0] = (int64_t)n;
        return LEAT_OK;
    }
    struct leat_extent extent;
    rc = read_stored(d, field, &ref, begin > UINT64_MAX / bytes ? UINT64_MAX : begin * bytes,
                     n > UINT64_MAX / bytes ? UINT64_MAX / bytes * bytes : n * bytes, out, &extent, error);
    out->dtype = f->dtype;
    out->ndim = f->ndim;
    memcpy(out->shape, f->shape, sizeof out->shape);
    out->shape[0] = (int64_t)(out->length / bytes);
    if (!rc && out->length % bytes)
        rc = at_sample(
            d, field, &ref,
            leat_fail(error, LEAT_E_CORRUPT, "a value is not a whole number of rows of %" PRIu64 " bytes", bytes),
            error);
    if (rc)
        leat_value_clear(out);
    return rc;
}

void leat_value_clear(struct leat_value *value)
{
    leat_free(value->owned);
    memset(value, 0, sizeof *value);
}

/* ---- columns --------------------------------------------------------------------------------- */

static int gather_rows(const struct leat_dataset *d, size_t field, uint64_t bytes, const struct leat_sample_ref *refs,
                       size_t n, uint8_t *to, struct leat_error *error)
{
    const void *rows[CHUNK];
    size_t failed = 0;
    int rc = leat_dataset_rows(d, field, refs, n, NULL, rows, &failed, error);
    if (rc)
        return rc;
    struct copy copy = {to, rows, n, (size_t)bytes, 0};
    rc = leat_guarded(copy_rows, &copy, error);
    return rc ? at_sample(d, field, &refs[copy.at], rc, error) : LEAT_OK;
}

/* Whether a value lies so many bytes behind another one, and has as many bytes as that. */
static bool is_behind(const struct leat_extent *e, const struct leat_extent *other, uint64_t bytes)
{
    return e->file == other->file && e->offset == other->offset + bytes && e->length == other->length && !e->before &&
           !e->after;
}

/* Values that are neighbours in their file are read together. */
static int gather_extents(const struct leat_dataset *d, size_t field, uint64_t bytes,
                          const struct leat_sample_ref *refs, size_t n, uint8_t *to, struct leat_error *error)
{
    struct leat_extent extents[CHUNK];
    struct leat_sample_ref found[CHUNK];
    size_t failed = 0;
    int rc = leat_dataset_extents(d, field, refs, n, extents, &failed, error);
    for (size_t i = 0, f; i < n && !rc; i++) {
        found[i] = refs[i];
        leat_ref_resolve(&found[i], (f = field, &f));
    }
    for (size_t i = 0, run; i < n && !rc; i += run) {
        struct leat_fetch fetch = {.ref = refs[i], .field = field, .extent = extents[i], .buffer = to + i * bytes};
        if (extents[i].length != bytes)
            return at_sample(d, field, &refs[i],
                             leat_fail(error, LEAT_E_CORRUPT, "a value has %" PRIu64 " bytes, not %" PRIu64,
                                       extents[i].length, bytes),
                             error);
        if (extents[i].before || extents[i].after) {
            struct leat_value value = {0};
            run = 1;
            rc = leat_fetch_read(&fetch, &value, error);
            if (!rc)
                memcpy(to + i * bytes, value.data, (size_t)bytes);
            leat_value_clear(&value);
            continue;
        }
        for (run = 1; i + run < n && found[i + run].source == found[i].source &&
                      is_behind(&extents[i + run], &extents[i], run * bytes);
             run++)
            ;
        rc = read_now(&fetch, run * bytes, error);
        for (size_t k = i; k < i + run && !rc; k++) {
            struct leat_fetch one = {.ref = refs[k], .field = field, .extent = extents[k], .buffer = to + k * bytes};
            leat_ref_resolve(&one.ref, &one.field);
            rc = leat_fetch_check(&one, error);
        }
    }
    return rc;
}

static int gather_computed(const struct leat_dataset *d, size_t field, uint64_t bytes,
                           const struct leat_sample_ref *refs, size_t n, uint8_t *to, uint64_t *lengths, bool *valid,
                           struct leat_error *error)
{
    struct leat_values values;
    size_t failed = 0;
    int rc = leat_values_init(&values, 1, n) ? leat_fail(error, LEAT_E_NOMEM, "no memory for %zu values", n) : LEAT_OK;
    values.may_lack = valid != NULL;
    if (!rc)
        rc = leat_dataset_compute(d, &field, 1, refs, n, &values, &failed, error);
    for (size_t i = 0; i < n && !rc; i++) {
        const bool lacking = values.at[i].lacking;
        if (valid)
            valid[i] = !lacking;
        if (lengths)
            lengths[i] = values.at[i].bytes;
        else if (to && lacking)
            memset(to + i * bytes, 0, (size_t)bytes);
        else if (to)
            memcpy(to + i * bytes, values.at[i].data, (size_t)bytes);
    }
    leat_values_destroy(&values);
    return rc;
}

/* Lengths that are known without the values. False: some are not. */
static bool take_lengths(const struct leat_sample_ref *refs, size_t n, size_t field, uint64_t *to)
{
    for (size_t i = 0; i < n; i++)
        if ((to[i] = leat_ref_length(&refs[i], field)) == UINT64_MAX)
            return false;
    return true;
}

static int gather_stored_lengths(const struct leat_dataset *d, size_t field, const struct leat_sample_ref *refs,
                                 size_t n, uint64_t *to, struct leat_error *error)
{
    struct leat_extent extents[CHUNK];
    const struct leat_codec *codec = leat_codec_of(d->base->fields[field].kind);
    size_t failed = 0;
    int rc = leat_dataset_extents(d, field, refs, n, extents, &failed, error);
    for (size_t i = 0; i < n && !rc; i++)
        to[i] = leat_value_bytes(&extents[i].info, extents[i].length) -
                (extents[i].info.form == LEAT_FORM_RAW ? codec->raw_header : 0);
    return rc;
}

int leat_dataset_refresh(const struct leat_dataset *d, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t p = 0; p < d->base->n_parts && !rc; p++) {
        struct leat_source *source = d->base->parts[p].source;
        if (source->v->refresh)
            rc = source->v->refresh(source, error);
    }
    return rc;
}

uint64_t leat_dataset_changes(const struct leat_dataset *d)
{
    uint64_t sum = 0;
    for (size_t p = 0; p < d->base->n_parts; p++)
        sum += atomic_load(&d->base->parts[p].source->changes);
    return sum;
}

int leat_dataset_gather(const struct leat_dataset *d, size_t field, uint64_t begin, uint64_t end, uint64_t bytes,
                        uint8_t *to, uint64_t *lengths, bool *valid, struct leat_error *error)
{
    uint64_t positions[CHUNK];
    struct leat_sample_ref refs[CHUNK];
    int rc = LEAT_OK;
    for (uint64_t at = begin; at < end && !rc; at += CHUNK) {
        size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        for (size_t i = 0; i < n; i++)
            positions[i] = at + i;
        leat_dataset_locate(d, positions, n, refs);
        for (size_t i = 0, run; i < n && !rc; i += run) {
            const enum leat_storage storage = leat_ref_storage(&refs[i], field);
            for (run = 1; i + run < n && leat_ref_storage(&refs[i + run], field) == storage; run++)
                ;
            uint8_t *values = to ? to + (at - begin + i) * bytes : NULL;
            uint64_t *sizes = lengths ? lengths + (at - begin) + i : NULL;
            bool *there = valid ? valid + (at - begin) + i : NULL;
            if (there)
                memset(there, true, run * sizeof *there);
            if (sizes && take_lengths(refs + i, run, field, sizes))
                continue;
            if (storage == LEAT_STORAGE_COMPUTED)
                rc = gather_computed(d, field, bytes, refs + i, run, values, sizes, there, error);
            else if (lengths)
                rc = gather_stored_lengths(d, field, refs + i, run, sizes, error);
            else if (to)
                rc = (storage == LEAT_STORAGE_MAPPED ? gather_rows : gather_extents)(d, field, bytes, refs + i, run,
                                                                                     values, error);
        }
    }
    return rc;
}

/* The base's memory if the whole column lies in one piece. */
int leat_dataset_in_place(const struct leat_dataset *d, size_t field, const void **data, struct leat_error *error)
{
    const struct leat_base *base = d->base;
    *data = NULL;
    if (d->selected || base->n_parts != 1 || !base->parts[0].source->v->column)
        return LEAT_OK;
    int rc = base->parts[0].source->v->column(base->parts[0].source, field, data, error);
    leat_error_at_sample(rc ? error : NULL, LEAT_NO_SAMPLE, base->fields[field].name);
    return rc;
}

int leat_dataset_column(const struct leat_dataset *d, size_t field, bool lengths, bool copy, struct leat_value *out,
                        struct leat_error *error)
{
    uint64_t each, bytes;
    memset(out, 0, sizeof *out);
    int rc = check_field(d, field, error);
    if (rc)
        return rc;
    if ((rc = leat_dataset_refresh(d, error)))
        return rc;
    const struct leat_field *f = &d->base->fields[field];
    if (lengths == is_fixed(f))
        return leat_fail(error, LEAT_E_TYPE,
                         lengths ? "field \"%s\" has values of one size: ask for the column itself, not for lengths"
                                 : "field \"%s\" has values of varying size: only its lengths are a column",
                         f->name);
    if (!lengths && f->ndim == LEAT_MAX_DIMS)
        return leat_fail(error, LEAT_E_TYPE, "field \"%s\" has %d dimensions already: its column would have one more",
                         f->name, LEAT_MAX_DIMS);
    each = sizeof(uint64_t);
    if (!lengths && (rc = leat_field_row_bytes(f, &each, error)))
        return rc;
    out->dtype = lengths ? LEAT_U64 : f->dtype;
    out->ndim = lengths ? 1 : f->ndim + 1;
    out->shape[0] = (int64_t)d->count;
    for (unsigned i = 1; i < out->ndim; i++)
        out->shape[i] = f->shape[i - 1];
    if (!leat_mul_u64(d->count, each, &bytes) || bytes > SIZE_MAX)
        return leat_fail(error, LEAT_E_NOMEM, "the column \"%s\" is larger than memory can be", f->name);
    out->length = bytes;
    const void *data = NULL;
    if (!lengths && !copy && (rc = leat_dataset_in_place(d, field, &data, error)))
        return rc;
    out->data = data;
    if (data)
        return LEAT_OK;
    if (!(out->owned = leat_alloc((size_t)bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the column \"%s\" of %" PRIu64 " bytes", f->name, bytes);
    out->data = out->owned;
    rc = leat_dataset_gather(d, field, 0, d->count, each, lengths ? NULL : out->owned, lengths ? out->owned : NULL,
                             NULL, error);
    if (rc)
        leat_value_clear(out);
    return rc;
}

int leat_dataset_lengths(const struct leat_dataset *d, size_t field, uint64_t **out, struct leat_error *error)
{
    const struct leat_field *f = &d->base->fields[field];
    const bool fixed = is_fixed(f);
    uint64_t step = f->kind == LEAT_KIND_ARRAY ? leat_dtype_size(f->dtype) : 1;
    for (unsigned i = 1; f->kind == LEAT_KIND_ARRAY && i < f->ndim; i++)
        step *= (uint64_t)f->shape[i];
    struct leat_value column = {0};
    int rc = fixed ? LEAT_OK : leat_dataset_column(d, field, true, true, &column, error);
    if (rc)
        return rc;
    *out = fixed ? leat_new_array(d->count + 1, sizeof **out) : column.owned;
    if (!*out)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the lengths of %" PRIu64 " samples", d->count);
    for (uint64_t i = 0; i < d->count; i++)
        (*out)[i] = fixed ? (uint64_t)f->shape[0] : step ? (*out)[i] / step : 0;
    return LEAT_OK;
}
