/*
 * TFRecord files of tf.train.Example in place (tfrecord_index.h); plain, or compressed with gzip. Several are one
 * source, so that its fields are the features that any of them has. Each has an index, made once.
 *
 *     a single bytes          photo, text, JSON, bytes: an extent
 *     a single number         in the index, mapped
 *     lists of numbers        computed: protobuf packs integers
 *
 * The pass that makes the index compares all checksums; then the hashes that it found are compared when a value is read
 * first.
 */
#include "format/tfrecord.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/wanted.h"

enum { HEAD = 4096 };

/* ---- recognising ----------------------------------------------------------------------------- */

static bool tfrecord_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    static const char *const names[] = {".tfrecord",    ".tfrecords",    ".tfrec",
                                        ".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"};
    uint8_t decoded[HEAD];
    const size_t length = strlen(path);
    if (folder || !n)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t k = strlen(names[i]);
        if (length >= k && !strcasecmp(path + length - k, names[i]))
            return true;
    }
    return leat_tfrecord_recognise(decoded, leat_compressed_head(head, n, decoded, sizeof decoded));
}

/* ---- places ---------------------------------------------------------------------------------- */

struct leat_tfrecord_file *leat_tfrecord_file_of(const struct leat_tfrecord *t, uint64_t sample)
{
    return &t->files[leat_their_files_find(&t->all, sample)];
}

int leat_tfrecord_find(const struct leat_tfrecord *t, size_t field, uint64_t sample, uint64_t *number,
                       struct leat_place *out, struct leat_error *error)
{
    const struct leat_tfrecord_file *f = leat_tfrecord_file_of(t, sample);
    const uint16_t column = f->own[t->origins[field].column];
    *number = UINT64_MAX;
    return column == LEAT_TFRECORD_NOT_THERE
               ? LEAT_OK
               : leat_places_find(&f->places, sample - f->file.first, column, number, out, error);
}

int leat_tfrecord_fail(const struct leat_tfrecord *t, size_t field, uint64_t sample, const struct leat_place *at,
                       int code, const char *what, struct leat_error *error)
{
    const struct leat_their_file *f = &leat_tfrecord_file_of(t, sample)->file;
    char text[128];
    return leat_fail_at(error, code, f->path, (int64_t)at->offset,
                        "the value of \"%s\", which is %s, at byte %" PRIu64 " of %s is wrong: %s",
                        t->fields[field].name, leat_field_text(&t->fields[field], text, sizeof text), at->offset,
                        f->path, what);
}

/* Whether a place is what its field is, but for the shape. */
const char *leat_tfrecord_fault(const struct leat_tfrecord *t, size_t field, const struct leat_place *at)
{
    static const char *const others[] = {"", "the record has bytes there", "the record has floats there",
                                         "the record has integers there"};
    const unsigned kind = leat_tfrecord_kind_of(at) & 3;
    if (kind != leat_tfrecord_most(&t->columns[t->origins[field].column]))
        return others[kind];
    if ((kind == LEAT_TFRECORD_BYTES || t->storage[field] == LEAT_STORAGE_MAPPED) && leat_tfrecord_count_of(at) != 1)
        return "the record has another number of values than one";
    return NULL;
}

/* The number of a sample in its place, or what is wrong. */
int leat_tfrecord_number(const struct leat_tfrecord *t, size_t field, uint64_t sample, const void **row,
                         struct leat_error *error)
{
    static const int64_t none = 0;
    static const float nan = NAN;
    static const bool there[] = {false, true};
    struct leat_place at;
    uint64_t number;
    const int rc = leat_tfrecord_find(t, field, sample, &number, &at, error);
    const bool found = number != UINT64_MAX;
    const char *fault = rc || !found || t->origins[field].valid ? NULL : leat_tfrecord_fault(t, field, &at);
    *row = t->origins[field].valid              ? (const void *)&there[found]
           : found                              ? (const void *)&leat_tfrecord_file_of(t, sample)->places.at[number].sum
           : t->fields[field].dtype == LEAT_F32 ? (const void *)&nan
                                                : (const void *)&none;
    return fault ? leat_tfrecord_fail(t, field, sample, &at, LEAT_E_DECODE, fault, error) : rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void tfrecord_close(struct leat_source *source)
{
    struct leat_tfrecord *t = (struct leat_tfrecord *)source;
    for (size_t i = 0; i < LEAT_TFRECORD_FIELDS; i++) {
        leat_photo_files_destroy(&t->origins[i].photos);
        leat_free(t->origins[i].verified);
        leat_free(t->owned[i]);
    }
    for (size_t i = 0; i < t->n_files; i++) {
        leat_their_file_close(&t->files[i].file);
        leat_places_destroy(&t->files[i].places);
        leat_free(t->files[i].columns);
        leat_free(t->files[i].own);
    }
    for (size_t i = 0; i < t->n_columns; i++)
        leat_free(t->texts[i]);
    leat_io_release(t->null);
    leat_free(t->files);
    leat_free(t);
}

static bool load_index(void *index, const char *place, struct leat_io_file *source, struct leat_their_frames *x)
{
    struct leat_places *p = index;
    if (!leat_places_load(p, place, source, LEAT_TFRECORD_KIND, sizeof(struct leat_tfrecord_column), false))
        return false;
    if (!leat_tfrecord_index_fits(p)) {
        leat_places_destroy(p);
        return false;
    }
    *x = (struct leat_their_frames){p->frames, p->n_frames, p->copy_bytes, p->bytes};
    return true;
}

static int make_index(void *index, struct leat_io_file *file, enum leat_compression compression, const char *copy,
                      const struct leat_open_options *options, struct leat_compressed *made, struct leat_error *error)
{
    uint8_t head[2];
    const struct leat_tfrecord_making making = {
        .file = file, .compression = compression, .copy = copy, .progress = options->progress, .user = options->user};
    int rc = leat_tfrecord_index_make(&making, made, index, error);
    if (rc == LEAT_E_CORRUPT && !compression && file->size > 2 && !leat_io_read(file, 0, 2, head, NULL) &&
        (head[0] & 15) == 8 && (head[0] << 8 | head[1]) % 31 == 0)
        rc = leat_fail_at(error, LEAT_E_UNSUPPORTED, file->path, 0,
                          "%s is compressed with ZLIB, which cannot be read from its middle: write it with GZIP, or "
                          "plain",
                          file->path);
    return rc;
}

static void save_index(void *index, const char *place, struct leat_io_file *source)
{
    leat_places_save(index, place, source, LEAT_TFRECORD_KIND, sizeof(struct leat_tfrecord_column));
}

static void destroy_index(void *index)
{
    leat_places_destroy(index);
}

static const struct leat_their_index how = {load_index, make_index, save_index, destroy_index};

struct photos {
    const struct leat_tfrecord *t;
    size_t field;
};

static int place_of_photo(void *user, uint64_t sample, struct leat_photo_place *out, struct leat_error *error)
{
    const struct photos *p = user;
    const struct leat_their_file *f = &leat_tfrecord_file_of(p->t, sample)->file;
    struct leat_place at = {0};
    uint64_t number;
    const int rc = leat_tfrecord_find(p->t, p->field, sample, &number, &at, error);
    *out = (struct leat_photo_place){f->path, f->mtime_ns, at.offset, at.length};
    return rc;
}

static int ready_fields(struct leat_tfrecord *t, const struct leat_open_options *options, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < t->source.n_fields && !rc; i++) {
        struct leat_tfrecord_origin *o = &t->origins[i];
        if (t->storage[i] != LEAT_STORAGE_EXTENT)
            continue;
        if (!(o->verified = leat_new_array((size_t)(t->source.count / 64 + 1), sizeof *o->verified)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->source.path);
        if (t->fields[i].kind == LEAT_KIND_IMAGE)
            rc = leat_photo_files_within(&o->photos, t->source.path, t->fields[i].name, t->source.count, options,
                                         place_of_photo, &(struct photos){t, i}, error);
    }
    return rc;
}

static int tfrecord_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                               struct leat_source **out, struct leat_error *error)
{
    struct leat_tfrecord *t = leat_new(struct leat_tfrecord);
    int rc = t && (t->files = leat_new_array(n, sizeof *t->files))
                 ? LEAT_OK
                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", paths[0]);
    *out = NULL;
    rc = rc ? rc : leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_wanted_check(options, error);
    for (size_t i = 0; i < n && !rc; i++) {
        struct leat_tfrecord_file *f = &t->files[t->n_files++];
        rc = leat_their_file_open(&f->file, paths[i], &how, &f->places, options, error);
        f->file.first = t->source.count;
        t->source.count += f->places.count;
    }
    if (!rc) {
        t->all.at = t->files;
        t->all.each = sizeof *t->files;
        t->all.n = n;
        t->source.v = &leat_format_tfrecord;
        t->source.path = t->files[0].file.path;
        t->source.fields = t->fields;
        t->source.storage = t->storage;
        t->source.metadata = "{}";
        t->source.notice = "";
        t->recheck = options->recheck;
        rc = t->source.count ? LEAT_OK
                             : leat_fail_at(error, LEAT_E_FORMAT, t->source.path, LEAT_NO_OFFSET,
                                            "%s has no record, and so no fields", t->source.path);
    }
    rc = rc ? rc : leat_tfrecord_make_fields(t, options, error);
    rc = rc ? rc : ready_fields(t, options, error);
    rc = rc ? rc : leat_io_from_memory(t->source.path, "null", 4, &t->null, error);
    rc = rc ? rc : leat_tfrecord_sum(t, options, error);
    if (!rc)
        *out = &t->source;
    else if (t)
        tfrecord_close(&t->source);
    return rc;
}

static int tfrecord_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                         struct leat_error *error)
{
    return tfrecord_open_files(&path, 1, options, out, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int tfrecord_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                         const void **rows, size_t *failed, struct leat_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const int rc = leat_tfrecord_number((struct leat_tfrecord *)source, field, samples[i], &rows[i], error);
        if (rc) {
            *failed = i;
            return rc;
        }
    }
    return LEAT_OK;
}

static bool is_verified(const struct leat_tfrecord *t, size_t field, uint64_t sample)
{
    const _Atomic uint64_t *bits = t->origins[field].verified;
    return t->recheck == LEAT_RECHECK_NEVER ||
           (t->recheck == LEAT_RECHECK_FIRST &&
            atomic_load_explicit(&bits[sample / 64], memory_order_relaxed) >> (sample % 64) & 1);
}

/* Files: those of records, and the JSON of samples that lack one. */
static int extent_of(struct leat_tfrecord *t, size_t field, uint64_t sample, struct leat_extent *out,
                     struct leat_error *error)
{
    struct leat_place at;
    uint64_t number;
    int rc = leat_tfrecord_find(t, field, sample, &number, &at, error);
    *out = (struct leat_extent){.file = (uint64_t)(leat_tfrecord_file_of(t, sample) - t->files)};
    const char *fault = rc || number == UINT64_MAX ? NULL : leat_tfrecord_fault(t, field, &at);
    if (rc || fault)
        return rc ? rc : leat_tfrecord_fail(t, field, sample, &at, LEAT_E_DECODE, fault, error);
    if (number != UINT64_MAX) {
        out->offset = at.offset;
        out->length = at.length;
        out->checksum = at.sum;
        out->verify = !is_verified(t, field, sample);
    } else if (t->fields[field].kind == LEAT_KIND_JSON) {
        out->file = t->n_files;
        out->length = 4;
    }
    if (t->fields[field].kind == LEAT_KIND_IMAGE)
        leat_photo_files_describe(&t->origins[field].photos, sample, &out->info);
    return LEAT_OK;
}

static int tfrecord_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                            struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct leat_tfrecord *t = (struct leat_tfrecord *)source;
    int rc = leat_their_files_check(&t->all, samples, n, failed, error);
    for (size_t i = 0; i < n && !rc; i++)
        if ((rc = extent_of(t, field, samples[i], &extents[i], error)))
            *failed = i;
    return rc;
}

static int tfrecord_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_tfrecord *t = (struct leat_tfrecord *)source;
    if (file < t->n_files)
        return leat_their_file_bytes(&t->files[file].file, &t->all.pace, out, error);
    *out = leat_io_retain(t->null);
    return LEAT_OK;
}

static void tfrecord_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                          enum leat_health found)
{
    struct leat_tfrecord *t = (struct leat_tfrecord *)source;
    struct leat_tfrecord_origin *o = &t->origins[field];
    if (verified)
        atomic_fetch_or_explicit(&o->verified[sample / 64], UINT64_C(1) << (sample % 64), memory_order_relaxed);
    if (t->fields[field].kind == LEAT_KIND_IMAGE && found != LEAT_HEALTH_UNCHECKED)
        leat_photo_files_mark(&o->photos, sample, found);
}

static bool tfrecord_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                            const uint64_t *checksum)
{
    return leat_folder_rows_recall(((struct leat_tfrecord *)source)->origins[field].photos.rows, sample, to, length,
                                   checksum);
}

static void tfrecord_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo,
                          size_t photo_bytes, const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct leat_tfrecord *)source)->origins[field].photos.rows, sample, photo, photo_bytes,
                          rows, length);
}

static int tfrecord_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_their_files_refresh(&((struct leat_tfrecord *)source)->all, error);
}

static bool tfrecord_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    return leat_their_files_expect(&((const struct leat_tfrecord *)source)->all, extent);
}

/* Makes the places again, which compares all checksums, and compares them. */
static int verify_file(struct leat_source *source, size_t file_number, struct leat_their_verifying *verifying,
                       struct leat_error *error)
{
    const struct leat_tfrecord_file *f = &((const struct leat_tfrecord *)source)->files[file_number];
    struct leat_io_file *file = NULL;
    struct leat_tfrecord_making making = {.alone = true, .progress = leat_their_verifying_tell, .user = verifying};
    struct leat_compressed none;
    struct leat_places now;
    struct leat_place at = {0};
    uint64_t number;
    int rc = leat_io_open(f->file.path, &file, error);
    making.file = file;
    rc = rc ? rc : leat_compression_of(file, &making.compression, error);
    rc = rc ? rc : leat_tfrecord_index_make(&making, &none, &now, error);
    leat_io_release(file);
    if (rc)
        return rc;
    bool same = now.count == f->places.count && now.n_sparse == f->places.n_sparse;
    uint64_t i = 0;
    for (uint64_t k = 0; same && k < now.n_sparse; k++) {
        while (now.starts[i + 1] <= k)
            i++;
        rc = leat_places_find(&f->places, i, leat_place_column(&now.at[k]), &number, &at, error);
        same = !rc && number == k && !memcmp(&at, &now.at[k], sizeof at);
    }
    leat_places_destroy(&now);
    return rc || same ? rc
                      : leat_fail_at(error, LEAT_E_CORRUPT, f->file.path, (int64_t)at.offset,
                                     "sample %" PRIu64 ": the records of %s are not those that were there when its "
                                     "index was made: restore it, or remove its index",
                                     verifying->first_id + f->file.first + i, f->file.path);
}

static int tfrecord_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                           struct leat_error *error)
{
    return leat_their_files_verify(&((const struct leat_tfrecord *)source)->all, source, options, first_id, verify_file,
                                   error);
}

static int tfrecord_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    leat_their_files_about(&((const struct leat_tfrecord *)source)->all, out);
    return LEAT_OK;
}

static int tfrecord_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                          struct leat_error *error)
{
    leat_their_files_place(&((const struct leat_tfrecord *)source)->all, sample, out);
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_tfrecord = {
    .name = "tfrecord",
    .recognise = tfrecord_recognise,
    .takes_fields = true,
    .open = tfrecord_open,
    .open_files = tfrecord_open_files,
    .close = tfrecord_close,
    .rows = tfrecord_rows,
    .extents = tfrecord_extents,
    .compute = leat_tfrecord_compute,
    .file = tfrecord_file,
    .expect = tfrecord_expect,
    .mark = tfrecord_mark,
    .recall = tfrecord_recall,
    .keep = tfrecord_keep,
    .refresh = tfrecord_refresh,
    .verify = tfrecord_verify,
    .about = tfrecord_about,
    .place = tfrecord_place,
};
