/*
 * A folder of photos, in place.
 *
 *     root/ant/1.jpg  root/ant/2.jpg  root/bee/3.jpg         a class per sub-folder: fields image, label, name
 *     root/1.jpg  root/2.jpg                                 flat: fields image, name
 *
 * Samples are in bytewise order of their relative names; a class is the number of its folder in that order. A folder
 * that holds parts of a data set (train/ and val/) has no classes unless they are asked for: the notice says so.
 *
 * The photos themselves are photo_files.c.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "format/nearby.h"
#include "format/photo_files.h"

struct folder {
    struct leat_source source;
    struct leat_photo_files photos;
    struct leat_notes notes;
    const char **classes;
    int64_t *labels; /* NULL: flat */
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
    leat_photo_files_destroy(&f->photos);
    leat_free(f->notes.text);
    leat_free(f->classes);
    leat_free(f->labels);
    leat_free(f);
}

/* ---- opening --------------------------------------------------------------------------------- */

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

static int compare_kinds(const void *a, const void *b)
{
    const struct leat_listing_kind *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->extension, y->extension);
}

/* " (.heic: 12, .txt: 1), such as a/1.heic", of what has not the extension of a photo. */
static const char *describe_others(struct leat_listing *l, char *out, size_t room)
{
    char shown[4 * sizeof l->other];
    size_t used = 0;
    qsort(l->kinds, LEAT_LISTING_KINDS, sizeof *l->kinds, compare_kinds);
    for (size_t i = 0; i < LEAT_LISTING_KINDS && l->kinds[i].n; i++)
        used += (size_t)snprintf(
            out + used, room - used, "%s%s: %" PRIu64, used ? ", " : " (",
            *l->kinds[i].extension ? leat_escape(l->kinds[i].extension, shown, sizeof shown) : "none", l->kinds[i].n);
    snprintf(out + used, room - used, ")%s%s", *l->other ? ", such as " : "",
             leat_escape(l->other, shown, sizeof shown));
    return out;
}

static void note_what_was_left_out(struct folder *f)
{
    char others[2000] = "";
    struct leat_listing *l = &f->photos.listing;
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
            leat_note(&f->notes, "left out: %" PRIu64 " %s %s%s", counts[i].n, counts[i].n == 1 ? "entry" : "entries",
                      counts[i].what, i == 0 ? describe_others(l, others, sizeof others) : "");
}

static void note_empty_classes(struct folder *f)
{
    const struct leat_listing *l = &f->photos.listing;
    char names[512] = "";
    size_t n = 0, used = 0;
    for (size_t i = 0; i < l->n_folders; i++) {
        if (l->folders[i].files)
            continue;
        if (n++ < 5 && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s/", n > 1 ? ", " : "", l->folders[i].name);
    }
    if (n)
        leat_note(&f->notes, "%zu of the %zu classes hold no photo: %s%s", n, l->n_folders, names,
                  n > 5 ? ", ..." : "");
}

/* The notes for an error of one line: "; first note; second note", or "". Cut to fit. Returns `out`. */
static const char *notes_in_a_line(const struct folder *f, char *out, size_t room)
{
    size_t used = 0;
    *out = 0;
    for (const char *p = f->notes.text ? f->notes.text : "", *end; *p && used < room; p = *end ? end + 1 : end) {
        end = strchrnul(p, '\n');
        used += (size_t)snprintf(out + used, room - used, "; %.*s", (int)(end - p), p);
    }
    return out;
}

/* Decides whether sub-folders are classes, and drops the photos that do not count then. */
static int choose(struct folder *f, enum leat_labels labels, bool *by_folder, struct leat_error *error)
{
    struct leat_listing *l = &f->photos.listing;
    const char *train, *other;
    size_t below = 0;
    for (size_t i = 0; i < l->n_folders; i++)
        below += l->folders[i].files;
    size_t in_root = l->n_files - below;
    bool parts = holds_parts(l, &train, &other);
    *by_folder = labels == LEAT_LABELS_FOLDERS || (labels == LEAT_LABELS_AUTO && below && !parts);
    if (labels == LEAT_LABELS_FOLDERS && !below)
        return leat_fail(error, LEAT_E_NOT_FOUND,
                         "%s has no sub-folder with photos, so there are no labels by folder (photos: %s)",
                         f->photos.root, leat_listing_suffixes);
    if (parts && labels != LEAT_LABELS_NONE)
        leat_note(&f->notes, "the folder holds %s/ and %s/: open one of them%s", train, other,
                  *by_folder ? "; as asked, they are taken as classes" : "; taken together here, without labels");
    if (*by_folder) {
        if (in_root)
            leat_note(&f->notes, "left out: %zu %s beside the folders of the classes", in_root,
                      in_root == 1 ? "photo" : "photos");
        leat_listing_keep(l, 0);
        note_empty_classes(f);
    }
    return LEAT_OK;
}

static int build(struct folder *f, bool by_folder)
{
    struct leat_listing *l = &f->photos.listing;
    size_t n = l->n_files;
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

/* People open a data set of boxes without them, and wonder where they are. */
static void note_annotations(struct folder *f)
{
    const struct leat_listing *l = &f->photos.listing;
    char photo[2048], folder[2048], annotations[2048];
    if (l->n_files &&
        snprintf(photo, sizeof photo, "%s/%s", f->photos.root, l->names + l->files[0].name) < (int)sizeof photo &&
        leat_nearby_annotations(photo, folder, annotations, sizeof folder))
        leat_note(&f->notes,
                  "annotations lie beside the photos, and are not read so; these read them: "
                  "leat.open(\"%s\", annotations=\"%s\")",
                  folder, annotations);
}

static int folder_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                       struct leat_error *error)
{
    bool by_folder = false;
    struct folder *f = leat_new(struct folder);
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    int rc = leat_photo_files_scan(&f->photos, path, options, error);
    if (rc || (rc = choose(f, options->labels, &by_folder, error)))
        goto out;
    note_what_was_left_out(f);
    note_annotations(f);
    if (!f->photos.listing.n_files) {
        char notes[512];
        rc = leat_fail(error, LEAT_E_NOT_FOUND,
                       "%s holds no photo: files that end in %s were looked for, here and in its folders%s",
                       f->photos.root, leat_listing_suffixes, notes_in_a_line(f, notes, sizeof notes));
        leat_error_at_file(error, f->photos.root, LEAT_NO_OFFSET);
        goto out;
    }
    if ((rc = build(f, by_folder))) {
        leat_fail(error, rc, "no memory to open %s (%zu photos)", f->photos.root, f->photos.listing.n_files);
        goto out;
    }
    if ((rc = leat_photo_files_ready(&f->photos, options, error)))
        goto out;
    f->source.v = &leat_format_folder;
    f->source.path = f->photos.root;
    f->source.count = f->photos.listing.n_files;
    f->source.fields = by_folder ? fields_of_classes : fields_of_flat;
    f->source.n_fields = by_folder ? 3 : 2;
    f->source.storage = by_folder ? storage_of_classes : storage_of_flat;
    f->source.classes = f->classes;
    f->source.n_classes = by_folder ? f->photos.listing.n_folders : 0;
    f->source.metadata = "{}";
    f->source.notice = f->notes.text ? f->notes.text : "";
    *out = &f->source;
    return LEAT_OK;
out:
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

static int folder_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                          struct leat_extent *extents, size_t *failed, struct leat_error *error)
{
    (field == IMAGE ? leat_photo_files_extents : leat_photo_files_names)(&((struct folder *)source)->photos, samples, n,
                                                                         extents);
    return LEAT_OK;
}

static int folder_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    return leat_photo_files_open(&((struct folder *)source)->photos, file, out, error);
}

static void folder_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                        enum leat_health found)
{
    (void)verified; /* bytes that match their checksum are good */
    if (field == IMAGE)
        leat_photo_files_mark(&((struct folder *)source)->photos, sample, found);
}

static bool folder_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                          const uint64_t *checksum)
{
    (void)field; /* there is something to keep only for images */
    return leat_folder_rows_recall(((struct folder *)source)->photos.rows, sample, to, length, checksum);
}

static void folder_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo,
                        size_t photo_bytes, const uint8_t *rows, size_t length)
{
    leat_folder_rows_keep(((struct folder *)source)->photos.rows, sample, photo, photo_bytes, rows, length);
}

static int folder_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error)
{
    *data = ((struct folder *)source)->labels;
    return LEAT_OK;
}

static int folder_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                         struct leat_error *error)
{
    return leat_photo_files_verify(&((struct folder *)source)->photos, "image", options, first_id, error);
}

static int folder_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    *out = (struct leat_source_about){
        .version = 0, .bytes = leat_photo_files_bytes(&((struct folder *)source)->photos), .broken = UINT64_MAX};
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
