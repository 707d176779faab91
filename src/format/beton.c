/*
 * FFCV's files in place (beton.h).
 *
 *     int, float                   in the rows, mapped
 *     photos, bytes, JSON, arrays  extents; photos that are pixels behind a header that is made (raw_photos.h)
 *     bytes that are said to be an array or a number are computed
 *
 * The format has no checksums. Those that the pass over the values found are compared when a value is read first.
 */
#include "format/beton.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/made_values.h"
#include "format/photo_files.h"
#include "format/raw_photos.h"
#include "format/source.h"
#include "format/wanted.h"
#include "io/guard.h"

struct origin {
    const struct leat_beton_column *column;
    struct leat_photo_files photos; /* of images: what is known of each */
    _Atomic uint64_t *verified;     /* a bit for each sample */
};

struct beton {
    struct leat_source source;
    char *path;
    struct leat_io_file *file, *raw;
    enum leat_recheck recheck;
    struct leat_beton_layout layout;
    struct leat_places places;
    const uint8_t *rows; /* mapped, or memory */
    uint8_t *own_rows;
    char (*names)[LEAT_FIELD_NAME]; /* of all columns */
    struct leat_field fields[LEAT_BETON_FIELDS];
    struct origin origins[LEAT_BETON_FIELDS];
    uint8_t storage[LEAT_BETON_FIELDS];
    bool is_new; /* the index was made, not found */
};

static bool beton_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    static const char end[] = ".beton";
    const size_t length = strlen(path);
    return !folder && n &&
           ((length >= sizeof end && !strcmp(path + length - (sizeof end - 1), end)) || leat_beton_recognise(head, n));
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int cannot_be(const struct beton *b, const struct leat_field *f, const char *is, struct leat_error *error)
{
    char text[128];
    return leat_fail_at(error, LEAT_E_INVALID, b->path, LEAT_NO_OFFSET,
                        "fields says of \"%s\" that it is %s, but in %s it is %s", f->name,
                        leat_field_text(f, text, sizeof text), b->path, is);
}

/* What the file says of a field. */
static int type_of(const struct beton *b, const struct leat_beton_column *c, struct leat_field *f,
                   enum leat_storage *storage, struct leat_error *error)
{
    static const enum leat_kind kinds[] = {LEAT_KIND_ARRAY, LEAT_KIND_ARRAY, LEAT_KIND_IMAGE, LEAT_KIND_BYTES,
                                           LEAT_KIND_ARRAY, LEAT_KIND_JSON,  LEAT_KIND_ARRAY};
    f->kind = kinds[c->type];
    f->dtype = c->type == LEAT_BETON_INT ? LEAT_I64 : c->type == LEAT_BETON_FLOAT ? LEAT_F64 : c->dtype;
    f->dtype = f->kind == LEAT_KIND_ARRAY ? f->dtype : LEAT_U8;
    f->flags = c->type == LEAT_BETON_RGB ? LEAT_FIELD_PIXELS : 0;
    f->ndim = c->ndim;
    memcpy(f->shape, c->shape, sizeof f->shape);
    *storage = c->type < LEAT_BETON_RGB ? LEAT_STORAGE_MAPPED : LEAT_STORAGE_EXTENT;
    return !c->fault ? LEAT_OK
                     : leat_fail_at(error, LEAT_E_UNSUPPORTED, b->path, LEAT_NO_OFFSET,
                                    "the field \"%s\" of %s is an array that leat does not read: %s. Name the fields "
                                    "to take without it, as in fields=[...]",
                                    f->name, b->path, c->fault);
}

/* What the user says it is: bytes may be anything, other fields are what they are, or their bytes. */
static int take_wish(const struct beton *b, const struct leat_beton_column *c, const struct leat_field *wish,
                     struct leat_field *f, enum leat_storage *storage, struct leat_error *error)
{
    char is[128];
    const struct leat_field found = *f;
    leat_wanted_take(wish, f);
    if (f->kind != LEAT_KIND_IMAGE)
        f->flags = 0;
    if (f->kind == found.kind && (f->kind != LEAT_KIND_ARRAY || (f->dtype == found.dtype && f->ndim == found.ndim &&
                                                                 !memcmp(f->shape, found.shape, sizeof f->shape))))
        return LEAT_OK;
    if (c->type != LEAT_BETON_BYTES &&
        (*storage != LEAT_STORAGE_EXTENT || f->kind != LEAT_KIND_BYTES || c->type == LEAT_BETON_RGB))
        return cannot_be(b, f, leat_field_text(&found, is, sizeof is), error);
    *storage = f->kind == LEAT_KIND_ARRAY ? LEAT_STORAGE_COMPUTED : LEAT_STORAGE_EXTENT;
    return LEAT_OK;
}

static int add_field(struct beton *b, size_t column, const struct leat_field *wish, struct leat_error *error)
{
    const size_t n = b->source.n_fields;
    const struct leat_beton_column *c = &b->layout.columns[column];
    struct leat_field *f = &b->fields[n];
    enum leat_storage storage;
    *f = (struct leat_field){.name = b->names[column]};
    for (size_t i = 0; i < b->layout.n_columns; i++)
        if (i != column && !strcmp(b->names[i], f->name))
            return leat_fail_at(error, LEAT_E_INVALID, b->path, LEAT_NO_OFFSET,
                                "two fields of %s have the name \"%s\" (FFCV cuts names to 16 bytes): name others to "
                                "take, as in fields=[...]",
                                b->path, f->name);
    int rc = type_of(b, c, f, &storage, error);
    rc = rc || !leat_wanted_says(wish) ? rc : take_wish(b, c, wish, f, &storage, error);
    b->origins[n].column = c;
    b->storage[n] = (uint8_t)storage;
    b->source.n_fields += !rc;
    return rc;
}

static int make_fields(struct beton *b, const struct leat_open_options *options, struct leat_error *error)
{
    const size_t n = b->layout.n_columns;
    int rc = LEAT_OK;
    if (!(b->names = leat_new_array(n, sizeof *b->names)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", b->path);
    for (size_t i = 0; i < n; i++)
        leat_field_name_add(b->names[i], b->layout.columns[i].name, strlen(b->layout.columns[i].name));
    for (size_t i = 0; i < n && !rc && !options->n_fields; i++)
        rc = add_field(b, i, NULL, error);
    for (size_t w = 0; w < options->n_fields && !rc; w++) {
        size_t i = 0;
        while (i < n && strcmp(b->names[i], options->fields[w].name) != 0)
            i++;
        const struct leat_known there = leat_known_texts(b->names, n);
        const char *name = options->fields[w].name;
        rc = i < n ? add_field(b, i, &options->fields[w], error)
                   : leat_fail_name(error, LEAT_E_INVALID, &there, name, "%s has no field \"%s\", which fields names",
                                    b->path, name);
    }
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void beton_close(struct leat_source *source)
{
    struct beton *b = (struct beton *)source;
    for (size_t i = 0; i < LEAT_BETON_FIELDS; i++) {
        leat_photo_files_destroy(&b->origins[i].photos);
        leat_free(b->origins[i].verified);
    }
    leat_places_destroy(&b->places);
    leat_io_release(b->raw);
    leat_io_release(b->file);
    leat_free(b->layout.columns);
    leat_free(b->own_rows);
    leat_free(b->names);
    leat_free(b->path);
    leat_free(b);
}

static int find_index(struct beton *b, const struct leat_open_options *options, struct leat_error *error)
{
    char place[4096];
    const bool keeps = b->layout.n_places && leat_kept_path(b->path, options->index_dir, place, sizeof place);
    if (keeps && leat_places_load(&b->places, place, b->file, LEAT_BETON_KIND, 0, false)) {
        if (leat_beton_index_fits(&b->places, &b->layout))
            return LEAT_OK;
        leat_places_destroy(&b->places);
    }
    if (keeps && options->index_dir)
        mkdir(options->index_dir, 0777);
    b->is_new = true;
    int rc = leat_beton_index_make(b->file, &b->layout, options, &b->places, error);
    if (!rc && keeps && !(rc = leat_io_unchanged(b->file, error)))
        leat_places_save(&b->places, place, b->file, LEAT_BETON_KIND, 0);
    return rc;
}

/* The rows: mapped where that is possible. */
static int find_rows(struct beton *b, struct leat_error *error)
{
    const uint64_t bytes = b->layout.samples * b->layout.row_bytes;
    const uint8_t *map = b->file->backend->map ? leat_io_map(b->file, error) : NULL;
    if (map || b->file->backend->map) {
        b->rows = map ? map + b->layout.rows : NULL;
        return map ? LEAT_OK : LEAT_E_IO;
    }
    if (!(b->own_rows = leat_alloc((size_t)bytes + 1)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", b->path);
    b->rows = b->own_rows;
    return leat_io_read(b->file, b->layout.rows, bytes, b->own_rows, error);
}

struct photos {
    const struct beton *beton;
    uint64_t place;
};

static int place_of_photo(void *user, uint64_t sample, struct leat_photo_place *out, struct leat_error *error)
{
    const struct photos *p = user;
    struct leat_place at = {0};
    const int rc = leat_places_get(&p->beton->places, sample, p->place, &at, error);
    *out = (struct leat_photo_place){p->beton->path, p->beton->file->mtime_ns, at.offset, at.length};
    return rc;
}

/* Of a photo as pixels: its number is that of its place among all. */
static int place_of_pixels(void *user, uint64_t photo, struct leat_raw_place *out, struct leat_error *error)
{
    const struct beton *b = user;
    struct leat_place at = {0};
    const int rc = leat_places_get(&b->places, photo / b->places.width, photo % b->places.width, &at, error);
    *out = (struct leat_raw_place){leat_beton_width(at.note), leat_beton_height(at.note), at.offset};
    return rc;
}

static int ready_fields(struct beton *b, const struct leat_open_options *options, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < b->source.n_fields && !rc; i++) {
        struct origin *o = &b->origins[i];
        if (b->storage[i] == LEAT_STORAGE_EXTENT &&
            !(o->verified = leat_new_array((size_t)(b->source.count / 64 + 1), sizeof *o->verified)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", b->path);
        if (b->fields[i].kind == LEAT_KIND_IMAGE)
            rc = leat_photo_files_within(&o->photos, b->path, b->fields[i].name, b->source.count, options,
                                         place_of_photo, &(struct photos){b, o->column->place}, error);
    }
    return rc;
}

/* Makes the value of a field that is computed. `*bytes` is a buffer that grows. */
static int make(struct beton *b, size_t field, uint64_t sample, uint8_t **bytes, size_t *room, struct leat_values *out,
                size_t k, size_t i, struct leat_error *error)
{
    struct leat_place at;
    const char *fault = NULL;
    char text[128];
    int rc = leat_places_get(&b->places, sample, b->origins[field].column->place, &at, error);
    if (!rc && leat_made_is_longer(&b->fields[field], at.length))
        fault = leat_made_longer;
    if (!rc && !fault && !leat_grow(bytes, room, (size_t)at.length + 1, 1))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", b->path);
    rc = rc || fault ? rc : leat_io_read(b->file, at.offset, at.length, *bytes, error);
    if (rc)
        return rc;
    if (!fault)
        rc = leat_made_value(&b->fields[field], *bytes, (size_t)at.length, out, k, i, &fault);
    if (fault)
        return leat_fail_at(error, LEAT_E_DECODE, b->path, (int64_t)at.offset,
                            "the value of \"%s\", which is %s, at byte %" PRIu64 " of %s is wrong: %s",
                            b->fields[field].name, leat_field_text(&b->fields[field], text, sizeof text), at.offset,
                            b->path, fault);
    return rc ? leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", b->path) : LEAT_OK;
}

static const uint8_t *row_of(const struct beton *b, size_t field, uint64_t sample)
{
    return b->rows + sample * b->layout.row_bytes + b->origins[field].column->at;
}

/* The checksum of a value. One that cannot be made counts as nothing, as it is of no pack. */
static int sum_value(struct beton *b, size_t field, uint64_t sample, uint64_t *sum, uint8_t **bytes, size_t *room,
                     struct leat_error *error)
{
    struct leat_values values;
    struct leat_place at;
    uint8_t number[8];
    int rc;
    *sum = 0;
    if (b->storage[field] == LEAT_STORAGE_MAPPED) {
        rc = leat_guarded_copy(number, row_of(b, field, sample), sizeof number, error);
        *sum = leat_hash64(number, sizeof number);
        return rc;
    }
    if (b->storage[field] == LEAT_STORAGE_EXTENT) {
        rc = leat_places_get(&b->places, sample, b->origins[field].column->place, &at, error);
        *sum = at.sum;
        return rc;
    }
    if (leat_values_init(&values, 1, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a value of %s", b->path);
    rc = make(b, field, sample, bytes, room, &values, 0, 0, error);
    if (!rc)
        *sum = leat_hash64(values.at[0].data, (size_t)values.at[0].bytes);
    leat_values_destroy(&values);
    return rc == LEAT_E_DECODE ? LEAT_OK : rc;
}

static int sum_all(struct beton *b, const struct leat_open_options *options, struct leat_error *error)
{
    uint8_t *bytes = NULL;
    size_t room = 0;
    int rc = LEAT_OK;
    for (uint64_t i = 0; i < b->source.count && !rc; i++) {
        uint64_t sample[2] = {0, 0}, sum;
        for (size_t k = 0; k < b->source.n_fields && !rc; k++) {
            rc = sum_value(b, k, i, &sum, &bytes, &room, error);
            leat_fingerprint_value(sample, sum);
        }
        leat_fingerprint_append(b->source.fingerprint, sample);
        if (!rc && options->progress && i % 65536 == 65535 && options->progress(options->user, i, b->source.count))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", b->path);
    }
    leat_free(bytes);
    return rc;
}

static int load(struct beton *b, const struct leat_open_options *options, struct leat_error *error)
{
    uint64_t places;
    int rc = leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_wanted_check(options, error);
    rc = rc ? rc : leat_io_open(b->path, &b->file, error);
    rc = rc ? rc : leat_beton_read_layout(b->file, options, &b->layout, error);
    rc = rc ? rc : make_fields(b, options, error);
    rc = rc ? rc : find_index(b, options, error);
    rc = rc ? rc : find_rows(b, error);
    if (rc)
        return rc;
    b->source.count = b->layout.samples;
    if (!leat_mul_u64(b->source.count, b->layout.n_places, &places) || places > LEAT_RAW_PHOTOS_MOST)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "%s has more than %" PRIu64 " photos and other values, which leat "
                         "does not count",
                         b->path, LEAT_RAW_PHOTOS_MOST);
    rc = leat_raw_photos_open(b->file, place_of_pixels, b, &b->raw, error);
    rc = rc ? rc : ready_fields(b, options, error);
    return rc ? rc : sum_all(b, options, error);
}

static int beton_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    struct beton *b = leat_new(struct beton);
    *out = NULL;
    int rc = b && (b->path = leat_io_is_remote(path) ? leat_strdup(path) : leat_absolute_path(path))
                 ? LEAT_OK
                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    if (!rc) {
        b->source.v = &leat_format_beton;
        b->source.path = b->path;
        b->source.fields = b->fields;
        b->source.storage = b->storage;
        b->source.metadata = "{}";
        b->source.notice = "";
        b->recheck = options->recheck;
        rc = load(b, options, error);
    }
    if (!rc)
        *out = &b->source;
    else if (b)
        beton_close(&b->source);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int beton_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                      const void **rows, size_t *failed, struct leat_error *error)
{
    for (size_t i = 0; i < n; i++)
        rows[i] = row_of((const struct beton *)source, field, samples[i]);
    return LEAT_OK;
}

static bool is_verified(const struct beton *b, size_t field, uint64_t sample)
{
    const _Atomic uint64_t *bits = b->origins[field].verified;
    return b->recheck == LEAT_RECHECK_NEVER ||
           (b->recheck == LEAT_RECHECK_FIRST &&
            atomic_load_explicit(&bits[sample / 64], memory_order_relaxed) >> (sample % 64) & 1);
}

/* Files: 0 is the beton, 1 its photos as pixels. */
static int beton_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                         struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct beton *b = (struct beton *)source;
    struct origin *o = &b->origins[field];
    const uint64_t k = o->column->place;
    *failed = 0;
    int rc = leat_io_unchanged(b->file, error);
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_place at;
        struct leat_extent *e = &extents[i];
        *failed = i;
        if ((rc = leat_places_get(&b->places, samples[i], k, &at, error)))
            break;
        *e = (struct leat_extent){.offset = at.offset, .length = at.length, .checksum = at.sum};
        e->verify = !is_verified(b, field, samples[i]);
        if (b->fields[field].kind != LEAT_KIND_IMAGE)
            continue;
        if (o->column->type == LEAT_BETON_RGB && leat_beton_mode(at.note)) {
            const uint32_t w = leat_beton_width(at.note), h = leat_beton_height(at.note);
            e->file = 1;
            e->offset = (samples[i] * b->places.width + k) << LEAT_RAW_PHOTO_SHIFT;
            e->length = leat_raw_photo_bytes(w, h);
            leat_raw_photo_describe(w, h, &e->info);
        } else {
            leat_photo_files_describe(&o->photos, samples[i], &e->info);
        }
    }
    return rc;
}

static int beton_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                         size_t n, struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct beton *b = (struct beton *)source;
    uint8_t *bytes = NULL;
    size_t room = 0, i = 0;
    int rc = leat_io_unchanged(b->file, error);
    for (; i < n && !rc; i += !rc) {
        if (leat_values_cancelled(out))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading was cancelled");
        for (size_t k = 0; k < n_fields && !rc; k++)
            rc = make(b, fields[k], samples[i], &bytes, &room, out, k, i, error);
    }
    *failed = i;
    leat_free(bytes);
    return rc;
}

static int beton_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    const struct beton *b = (const struct beton *)source;
    *out = leat_io_retain(file ? b->raw : b->file);
    return LEAT_OK;
}

static bool beton_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    return !extent->file && leat_io_expect(((const struct beton *)source)->file, extent->offset, extent->length);
}

static void beton_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health found)
{
    struct beton *b = (struct beton *)source;
    struct origin *o = &b->origins[field];
    if (verified)
        atomic_fetch_or_explicit(&o->verified[sample / 64], UINT64_C(1) << (sample % 64), memory_order_relaxed);
    if (b->fields[field].kind == LEAT_KIND_IMAGE && found != LEAT_HEALTH_UNCHECKED)
        leat_photo_files_mark(&o->photos, sample, found);
}

static bool beton_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                         const uint64_t *checksum)
{
    return leat_folder_rows_recall(((struct beton *)source)->origins[field].photos.rows, sample, to, length, checksum);
}

static void beton_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                       const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct beton *)source)->origins[field].photos.rows, sample, photo, photo_bytes, rows,
                          length);
}

static int beton_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_io_unchanged(((const struct beton *)source)->file, error);
}

/* Makes the index again, and compares it with one that was kept: of any other it is the first reading. */
static int beton_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                        struct leat_error *error)
{
    const struct beton *b = (const struct beton *)source;
    const struct leat_open_options opening = {.progress = options->progress, .user = options->user};
    struct leat_places now;
    struct leat_place was;
    struct leat_error fault;
    uint64_t faults = 0;
    int rc = leat_beton_index_make(b->file, &b->layout, &opening, &now, error);
    for (uint64_t i = 0; !rc && i < now.count * now.width; i++) {
        rc = leat_places_get(&b->places, i / now.width, i % now.width, &was, error);
        if (rc || !memcmp(&was, &now.at[i], sizeof was))
            continue;
        leat_fail_at(&fault, LEAT_E_CORRUPT, b->path, (int64_t)was.offset,
                     "the bytes are not those that were there when the index was made: restore the file, or remove "
                     "its index");
        leat_error_at_sample(&fault, (int64_t)(first_id + i / now.width), NULL);
        rc = leat_source_tell_fault(options, &fault, b->path, &faults, error);
    }
    leat_places_destroy(&now);
    leat_source_tell_verified(options, b->is_new ? LEAT_VERIFIED_READ : LEAT_VERIFIED_SUMS);
    return rc || !faults ? rc
                         : leat_fail(error, LEAT_E_CORRUPT, "%" PRIu64 " values of %s have other bytes than before",
                                     faults, b->path);
}

static int beton_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    *out = (struct leat_source_about){.bytes = ((const struct beton *)source)->file->size, .broken = UINT64_MAX};
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_beton = {
    .name = "beton",
    .recognise = beton_recognise,
    .takes_fields = true,
    .open = beton_open,
    .close = beton_close,
    .rows = beton_rows,
    .extents = beton_extents,
    .compute = beton_compute,
    .file = beton_file,
    .expect = beton_expect,
    .mark = beton_mark,
    .recall = beton_recall,
    .keep = beton_keep,
    .refresh = beton_refresh,
    .verify = beton_verify,
    .about = beton_about,
};
