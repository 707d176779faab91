/*
 * A folder of photos, in place.
 *
 *     root/ant/1.jpg  root/ant/2.jpg  root/bee/3.jpg         a class per sub-folder: fields image, label, name
 *     root/1.jpg  root/2.jpg                                 flat: fields image, name
 *
 * Samples are in bytewise order of their relative names; a class is the number of its folder in that order. A folder
 * that holds parts of a data set (train/ and val/) has no classes unless they are asked for: the notice says so.
 *
 * It is an annotated folder (annotated.h) whose annotations are the names of its folders.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/annotated.h"
#include "format/nearby.h"
#include "format/together.h"

static bool folder_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return folder;
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

static void note_what_was_left_out(struct leat_annotated *a)
{
    char others[2000] = "";
    struct leat_listing *l = &a->photos.listing;
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
            leat_note(&a->notes, "left out: %" PRIu64 " %s %s%s", counts[i].n, counts[i].n == 1 ? "entry" : "entries",
                      counts[i].what, i == 0 ? describe_others(l, others, sizeof others) : "");
}

static void note_empty_classes(struct leat_annotated *a)
{
    const struct leat_listing *l = &a->photos.listing;
    char names[512] = "";
    size_t n = 0, used = 0;
    for (size_t i = 0; i < l->n_folders; i++) {
        if (l->folders[i].files)
            continue;
        if (n++ < 5 && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s/", n > 1 ? ", " : "", l->folders[i].name);
    }
    if (n)
        leat_note(&a->notes, "%zu of the %zu classes hold no photo: %s%s", n, l->n_folders, names,
                  n > 5 ? ", ..." : "");
}

/* The notes for an error of one line: "; first note; second note", or "". Cut to fit. Returns `out`. */
static void notes_in_a_line(const struct leat_annotated *a, char *out, size_t room)
{
    size_t used = 0;
    *out = 0;
    for (const char *p = a->notes.text ? a->notes.text : "", *end; *p && used < room; p = *end ? end + 1 : end) {
        end = strchrnul(p, '\n');
        used += (size_t)snprintf(out + used, room - used, "; %.*s", (int)(end - p), p);
    }
}

/* Decides whether sub-folders are classes, and drops the photos that do not count then. */
static int choose(struct leat_annotated *a, enum leat_labels labels, bool *by_folder, struct leat_error *error)
{
    struct leat_listing *l = &a->photos.listing;
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
                         a->photos.root, leat_listing_suffixes);
    if (parts && labels != LEAT_LABELS_NONE)
        leat_note(&a->notes, "the folder holds %s/ and %s/: open one of them%s", train, other,
                  *by_folder ? "; as asked, they are taken as classes" : "; taken together here, without labels");
    if (*by_folder) {
        if (in_root)
            leat_note(&a->notes, "left out: %zu %s beside the folders of the classes", in_root,
                      in_root == 1 ? "photo" : "photos");
        leat_listing_keep(l, 0);
        note_empty_classes(a);
    }
    return LEAT_OK;
}

/* A class for each folder, and for each photo that of its folder. False: no memory. */
static bool add_labels(struct leat_annotated *a)
{
    const struct leat_listing *l = &a->photos.listing;
    int64_t *labels =
        leat_column_fill(leat_annotated_column(a, "label", LEAT_I64, LEAT_ROLE_NONE, false, 0), l->n_files);
    bool good = labels && (a->classes = leat_new_array(l->n_folders, sizeof *a->classes));
    for (size_t i = 0; i < l->n_folders && good; i++)
        good = (a->classes[a->n_classes++] = leat_strdup(l->folders[i].name));
    for (size_t i = 0; i < l->n_files && good; i++)
        labels[i] = l->files[i].folder;
    return good;
}

/* People open a data set of boxes without them, and wonder where they are. */
static void note_annotations(struct leat_annotated *a)
{
    const struct leat_listing *l = &a->photos.listing;
    char photo[2048], folder[2048], annotations[2048];
    if (l->n_files &&
        snprintf(photo, sizeof photo, "%s/%s", a->photos.root, l->names + l->files[0].name) < (int)sizeof photo &&
        leat_nearby_annotations(photo, folder, annotations, sizeof folder))
        leat_note(&a->notes,
                  "annotations lie beside the photos, and are not read so; these read them: "
                  "leat.open(\"%s\", annotations=\"%s\")",
                  folder, annotations);
}

static int folder_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                       struct leat_error *error)
{
    bool by_folder = false;
    struct leat_annotated *a;
    int rc = leat_annotated_new(&leat_format_folder, path, options, &a, error);
    if (rc)
        return rc;
    if ((rc = choose(a, options->labels, &by_folder, error)))
        goto out;
    note_what_was_left_out(a);
    note_annotations(a);
    if (!a->photos.listing.n_files) {
        char notes[512], hint[600];
        const char *other = "; leat.pack, or leat pack --dataset, packs what a Python data set reads of them";
        notes_in_a_line(a, notes, sizeof notes);
        if (leat_together_hint(a->photos.root, hint, sizeof hint))
            rc = leat_fail_at(error, LEAT_E_NOT_FOUND, a->photos.root, LEAT_NO_OFFSET, "%s holds no photo%s",
                              a->photos.root, hint);
        else
            rc = leat_fail_at(error, LEAT_E_NOT_FOUND, a->photos.root, LEAT_NO_OFFSET,
                              "%s holds no photo: files that end in %s were looked for, here and in its folders%s%s",
                              a->photos.root, leat_listing_suffixes, notes, *notes ? other : "");
    } else if (by_folder && !add_labels(a)) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s (%zu photos)", a->photos.root,
                       a->photos.listing.n_files);
    }
out:
    return leat_annotated_finish(a, rc, options, out, error);
}

const struct leat_source_vtable leat_format_folder = {
    .name = "folder", .recognise = folder_recognise, .open = folder_open};
