/*
 * A folder of photos, in place.
 *
 *     root/ant/1.jpg  root/ant/2.jpg  root/bee/3.jpg         a class per sub-folder: fields image, label, name
 *     root/1.jpg  root/2.jpg                                 flat: fields image, name
 *
 * Samples are in bytewise order of their relative names; a class is the number of its folder in that order. A folder
 * that holds parts of a data set (train/ and val/) has no classes unless they are asked for: the notice says so.
 *
 * No photo is read before it is wanted, so its dimensions are unknown and nothing has checked it. `mark` keeps in two
 * bitmaps what decoding has shown; `keep` stores where its rows begin and the checksum of its bytes (folder_rows.c).
 * Names are extents of a file in memory, the listing's.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/folder_rows.h"
#include "format/listing.h"
#include "format/source.h"

struct folder {
    struct leat_source source;
    struct leat_listing listing;
    char *root;
    char *notice;
    size_t notice_room;
    const char **classes;
    int64_t *labels; /* NULL: flat */
    struct leat_io_file *names;
    _Atomic uint64_t *good, *broken; /* a bit per sample */
    struct leat_folder_rows *rows;
    enum leat_recheck recheck;
    struct leat_io_pace pace;
};

static const struct leat_field fields_of_classes[] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8, .flags = LEAT_FIELD_FILES},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8, .flags = LEAT_FIELD_DERIVED},
};
static const struct leat_field fields_of_flat[] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8, .flags = LEAT_FIELD_FILES},
    {.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8, .flags = LEAT_FIELD_DERIVED},
};
static const uint8_t storage_of_classes[] = {LEAT_STORAGE_EXTENT, LEAT_STORAGE_MAPPED, LEAT_STORAGE_EXTENT};
static const uint8_t storage_of_flat[] = {LEAT_STORAGE_EXTENT, LEAT_STORAGE_EXTENT};
enum { IMAGE = 0 };

static bool folder_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return folder;
}

static void folder_close(struct leat_source *source)
{
    struct folder *f = (struct folder *)source;
    leat_io_release(f->names);
    leat_folder_rows_close(f->rows);
    leat_listing_destroy(&f->listing);
    leat_free(f->root);
    leat_free(f->notice);
    leat_free(f->classes);
    leat_free(f->labels);
    leat_free(f->good);
    leat_free(f->broken);
    leat_free(f);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* If memory runs out, the notice is cut; that is no error. */
__attribute__((format(printf, 2, 3))) static void note(struct folder *f, const char *format, ...)
{
    size_t used = f->notice ? strlen(f->notice) : 0;
    va_list args;
    if (!f->notice && !(f->notice = leat_new_array(f->notice_room = 2048, 1)))
        return;
    if (used && used + 1 < f->notice_room) {
        f->notice[used++] = '\n';
        f->notice[used] = 0;
    }
    char line[1024];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    leat_escape(line, f->notice + used, f->notice_room - used);
}

/* "train", "train2017", "trainA", "val_1" are parts of a data set; "valley" is a class. */
static bool begins_part(const char *name, const char *word)
{
    size_t n = strlen(word);
    if (strncasecmp(name, word, n) != 0)
        return false;
    const char *rest = name + n;
    return !*rest || *rest == '_' || *rest == '-' || isdigit((unsigned char)*rest) || !rest[1];
}

/* Finds a folder for training and one for something else, if there are both. */
static bool holds_parts(const struct leat_listing *l, const char **train, const char **other)
{
    static const char *const others[] = {"val", "valid", "validation", "test", "testing", "dev", "eval"};
    *train = *other = NULL;
    for (size_t i = 0; i < l->n_folders; i++) {
        const char *name = l->folders[i].name;
        if (!l->folders[i].files)
            continue;
        if (!*train && (begins_part(name, "train") || begins_part(name, "training")))
            *train = name;
        for (size_t k = 0; !*other && k < sizeof others / sizeof *others; k++)
            if (begins_part(name, others[k]))
                *other = name;
    }
    return *train && *other;
}

static void note_what_was_left_out(struct folder *f)
{
    const struct leat_listing *l = &f->listing;
    const struct {
        uint64_t n;
        const char *what;
    } counts[] = {
        {l->others, "without the extension of a photo"},
        {l->hidden, "with a name that begins with a dot"},
        {l->links, "leading to folders by links, below the first level or back"},
        {l->missing, "that cannot be followed (links to nothing)"},
        {l->unnamed, "with a name that is not UTF-8"},
        {l->too_deep, "nested too deep"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].n)
            note(f, "left out: %" PRIu64 " %s %s", counts[i].n, counts[i].n == 1 ? "entry" : "entries", counts[i].what);
}

static void note_empty_classes(struct folder *f)
{
    const struct leat_listing *l = &f->listing;
    char names[512] = "";
    size_t n = 0, used = 0;
    for (size_t i = 0; i < l->n_folders; i++) {
        if (l->folders[i].files)
            continue;
        if (n++ < 5 && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s/", n > 1 ? ", " : "", l->folders[i].name);
    }
    if (n)
        note(f, "%zu of the %zu classes hold no photo: %s%s", n, l->n_folders, names, n > 5 ? ", ..." : "");
}

/* The notes for an error of one line: "; first note; second note", or "". Cut to fit. Returns `out`. */
static const char *notes_in_a_line(const struct folder *f, char *out, size_t room)
{
    size_t used = 0;
    *out = 0;
    for (const char *p = f->notice ? f->notice : "", *end; *p && used < room; p = *end ? end + 1 : end) {
        end = strchrnul(p, '\n');
        used += (size_t)snprintf(out + used, room - used, "; %.*s", (int)(end - p), p);
    }
    return out;
}

/* Decides whether sub-folders are classes, and drops the photos that do not count then. */
static int choose(struct folder *f, enum leat_labels labels, bool *by_folder, struct leat_error *error)
{
    struct leat_listing *l = &f->listing;
    const char *train, *other;
    size_t below = 0;
    for (size_t i = 0; i < l->n_folders; i++)
        below += l->folders[i].files;
    size_t in_root = l->n_files - below;
    bool parts = holds_parts(l, &train, &other);
    *by_folder = labels == LEAT_LABELS_FOLDERS || (labels == LEAT_LABELS_AUTO && below && !parts);
    if (labels == LEAT_LABELS_FOLDERS && !below)
        return leat_fail(error, LEAT_E_NOT_FOUND,
                         "%s has no sub-folder with photos, so there are no labels by folder (photos: %s)", f->root,
                         LEAT_LISTING_EXTENSIONS);
    if (parts && labels != LEAT_LABELS_NONE)
        note(f, "the folder holds %s/ and %s/: open one of them%s", train, other,
             *by_folder ? "; as asked, they are taken as classes" : "; taken together here, without labels");
    if (*by_folder) {
        if (in_root)
            note(f, "left out: %zu %s beside the folders of the classes", in_root, in_root == 1 ? "photo" : "photos");
        leat_listing_keep(l, 0);
        note_empty_classes(f);
    }
    return LEAT_OK;
}

static int build(struct folder *f, bool by_folder)
{
    struct leat_listing *l = &f->listing;
    size_t n = l->n_files;
    f->good = leat_new_array(n / 64 + 1, sizeof *f->good);
    f->broken = leat_new_array(n / 64 + 1, sizeof *f->broken);
    if (!f->good || !f->broken)
        return LEAT_E_NOMEM;
    if (by_folder) {
        f->labels = leat_new_array(n, sizeof *f->labels);
        f->classes = leat_new_array(l->n_folders, sizeof *f->classes);
        if (!f->labels || !f->classes)
            return LEAT_E_NOMEM;
        for (size_t i = 0; i < l->n_folders; i++)
            f->classes[i] = l->folders[i].name;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t sample[2] = {0, 0};
        leat_fingerprint_file(sample, l->names + l->files[i].name, l->files[i].size);
        if (by_folder) {
            f->labels[i] = l->files[i].folder;
            leat_fingerprint_value(sample, leat_hash64(&f->labels[i], sizeof f->labels[i]));
        }
        leat_fingerprint_append(f->source.fingerprint, sample);
    }
    return LEAT_OK;
}

/* The absolute path, because the working directory may change later. */
static char *absolute(const char *path)
{
    char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0), *result = NULL;
    size_t n = strlen(path), bytes = n + (cwd ? strlen(cwd) : 0) + 2;
    if ((result = leat_alloc(bytes)))
        snprintf(result, bytes, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
    free(cwd);
    n = result ? strlen(result) : 0;
    while (n > 1 && result[n - 1] == '/')
        result[--n] = 0;
    return result;
}

/* A file as index_dir is a mistake that would cost time in each run without a word. And a folder for indexes among the
 * classes would be a class the next time, and change the numbers of those after it. */
static int check_index_dir(const char *root, const char *index_dir, struct leat_error *error)
{
    size_t n = strlen(root);
    struct stat st;
    if (!stat(index_dir, &st) && !S_ISDIR(st.st_mode))
        return leat_fail(error, LEAT_E_INVALID, "index_dir %s is a file: name a folder; it is made when needed",
                         index_dir);
    if (strncmp(index_dir, root, n) != 0 || (root[n - 1] != '/' && index_dir[n] != '/'))
        return LEAT_OK;
    const char *below = index_dir + n + strspn(index_dir + n, "/");
    if (*below == '.')
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID,
                     "index_dir %s lies in the folder of photos, where it would be taken for a class: name one outside "
                     "of %s, or one whose name "
                     "begins with a dot",
                     index_dir, root);
}

static int folder_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                       struct leat_error *error)
{
    bool by_folder = false;
    struct folder *f = leat_new(struct folder);
    char *index_dir = NULL;
    int rc = LEAT_E_NOMEM;
    if (!f || !(f->root = absolute(path)) || (options->index_dir && !(index_dir = absolute(options->index_dir)))) {
        leat_fail(error, rc, "no memory to open %s", path);
        goto out;
    }
    if ((index_dir && (rc = check_index_dir(f->root, index_dir, error))) ||
        (rc = leat_listing_scan(f->root, &f->listing, error)) || (rc = choose(f, options->labels, &by_folder, error)))
        goto out;
    note_what_was_left_out(f);
    if (!f->listing.n_files) {
        char notes[512];
        rc = leat_fail(error, LEAT_E_NOT_FOUND,
                       "%s holds no photo: files that end in %s were looked for, here and in its folders%s", f->root,
                       LEAT_LISTING_EXTENSIONS, notes_in_a_line(f, notes, sizeof notes));
        leat_error_at_file(error, f->root, LEAT_NO_OFFSET);
        goto out;
    }
    if ((rc = build(f, by_folder)) ||
        (rc = leat_io_from_memory(f->root, f->listing.names, f->listing.names_bytes, &f->names, error)) ||
        (rc = leat_folder_rows_open(f->root, index_dir, options->recheck == LEAT_RECHECK_ALWAYS, &f->listing,
                                    &f->rows))) {
        leat_fail(error, rc, "no memory to open %s (%zu photos)", f->root, f->listing.n_files);
        goto out;
    }
    f->recheck = options->recheck;
    f->source.v = &leat_format_folder;
    f->source.path = f->root;
    f->source.count = f->listing.n_files;
    f->source.fields = by_folder ? fields_of_classes : fields_of_flat;
    f->source.n_fields = by_folder ? 3 : 2;
    f->source.storage = by_folder ? storage_of_classes : storage_of_flat;
    f->source.classes = f->classes;
    f->source.n_classes = by_folder ? f->listing.n_folders : 0;
    f->source.metadata = "{}";
    f->source.notice = f->notice ? f->notice : "";
    leat_free(index_dir);
    *out = &f->source;
    return LEAT_OK;
out:
    leat_free(index_dir);
    if (f)
        folder_close(&f->source);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int folder_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                       const void **rows, size_t *failed, struct leat_error *error)
{
    const struct folder *f = (const struct folder *)source;
    (void)field; /* only the label has a fixed size */
    for (size_t i = 0; i < n; i++)
        rows[i] = &f->labels[samples[i]];
    return LEAT_OK;
}

static bool bit(_Atomic uint64_t *bits, uint64_t i)
{
    return atomic_load_explicit(&bits[i / 64], memory_order_relaxed) >> (i % 64) & 1;
}

static uint8_t health(const struct folder *f, uint64_t sample)
{
    if (bit(f->broken, sample))
        return LEAT_HEALTH_BROKEN;
    if (f->recheck == LEAT_RECHECK_NEVER || (f->recheck == LEAT_RECHECK_FIRST && bit(f->good, sample)))
        return LEAT_HEALTH_GOOD;
    return LEAT_HEALTH_UNCHECKED;
}

static int folder_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                          struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    const struct folder *f = (const struct folder *)source;
    for (size_t i = 0; i < n; i++) {
        const struct leat_listing_file *file = &f->listing.files[samples[i]];
        if (field == IMAGE) {
            extents[i] =
                (struct leat_extent){.file = samples[i], .length = file->size, .info.health = health(f, samples[i])};
            leat_folder_rows_describe(f->rows, samples[i], &extents[i].info);
        } else {
            extents[i] = (struct leat_extent){.file = source->count, .offset = file->name, .length = file->name_length};
        }
    }
    return LEAT_OK;
}

static int folder_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct folder *f = (struct folder *)source;
    char buffer[4096], *path = buffer;
    if (file == source->count) {
        *out = leat_io_retain(f->names);
        return LEAT_OK;
    }
    const struct leat_listing_file *listed = &f->listing.files[file];
    size_t bytes = strlen(f->root) + listed->name_length + 2;
    *out = NULL;
    if (bytes > sizeof buffer && !(path = leat_alloc(bytes)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", f->listing.names + listed->name);
    snprintf(path, bytes, "%s/%s", f->root, f->listing.names + listed->name);
    int rc = leat_io_open_listed(path, listed->size, listed->mtime_ns, &f->pace, out, error);
    if (path != buffer)
        leat_free(path);
    return rc;
}

static void folder_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                        enum leat_health found)
{
    struct folder *f = (struct folder *)source;
    (void)verified; /* bytes that match their checksum are good */
    if (field != IMAGE || found == LEAT_HEALTH_UNCHECKED)
        return;
    _Atomic uint64_t *bits = found == LEAT_HEALTH_GOOD ? f->good : f->broken;
    if (!bit(bits, sample))
        atomic_fetch_or_explicit(&bits[sample / 64], UINT64_C(1) << (sample % 64), memory_order_relaxed);
}

static bool folder_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                          const uint64_t *checksum)
{
    (void)field; /* there is something to keep only for images */
    return leat_folder_rows_recall(((struct folder *)source)->rows, sample, to, length, checksum);
}

static void folder_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo,
                        size_t photo_bytes, const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct folder *)source)->rows, sample, photo, photo_bytes, rows, length);
}

static int folder_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    *data = ((struct folder *)source)->labels;
    return LEAT_OK;
}

/* Reads every file to its end. There are no checksums, so this finds only files that cannot be read or have changed. */
static int folder_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                         struct leat_error *error)
{
    enum { PIECE = 1 << 20 };
    const struct folder *f = (const struct folder *)source;
    int rc = LEAT_OK;
    uint64_t done = 0, total = 0, faults = 0;
    for (uint64_t i = 0; i < source->count; i++)
        total += f->listing.files[i].size;
    uint8_t *buffer = leat_alloc(PIECE);
    if (!buffer)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to verify %s", f->root);
    for (uint64_t i = 0; i < source->count && !rc; i++) {
        struct leat_error fault;
        struct leat_io_file *file;
        uint64_t size = f->listing.files[i].size, at = 0;
        int found = folder_file(source, i, &file, &fault);
        while (!found) { /* reading none of an empty file looks at it, too */
            found = leat_io_read(file, at, size - at < PIECE ? size - at : PIECE, buffer, &fault);
            if (size - at <= PIECE)
                break;
            at += PIECE;
        }
        leat_io_release(file);
        if (found) {
            faults++;
            leat_error_at_sample(&fault, (int64_t)(first_id + i), "image");
            if (options->report && options->report(options->user, &fault))
                rc = leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", f->root);
        }
        done += size;
        if (!rc && options->progress && (i % 64 == 63 || i + 1 == source->count) &&
            options->progress(options->user, done, total))
            rc = leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", f->root);
    }
    leat_free(buffer);
    if (!rc && faults)
        rc = leat_fail(error, LEAT_E_CORRUPT,
                       "%" PRIu64 " of %" PRIu64 " files of %s cannot be read as they were listed", faults,
                       source->count, f->root);
    return rc;
}

static int folder_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct folder *f = (const struct folder *)source;
    *out = (struct leat_source_about){.version = 0, .bytes = 0, .broken = UINT64_MAX};
    for (uint64_t i = 0; i < source->count; i++)
        out->bytes += f->listing.files[i].size;
    return LEAT_OK;
}

const struct leat_source_vtable leat_format_folder = {
    .name = "folder",
    .recognise = folder_recognise,
    .open = folder_open,
    .close = folder_close,
    .rows = folder_rows,
    .extents = folder_extents,
    .file = folder_file,
    .mark = folder_mark,
    .recall = folder_recall,
    .keep = folder_keep,
    .column = folder_column,
    .verify = folder_verify,
    .about = folder_about,
};
