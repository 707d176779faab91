/* Annotations in a file per photo: sidecars.h. */
#include "format/sidecars.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/nearby.h"

/* Lists and texts that data sets have beside the files of photos. */
static bool goes_with_labels(const char *name)
{
    static const char *const names[] = {"classes.txt", "labels.txt", "train.txt",  "val.txt",
                                        "test.txt",    "readme.txt", "license.txt"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcasecmp(name, names[i]) == 0;
    return found;
}

enum { LOOKED_FOR = 16 }; /* not every photo has a file */

static bool begins_so(const char *folder, const char *name, leat_sidecar_begins *begins)
{
    char path[4096], head[LEAT_SIDECAR_HEAD];
    const int fd = snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path
                       ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) /* a pipe would wait */
                       : -1;
    const ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return n >= 0 && begins(head, (size_t)n);
}

static enum leat_sidecars_found holds(const char *folder, const char *extension, leat_sidecar_begins *begins)
{
    enum leat_sidecars_found found = LEAT_SIDECARS_NONE;
    unsigned n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && found < LEAT_SIDECARS_SURE && n < LOOKED_FOR && (e = readdir(dir));) {
        if (!leat_name_ends_in(e->d_name, extension))
            continue;
        found = LEAT_SIDECARS_NAMED;
        if (!begins)
            break;
        n++;
        if (!goes_with_labels(e->d_name) && begins_so(folder, e->d_name, begins))
            found = LEAT_SIDECARS_SURE;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Whether an entry is a folder, or a link to one. Most file systems say it with the name. */
static bool is_folder(const struct dirent *e, const char *path)
{
    struct stat st;
    return e->d_type == DT_DIR ||
           ((e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) && !stat(path, &st) && S_ISDIR(st.st_mode));
}

enum leat_sidecars_found leat_sidecars_in(const char *folder, const char *extension, leat_sidecar_begins *begins)
{
    const enum leat_sidecars_found most = begins ? LEAT_SIDECARS_SURE : LEAT_SIDECARS_NAMED;
    enum leat_sidecars_found found = holds(folder, extension, begins);
    DIR *dir = found == most ? NULL : opendir(folder);
    for (const struct dirent *e; dir && found < most && (e = readdir(dir));) {
        char inner[4096];
        if (e->d_name[0] == '.' || snprintf(inner, sizeof inner, "%s/%s", folder, e->d_name) >= (int)sizeof inner ||
            !is_folder(e, inner))
            continue;
        const enum leat_sidecars_found one = holds(inner, extension, begins);
        found = one > found ? one : found;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Adds the files with the extension in a folder of the annotations, and in those of its folders that have the name of a
 * folder of photos in any form of Unicode or case: what differs in that alone is said, not read. `name`: its path below
 * the annotations, with a slash behind it, or "". */
static int list_folder(struct leat_sidecars *s, const struct leat_names *folders, const char *name,
                       struct leat_error *error)
{
    char path[2 * LEAT_NAME_BYTES];
    size_t number;
    int rc = LEAT_OK, used = snprintf(path, sizeof path, "%s/%s", s->a->path, name);
    DIR *dir = used < (int)sizeof path ? opendir(path) : NULL;
    if (!dir && used < (int)sizeof path && errno != ENOENT && errno != ENOTDIR) {
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot list %s", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    }
    const size_t root = strlen(s->a->path) + 1;
    for (const struct dirent *e; dir && !rc && (e = readdir(dir));) {
        if (snprintf(path + used, sizeof path - (size_t)used, "%s", e->d_name) >= (int)sizeof path - used)
            continue;
        if (e->d_type != DT_REG && leat_names_find(folders, path + root, &number) && is_folder(e, path)) {
            char *below = leat_alloc(strlen(path + root) + 2);
            rc = below ? (sprintf(below, "%s/", path + root), list_folder(s, folders, below, error)) : LEAT_E_NOMEM;
            leat_free(below);
        } else if (leat_name_ends_in(e->d_name, s->extension) && !leat_names_add(&s->a->sidecars, path + root)) {
            rc = LEAT_E_NOMEM;
        }
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* Adds the folder of a photo, and those that it is in, as far as no other form of their names is there. */
static bool add_folders(struct leat_names *folders, const char *photo)
{
    char name[LEAT_NAME_BYTES];
    size_t number;
    bool good = true;
    for (const char *slash = photo; good && (slash = strchr(slash, '/')); slash++)
        if (snprintf(name, sizeof name, "%.*s", (int)(slash - photo), photo) < (int)sizeof name &&
            !leat_names_find(folders, name, &number))
            good = leat_names_add(folders, name);
    return good;
}

/* Lists the folders that photos may have annotations in. */
static int list_folders(struct leat_sidecars *s, struct leat_error *error)
{
    const struct leat_listing *l = &s->a->photos.listing;
    struct leat_names folders = {0};
    const char *last = "";
    bool good = true;
    for (size_t i = 0; i < l->n_files && good; i++) {
        const char *name = l->names + l->files[i].name, *slash = strrchr(name, '/');
        const size_t n = slash ? (size_t)(slash + 1 - name) : 0;
        if (strncmp(name, last, n) != 0 || strchr(last + n, '/')) /* another folder than that of the photo before */
            good = add_folders(&folders, name);
        last = name;
    }
    int rc = good ? list_folder(s, &folders, "", error) : LEAT_E_NOMEM;
    leat_names_destroy(&folders);
    if (!rc && !(s->used = leat_new_array(s->a->sidecars.n, sizeof *s->used)))
        rc = LEAT_E_NOMEM;
    return rc == LEAT_E_NOMEM ? leat_fail(error, rc, "no memory to list %s", s->a->path) : rc;
}

int leat_sidecars_begin(struct leat_sidecars *s, const struct leat_source_vtable *format, const char *path,
                        const char *extension, const struct leat_open_options *options, struct leat_error *error)
{
    *s = (struct leat_sidecars){.extension = extension};
    int rc = leat_annotated_new(format, path, options, &s->a, error);
    if (rc)
        return rc;
    DIR *dir = opendir(s->a->path);
    if (!dir) {
        rc = leat_fail_errno(error, LEAT_E_NOT_FOUND, "%s is no folder of files that end in %s", s->a->path, extension);
        leat_error_at_file(error, s->a->path, LEAT_NO_OFFSET);
        return rc;
    }
    closedir(dir);
    if (!(s->a->first = leat_new_array(s->a->photos.listing.n_files + 1, sizeof *s->a->first)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    return list_folders(s, error);
}

void leat_sidecars_end(struct leat_sidecars *s)
{
    leat_free(s->path);
    leat_free(s->text);
    leat_free(s->used);
    leat_names_destroy(&s->photos);
}

enum leat_names_found leat_sidecars_find(const struct leat_annotated *a, uint64_t photo, const char *extension,
                                         size_t *number)
{
    char wanted[LEAT_NAME_BYTES];
    const struct leat_listing *l = &a->photos.listing;
    if (!leat_name_with(l->names + l->files[photo].name, extension, wanted))
        return LEAT_NAMES_NONE;
    return leat_names_find(&a->sidecars, wanted, number);
}

/* The file of photo i, whose path is then s->path; *there: whether there is one. */
static int find_file(struct leat_sidecars *s, uint64_t i, bool *there, struct leat_error *error)
{
    size_t number = 0;
    *there = leat_sidecars_find(s->a, i, s->extension, &number) == LEAT_NAMES_FOUND;
    if (!*there)
        return LEAT_OK;
    s->used[number] = true;
    const char *name = leat_names_at(&s->a->sidecars, number);
    const size_t room = strlen(s->a->path) + strlen(name) + 2;
    if (!leat_grow(&s->path, &s->path_room, room, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read annotations");
    snprintf(s->path, room, "%s/%s", s->a->path, name);
    return LEAT_OK;
}

int leat_sidecars_read(struct leat_sidecars *s, uint64_t i, bool *there, size_t *n, struct leat_error *error)
{
    struct leat_io_file *file;
    *n = 0;
    *there = false;
    if (leat_annotated_ask(s->a, i, s->a->photos.listing.n_files, error))
        return LEAT_E_CANCELLED;
    int rc = find_file(s, i, there, error);
    if (rc || !*there) /* a photo without a file has no objects */
        return rc;
    *there = false;
    if ((rc = leat_io_open(s->path, &file, error)))
        return rc == LEAT_E_NOT_FOUND ? LEAT_OK : rc;
    *n = (size_t)file->size;
    if (file->size > LEAT_SIDECAR_BYTES) {
        rc = leat_fail_at(error, LEAT_E_CORRUPT, s->path, LEAT_NO_OFFSET,
                          "%s has more than 64 MiB: it is no file of annotations", s->path);
    } else if (!leat_grow(&s->text, &s->text_room, *n + 1, 1)) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", s->path);
    }
    rc = rc ? rc : leat_io_read(file, 0, *n, s->text, error);
    leat_io_release(file);
    if (rc)
        return rc;
    s->text[*n] = 0;
    *there = true;
    s->found++;
    return LEAT_OK;
}

/* The folder of photos in which one goes with a file of annotations. */
static bool find_photos(const struct leat_sidecars *s, char *out, size_t room)
{
    const struct leat_annotated *a = s->a;
    bool found = false;
    unsigned n = 0;
    DIR *dir = opendir(a->path);
    for (const struct dirent *e; dir && !found && n < LOOKED_FOR && (e = readdir(dir));) {
        char name[sizeof e->d_name];
        if (!leat_name_ends_in(e->d_name, s->extension) || goes_with_labels(e->d_name))
            continue;
        n++;
        strcpy(name, e->d_name);
        name[strlen(name) - strlen(s->extension) + 1] = 0; /* "a." */
        found = leat_nearby_listed(&a->photos.listing, a->photos.root, name, out, room);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* The folder of annotations in which a file goes with a photo. */
static bool find_annotations(const struct leat_sidecars *s, char *out, size_t room)
{
    const struct leat_listing *l = &s->a->photos.listing;
    const size_t step = l->n_files / LOOKED_FOR + 1;
    bool found = false;
    for (size_t i = 0; i < l->n_files && !found; i += step) {
        char name[1024];
        const char *photo = l->names + l->files[i].name, *dot = strrchr(photo, '.');
        const int stem = (int)(dot ? dot - photo : (ptrdiff_t)strlen(photo));
        found = snprintf(name, sizeof name, "%.*s%s", stem, photo, s->extension) < (int)sizeof name &&
                leat_nearby_folder(s->a->path, name, out, room);
    }
    return found;
}

/* Keeps the names that files of the photos have, to say which of them another name is meant for. */
static int keep_names(struct leat_sidecars *s, struct leat_error *error)
{
    const struct leat_listing *l = &s->a->photos.listing;
    bool good = true;
    for (size_t i = 0; i < l->n_files && good; i++) {
        char wanted[LEAT_NAME_BYTES];
        const char *name = l->names + l->files[i].name;
        good = leat_names_add(&s->photos, leat_name_with(name, s->extension, wanted) ? wanted : name);
    }
    return good ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", s->a->path);
}

/* If the name of a file is that of a photo but for its form of Unicode or its case: as leat_names_say_forms, else "".
 * Returns 1 + the photo if it has no other file, else 0. */
static size_t say_forms(const struct leat_sidecars *s, size_t file, char *out, size_t room)
{
    const struct leat_listing *l = &s->a->photos.listing;
    const char *name = leat_names_at(&s->a->sidecars, file);
    char wanted[LEAT_NAME_BYTES];
    size_t photo, other;
    out[0] = 0;
    if (!leat_name_with(name, s->extension, wanted) ||
        leat_names_find(&s->photos, wanted, &photo) != LEAT_NAMES_OTHER_FORM)
        return 0;
    const bool taken = leat_sidecars_find(s->a, photo, s->extension, &other) == LEAT_NAMES_FOUND;
    leat_names_say_forms(name, l->names + l->files[photo].name, taken, out, room);
    return taken ? 0 : photo + 1;
}

static int say_none(struct leat_sidecars *s, struct leat_error *error)
{
    const struct leat_annotated *a = s->a;
    const struct leat_listing *l = &a->photos.listing;
    char photo[1024], other[1024], annotations[1024], meant[2100] = "", forms[1200] = "";
    for (size_t i = 0; i < a->sidecars.n && !*forms; i++)
        say_forms(s, i, forms, sizeof forms);
    if (!*forms && find_photos(s, other, sizeof other))
        snprintf(meant, sizeof meant, "the photos in %s", other);
    else if (!*forms && find_annotations(s, other, sizeof other))
        snprintf(meant, sizeof meant, "the annotations in %s", other);
    else if (!*forms &&
             snprintf(photo, sizeof photo, "%s/%s", a->photos.root, l->names + l->files[0].name) < (int)sizeof photo &&
             leat_nearby_annotations(photo, other, annotations, sizeof other))
        snprintf(meant, sizeof meant, "leat.open(\"%s\", annotations=\"%s\")", other, annotations);
    return leat_fail_at(error, LEAT_E_NOT_FOUND, a->path, LEAT_NO_OFFSET,
                        "no photo of %s has a file of its name with %s in %s%s%s%s%s", a->photos.root, s->extension,
                        a->path, *forms ? forms : ": ",
                        *forms   ? ""
                        : *meant ? "did you mean "
                                 : "name another folder",
                        meant, *meant ? "?" : "");
}

/* A file that goes with no photo, or with one that has another file. */
static int say_unused(struct leat_sidecars *s, size_t i, struct leat_error *error)
{
    struct leat_annotated *a = s->a;
    const char *name = leat_names_at(&a->sidecars, i);
    char forms[1200], wanted[LEAT_NAME_BYTES];
    size_t other = i;
    if (leat_name_with(name, s->extension, wanted) &&
        leat_names_find(&a->sidecars, wanted, &other) == LEAT_NAMES_FOUND && other != i && s->used[other])
        return leat_fault(a, error, LEAT_E_CORRUPT, "files of annotations of photos that have another one",
                          "%s is not read: %s, which differs in the case of its extension, is", name,
                          leat_names_at(&a->sidecars, other));
    const size_t photo = say_forms(s, i, forms, sizeof forms);
    const int rc = leat_fault(a, error, LEAT_E_NOT_FOUND, "files of annotations whose photo is not in the folder",
                              "%s has no photo in %s%s", name, a->photos.root, forms);
    return rc || !photo ? rc : leat_annotated_mark(a, photo - 1, error);
}

static int compare_names(const void *a, const void *b, void *names)
{
    return strcmp(leat_names_at(names, *(const size_t *)a), leat_names_at(names, *(const size_t *)b));
}

int leat_sidecars_check(struct leat_sidecars *s, struct leat_error *error)
{
    struct leat_names *names = &s->a->sidecars;
    size_t n = 0;
    int rc = LEAT_OK;
    if (s->a->photos.listing.n_files && !s->found)
        return (rc = keep_names(s, error)) ? rc : say_none(s, error);
    size_t *unused = leat_new_array(names->n, sizeof *unused);
    if (!unused)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", s->a->path);
    for (size_t i = 0; i < names->n; i++) {
        const char *name = leat_names_at(names, i), *slash = strrchr(name, '/');
        if (!s->used[i] && !goes_with_labels(slash ? slash + 1 : name))
            unused[n++] = i;
    }
    if (n) {
        qsort_r(unused, n, sizeof *unused, compare_names, names);
        rc = keep_names(s, error);
    }
    for (size_t i = 0; i < n && !rc; i++)
        rc = say_unused(s, unused[i], error);
    leat_free(unused);
    return rc;
}
