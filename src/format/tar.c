/*
 * Tars of samples in place, as WebDataset writes them; plain, or compressed with gzip or zstd. Several are one source,
 * so that its fields are those that any of them has (tar_fields.c). Each has an index, made once (tar_index.h).
 *
 *     images, bytes, text, JSON      extents of the tar
 *     whole numbers in text          in the index, mapped
 *     arrays, other numbers          computed (tar_values.c)
 *
 * There are no checksums of bodies: changes are noticed by the size and the time of a tar. Blocks of a compressed one
 * have theirs.
 */
#include "format/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/tar_scan.h"
#include "format/wanted.h"
#include "io/guard.h"
#include "io/zstd.h"

enum { HEAD = 4096 };
/* Of a compressed tar, whose few bytes may stand for any number, no file is larger. */
#define MOST_COMPRESSED (UINT64_C(1) << 29)

/* ---- recognising ----------------------------------------------------------------------------- */

static bool tar_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    static const char *const names[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.bgz"};
    uint8_t decoded[HEAD];
    const size_t length = strlen(path);
    if (folder || !n)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t k = strlen(names[i]);
        if (length >= k && !strcasecmp(path + length - k, names[i]))
            return true;
    }
    return leat_tar_recognise(decoded, leat_compressed_head(head, n, decoded, sizeof decoded));
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_file(struct leat_tar_file *f)
{
    leat_io_release(f->keys);
    leat_their_file_close(&f->file);
    leat_tar_index_destroy(&f->index);
    leat_free(f->fields);
    leat_free(f->endings);
}

static void tar_close(struct leat_source *source)
{
    struct leat_tar *t = (struct leat_tar *)source;
    for (size_t i = 0; i < t->source.n_fields; i++) {
        leat_photo_files_destroy(&t->origins[i].photos);
        leat_free(t->owned[i]);
    }
    for (size_t i = 0; i < t->n_files; i++)
        close_file(&t->files[i]);
    for (size_t i = 0; i < t->n_endings; i++)
        leat_free(t->endings[i]);
    leat_io_release(t->null);
    leat_free(t->notes.text);
    leat_free(t->files);
    leat_free(t);
}

static bool load_index(void *index, const char *place, struct leat_io_file *source, struct leat_their_frames *frames)
{
    struct leat_tar_index *x = index;
    if (!leat_tar_index_load(x, place, source, false))
        return false;
    *frames = (struct leat_their_frames){x->frames, x->n_frames, x->copy_bytes, x->bytes};
    return true;
}

static int make_index(void *index, struct leat_io_file *file, enum leat_compression compression, const char *copy,
                      const struct leat_open_options *options, struct leat_compressed *made, struct leat_error *error)
{
    struct leat_tar_index *x = index;
    const struct leat_tar_making making = {.file = file,
                                           .compression = compression,
                                           .copy = copy,
                                           .progress = options->progress,
                                           .user = options->user,
                                           .most = compression ? MOST_COMPRESSED : 0};
    const int rc = leat_tar_index_make(&making, made, x, error);
    if (rc)
        return rc;
    x->frames = x->own_frames = made->frames;
    x->n_frames = made->n_frames;
    x->copy_bytes = made->copy_bytes;
    return LEAT_OK;
}

static void save_index(void *index, const char *place, struct leat_io_file *source)
{
    leat_tar_index_save(index, place, source);
}

static void destroy_index(void *index)
{
    leat_tar_index_destroy(index);
}

static const struct leat_their_index how = {load_index, make_index, save_index, destroy_index};

static int open_file(struct leat_tar_file *f, const char *path, const struct leat_open_options *options,
                     struct leat_error *error)
{
    const int rc = leat_their_file_open(&f->file, path, &how, &f->index, options, error);
    return rc ? rc : leat_io_from_memory(f->file.path, f->index.keys, f->index.keys_bytes, &f->keys, error);
}

struct photos {
    const struct leat_tar *tar;
    size_t field;
};

static int place_of_photo(void *user, uint64_t sample, struct leat_photo_place *out, struct leat_error *error)
{
    const struct photos *p = user;
    const struct leat_tar_file *f = leat_tar_file_of(p->tar, sample);
    struct leat_tar_member m = {0};
    bool found;
    const int rc = leat_tar_find(p->tar, p->field, sample, &found, &m, error);
    *out = (struct leat_photo_place){f->file.path, f->file.mtime_ns, leat_tar_at(&m), leat_tar_bytes(&m)};
    return rc;
}

static int finish(struct leat_tar *t, const struct leat_open_options *options, struct leat_error *error)
{
    uint64_t hidden = 0, bare = 0, links = 0, torn = 0;
    for (size_t i = 0; i < t->n_files; i++) {
        const struct leat_tar_index *x = &t->files[i].index;
        t->files[i].file.first = t->source.count;
        t->source.count += x->count;
        hidden += x->hidden;
        bare += x->bare;
        links += x->links;
        torn += x->torn;
    }
    if (!t->source.count)
        return leat_fail_at(error, LEAT_E_FORMAT, t->source.path, LEAT_NO_OFFSET,
                            "%s has no sample: its files have no name with a dot, such as 0001.jpg", t->source.path);
    t->source.notice = "";
    if (options->verifying)
        return LEAT_OK;
    int rc = leat_tar_make_fields(t, options, error);
    for (size_t i = 0; i < t->source.n_fields && !rc; i++)
        if (t->fields[i].kind == LEAT_KIND_IMAGE)
            rc = leat_photo_files_within(&t->origins[i].photos, t->source.path, t->fields[i].name, t->source.count,
                                         options, place_of_photo, &(struct photos){t, i}, error);
    rc = rc ? rc : leat_io_from_memory(t->source.path, "null", 4, &t->null, error);
    rc = rc ? rc : leat_tar_sum(t, options, error);
    if (hidden)
        leat_note(&t->notes, "left out: %" PRIu64 " %s with a name that begins with a dot", hidden,
                  hidden == 1 ? "file" : "files");
    if (bare)
        leat_note(&t->notes, "left out: %" PRIu64 " %s without a dot in the name, and so without a field", bare,
                  bare == 1 ? "file" : "files");
    if (links)
        leat_note(&t->notes, "left out: %" PRIu64 " %s: pack the files again with tar --hard-dereference --dereference",
                  links, links == 1 ? "link" : "links");
    if (torn)
        leat_note(&t->notes,
                  "%" PRIu64
                  " %s the name of one before, and files that it lacks: the files of a sample have to follow "
                  "each other, as tar --sort=name writes them",
                  torn, torn == 1 ? "sample has" : "samples have");
    t->source.notice = t->notes.text ? t->notes.text : "";
    return rc;
}

static int tar_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                          struct leat_source **out, struct leat_error *error)
{
    struct leat_tar *t = leat_new(struct leat_tar);
    int rc = t && (t->files = leat_new_array(n, sizeof *t->files))
                 ? LEAT_OK
                 : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", paths[0]);
    *out = NULL;
    rc = rc ? rc : leat_kept_check_dir(options->index_dir, error);
    rc = rc ? rc : leat_wanted_check(options, error);
    for (size_t i = 0; i < n && !rc; i++) {
        t->n_files++;
        rc = open_file(&t->files[i], paths[i], options, error);
    }
    if (!rc) {
        t->all.at = t->files;
        t->all.each = sizeof *t->files;
        t->all.n = n;
        t->source.v = &leat_format_tar;
        t->source.path = t->files[0].file.path;
        t->source.fields = t->fields;
        t->source.storage = t->storage;
        t->source.metadata = "{}";
        rc = finish(t, options, error);
    }
    if (!rc)
        *out = &t->source;
    else if (t)
        tar_close(&t->source);
    return rc;
}

static int tar_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    return tar_open_files(&path, 1, options, out, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct leat_tar_file *leat_tar_file_of(const struct leat_tar *t, uint64_t sample)
{
    return &t->files[leat_their_files_find(&t->all, sample)];
}

int leat_tar_find(const struct leat_tar *t, size_t field, uint64_t sample, bool *found, struct leat_tar_member *out,
                  struct leat_error *error)
{
    const struct leat_tar_file *f = leat_tar_file_of(t, sample);
    const uint16_t ending = f->endings[t->origins[field].ending];
    *found = false;
    return ending == LEAT_TAR_NOT_THERE
               ? LEAT_OK
               : leat_tar_index_find(&f->index, sample - f->file.first, ending, found, out, error);
}

int leat_tar_fail(const struct leat_tar *t, size_t field, uint64_t sample, const struct leat_tar_member *m, int code,
                  const char *what, struct leat_error *error)
{
    const struct leat_tar_file *f = leat_tar_file_of(t, sample);
    char text[128];
    return leat_fail_at(error, code, f->file.path, (int64_t)leat_tar_at(m),
                        "the value of \"%s\", which is %s, at byte %" PRIu64 " of %s is wrong: %s",
                        t->fields[field].name, leat_field_text(&t->fields[field], text, sizeof text), leat_tar_at(m),
                        f->file.path, what);
}

/* The number of a member in its place, or what is wrong. */
static int number_of(const struct leat_tar *t, size_t field, uint64_t sample, const void **row,
                     struct leat_error *error)
{
    static const int64_t none = 0;
    static const bool there[] = {false, true};
    const struct leat_tar_file *f = leat_tar_file_of(t, sample);
    struct leat_tar_member m;
    uint64_t number = 0;
    bool found;
    const uint16_t ending = f->endings[t->origins[field].ending];
    int rc = leat_tar_find(t, field, sample, &found, &m, error);
    if (t->origins[field].use == LEAT_TAR_VALID)
        *row = &there[found];
    else if (!rc && found && leat_tar_form_of(&m) != LEAT_TAR_INTEGER)
        rc = leat_tar_fail(t, field, sample, &m, LEAT_E_DECODE,
                           "it is no whole number in text: mend it, or take the field as \"str\"", error);
    else if (!rc && found && !(rc = leat_tar_index_number(&f->index, sample - f->file.first, ending, &number, error)))
        *row = &f->index.members[number].number;
    else if (!found)
        *row = &none;
    return rc;
}

static int tar_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const int rc = number_of((struct leat_tar *)source, field, samples[i], &rows[i], error);
        if (rc) {
            *failed = i;
            return rc;
        }
    }
    return LEAT_OK;
}

/* Files: the tars, then the keys of each, and the JSON of samples that lack one. */
static int extent_of(struct leat_tar *t, size_t field, uint64_t sample, struct leat_extent *out,
                     struct leat_error *error)
{
    const struct leat_tar_file *f = leat_tar_file_of(t, sample);
    const uint64_t number = (uint64_t)(f - t->files);
    struct leat_tar_sample at[2];
    struct leat_tar_member m;
    bool found;
    *out = (struct leat_extent){.file = number};
    if (t->origins[field].use == LEAT_TAR_NAME) {
        const int rc = leat_tar_index_sample(&f->index, sample - f->file.first, at, error);
        *out = (struct leat_extent){
            .file = t->n_files + number, .offset = at[0].key, .length = rc ? 0 : strlen(f->index.keys + at[0].key)};
        return rc;
    }
    const int rc = leat_tar_find(t, field, sample, &found, &m, error);
    if (rc)
        return rc;
    if (found) {
        out->offset = leat_tar_at(&m);
        out->length = leat_tar_bytes(&m);
    } else if (t->fields[field].kind == LEAT_KIND_JSON) {
        out->file = 2 * t->n_files;
        out->length = 4;
    }
    if (t->fields[field].kind == LEAT_KIND_IMAGE)
        leat_photo_files_describe(&t->origins[field].photos, sample, &out->info);
    return LEAT_OK;
}

static int tar_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    struct leat_tar *t = (struct leat_tar *)source;
    int rc = leat_their_files_check(&t->all, samples, n, failed, error);
    for (size_t i = 0; i < n && !rc; i++)
        if ((rc = extent_of(t, field, samples[i], &extents[i], error)))
            *failed = i;
    return rc;
}

static int tar_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_tar *t = (struct leat_tar *)source;
    if (file < t->n_files)
        return leat_their_file_bytes(&t->files[file].file, &t->all.pace, out, error);
    *out = leat_io_retain(file < 2 * t->n_files ? t->files[file - t->n_files].keys : t->null);
    return LEAT_OK;
}

static void tar_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health found)
{
    struct leat_tar *t = (struct leat_tar *)source;
    if (t->fields[field].kind == LEAT_KIND_IMAGE)
        leat_photo_files_mark(&t->origins[field].photos, sample, found);
}

static bool tar_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                       const uint64_t *checksum)
{
    return leat_folder_rows_recall(((struct leat_tar *)source)->origins[field].photos.rows, sample, to, length,
                                   checksum);
}

static void tar_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                     const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct leat_tar *)source)->origins[field].photos.rows, sample, photo, photo_bytes, rows,
                          length);
}

static int tar_refresh(struct leat_source *source, struct leat_error *error)
{
    return leat_their_files_refresh(&((struct leat_tar *)source)->all, error);
}

static bool tar_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent)
{
    return leat_their_files_expect(&((const struct leat_tar *)source)->all, extent);
}

struct passing {
    struct leat_their_verifying *verifying;
    const struct leat_tar_file *file;
    uint64_t seen;
};

static int pass(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct passing *p = user;
    const uint64_t all = p->file->index.bytes, done = p->seen += n;
    const double part = all && done < all ? (double)done / (double)all : 1;
    return leat_their_verifying_tell(p->verifying, (uint64_t)(part * (double)p->file->file.size), 0)
               ? leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", p->file->file.path)
               : LEAT_OK;
}

static bool is_compressed(const struct leat_tar_file *f)
{
    return f->file.decoded != f->file.file;
}

/* A compressed one is decoded to its end, which compares the checksums of gzip, and those that frames of zstd may have:
 * writers leave them out unless they are told otherwise. */
static int verify_file(struct leat_source *source, size_t number, struct leat_their_verifying *verifying,
                       struct leat_error *error)
{
    const struct leat_tar_file *f = &((const struct leat_tar *)source)->files[number];
    struct passing passing = {.verifying = verifying, .file = f};
    enum leat_compression compression;
    struct leat_io_file *file = NULL;
    int rc = leat_io_open(f->file.path, &file, error);
    rc = rc ? rc : leat_compression_of(file, &compression, error);
    rc = rc ? rc : leat_compressed_pass(file, compression, pass, &passing, error);
    if (!rc && compression == LEAT_COMPRESSION_ZSTD)
        rc = leat_zstd_look_for_sums(file, 0, file->size, &verifying->summed, &verifying->unsummed, error);
    else if (!rc)
        verifying->summed = true;
    leat_io_release(file);
    return rc || passing.seen == f->index.bytes
               ? rc
               : leat_fail_at(error, LEAT_E_CORRUPT, f->file.path, LEAT_NO_OFFSET,
                              "%s decodes to %" PRIu64 " bytes, and had %" PRIu64 " when its index was made: restore "
                              "it, or remove its index",
                              f->file.path, passing.seen, f->index.bytes);
}

static int tar_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error)
{
    const struct leat_tar *t = (const struct leat_tar *)source;
    for (size_t i = 0; i < t->n_files; i++)
        if (!is_compressed(&t->files[i]))
            return leat_source_fail_unsummed(source, t->files[i].file.path, error);
    return leat_their_files_verify(&t->all, source, options, first_id, verify_file, error);
}

/* Whether nothing follows the last member, or no zeros do: some writers leave out the end, and a tar that was cut
 * between members has none. One that cannot be read now has one. */
static bool is_endless(const struct leat_tar_file *f)
{
    const struct leat_tar_index *x = &f->index;
    uint8_t block[LEAT_TAR_BLOCK];
    uint64_t end = 0;
    for (size_t e = 0; e < x->n_endings && x->count; e++) {
        struct leat_tar_member m;
        bool found;
        if (leat_tar_index_find(x, x->count - 1, e, &found, &m, NULL))
            return false;
        if (found && leat_tar_at(&m) + leat_tar_bytes(&m) > end)
            end = leat_tar_at(&m) + leat_tar_bytes(&m);
    }
    if (x->bytes < end + LEAT_TAR_BLOCK || x->bytes < sizeof block)
        return true;
    struct leat_io_file *file;
    if (leat_their_file_bytes(&f->file, NULL, &file, NULL))
        return false;
    const int rc = leat_io_read(file, x->bytes - sizeof block, sizeof block, block, NULL);
    leat_io_release(file);
    bool zero = true;
    for (size_t i = 0; i < sizeof block && !rc; i++)
        zero = zero && !block[i];
    return !zero;
}

static int tar_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct leat_tar *t = (const struct leat_tar *)source;
    leat_their_files_about(&t->all, out);
    for (size_t i = 0; i < t->n_files; i++) /* of remote ones each would be a request */
        out->endless += !leat_io_is_remote(t->files[i].file.path) && is_endless(&t->files[i]);
    return LEAT_OK;
}

static int tar_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                     struct leat_error *error)
{
    leat_their_files_place(&((const struct leat_tar *)source)->all, sample, out);
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_tar = {
    .name = "tar",
    .recognise = tar_recognise,
    .takes_fields = true,
    .open = tar_open,
    .open_files = tar_open_files,
    .close = tar_close,
    .rows = tar_rows,
    .extents = tar_extents,
    .compute = leat_tar_compute,
    .file = tar_file,
    .expect = tar_expect,
    .mark = tar_mark,
    .recall = tar_recall,
    .keep = tar_keep,
    .refresh = tar_refresh,
    .verify = tar_verify,
    .about = tar_about,
    .place = tar_place,
};
