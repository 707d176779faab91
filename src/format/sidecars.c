/* Annotations in a file per photo: sidecars.h. */
#include "format/sidecars.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/nearby.h"

static bool ends_in(const char *name, const char *extension)
{
    const size_t n = strlen(name), m = strlen(extension);
    return n > m && name[0] != '.' && strcasecmp(name + n - m, extension) == 0;
}

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
        if (!ends_in(e->d_name, extension))
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
    return LEAT_OK;
}

void leat_sidecars_end(struct leat_sidecars *s)
{
    leat_free(s->path);
    leat_free(s->text);
}

int leat_sidecars_read(struct leat_sidecars *s, uint64_t i, bool *there, size_t *n, struct leat_error *error)
{
    const struct leat_listing *l = &s->a->photos.listing;
    const char *name = l->names + l->files[i].name, *dot = strrchr(name, '.');
    const size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    const size_t room = strlen(s->a->path) + stem + strlen(s->extension) + 2;
    struct leat_io_file *file;
    *there = false;
    *n = 0;
    if (leat_annotated_ask(s->a, i, l->n_files, error))
        return LEAT_E_CANCELLED;
    if (!leat_grow(&s->path, &s->path_room, room, 1))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read annotations");
    snprintf(s->path, room, "%s/%.*s%s", s->a->path, (int)stem, name, s->extension);
    int rc = leat_io_open(s->path, &file, error);
    if (rc) /* a photo without a file has no objects */
        return rc == LEAT_E_NOT_FOUND ? LEAT_OK : rc;
    *n = (size_t)file->size;
    if (file->size > LEAT_SIDECAR_BYTES) {
        rc = leat_fail(error, LEAT_E_CORRUPT, "%s has more than 64 MiB: it is no file of annotations", s->path);
        leat_error_at_file(error, s->path, LEAT_NO_OFFSET);
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

/* Whether a photo in the folder itself has this name, up to its extension. */
static bool has_photo(const struct leat_listing *l, const char *stem, size_t n)
{
    size_t low = 0, high = l->n_files;
    while (low < high) { /* the first name that is not below "stem." */
        const size_t middle = low + (high - low) / 2;
        const char *name = l->names + l->files[middle].name;
        const int order = strncmp(name, stem, n);
        if (order < 0 || (!order && (unsigned char)name[n] < '.'))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < l->n_files; low++) {
        const char *name = l->names + l->files[low].name;
        if (strncmp(name, stem, n) != 0 || name[n] != '.')
            return false;
        if (!strchr(name + n + 1, '.') && !strchr(name + n, '/'))
            return true;
    }
    return false;
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
        if (!ends_in(e->d_name, s->extension) || goes_with_labels(e->d_name))
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

static int say_none(const struct leat_sidecars *s, struct leat_error *error)
{
    const struct leat_annotated *a = s->a;
    const struct leat_listing *l = &a->photos.listing;
    char photo[1024], other[1024], annotations[1024], meant[2100] = "";
    if (find_photos(s, other, sizeof other))
        snprintf(meant, sizeof meant, "the photos in %s", other);
    else if (find_annotations(s, other, sizeof other))
        snprintf(meant, sizeof meant, "the annotations in %s", other);
    else if (snprintf(photo, sizeof photo, "%s/%s", a->photos.root, l->names + l->files[0].name) < (int)sizeof photo &&
             leat_nearby_annotations(photo, other, annotations, sizeof other))
        snprintf(meant, sizeof meant, "leat.open(\"%s\", annotations=\"%s\")", other, annotations);
    leat_fail(error, LEAT_E_NOT_FOUND, "no photo of %s has a file of its name with %s in %s: %s%s%s", a->photos.root,
              s->extension, a->path, *meant ? "did you mean " : "name another folder", meant, *meant ? "?" : "");
    leat_error_at_file(error, a->path, LEAT_NO_OFFSET);
    return LEAT_E_NOT_FOUND;
}

int leat_sidecars_check(struct leat_sidecars *s, struct leat_error *error)
{
    struct leat_annotated *a = s->a;
    int rc = LEAT_OK;
    if (a->photos.listing.n_files && !s->found)
        return say_none(s, error);
    DIR *dir = opendir(a->path);
    for (const struct dirent *e; dir && !rc && (e = readdir(dir));)
        if (ends_in(e->d_name, s->extension) && !goes_with_labels(e->d_name) &&
            !has_photo(&a->photos.listing, e->d_name, strlen(e->d_name) - strlen(s->extension)))
            rc = leat_fault(a, error, LEAT_E_NOT_FOUND, "files of annotations whose photo is not in the folder",
                            "%s has no photo in %s", e->d_name, a->photos.root);
    if (dir)
        closedir(dir);
    return rc;
}
