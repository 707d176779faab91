/*
 * Made for a million files: entries are read with getdents (readdir), and the directory gives their type. Only photos
 * are looked up for their size (statx relative to the open folder, so that the kernel resolves one name). Recursion
 * holds one descriptor per level, hence the bound on depth.
 */
#include "format/listing.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/photo.h"
#include "format/json_text.h"

struct scan {
    struct leat_listing *listing;
    const char *root;
    dev_t root_device;
    ino_t root_inode;
    char path[PATH_MAX]; /* of the folder being read, relative to the root, with a slash at its end; "" for the root */
    size_t path_length;
    uint32_t folder;
    struct leat_error *error;
};

#define LEAT_PHOTO(id, ID, number, name, suffixes, ...) suffixes ", "
const char leat_listing_suffixes[] =
#include "codec/photo/formats.def"
    "in any case";
static const char other_suffix[] = "leat takes only names with "
#include "codec/photo/formats.def"
                                   "in any case: convert it";
#undef LEAT_PHOTO

static bool is_utf8(const char *text)
{
    const size_t n = strlen(text);
    return leat_utf8_check(text, n) == n;
}

static int no_memory(const struct scan *s)
{
    return leat_fail(s->error, LEAT_E_NOMEM, "no memory to list %s (%zu photos so far)", s->root, s->listing->n_files);
}

static int cannot_read(const struct scan *s, const char *name)
{
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s%s", s->root, s->path, name);
    int rc = leat_fail_errno(s->error, LEAT_E_IO, "cannot list %s", path);
    leat_error_at_file(s->error, path, LEAT_NO_OFFSET);
    return rc;
}

static int add_file(struct scan *s, const char *name, uint64_t size, int64_t mtime_ns)
{
    struct leat_listing *l = s->listing;
    size_t name_length = strlen(name), length = s->path_length + name_length;
    if (!leat_grow(&l->names, &l->names_room, l->names_bytes + length + 1, 1) ||
        !leat_grow(&l->files, &l->files_room, l->n_files + 1, sizeof *l->files))
        return no_memory(s);
    memcpy(l->names + l->names_bytes, s->path, s->path_length);
    memcpy(l->names + l->names_bytes + s->path_length, name, name_length + 1);
    l->files[l->n_files++] = (struct leat_listing_file){l->names_bytes, size, mtime_ns, (uint32_t)length, s->folder};
    l->names_bytes += length + 1;
    if (s->folder != LEAT_LISTING_ROOT)
        l->folders[s->folder].files++;
    return LEAT_OK;
}

static int scan_folder(struct scan *s, int fd, unsigned depth);

/* A folder in the folder `fd`. A link to a folder is followed only at the first level, where it is a class. */
static int enter(struct scan *s, int fd, const char *name, bool link, unsigned depth)
{
    struct leat_listing *l = s->listing;
    size_t length = strlen(name);
    if (depth + 1 >= LEAT_LISTING_DEPTH || s->path_length + length + 2 > sizeof s->path) {
        l->too_deep++;
        return LEAT_OK;
    }
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (link ? 0 : O_NOFOLLOW));
    if (inner < 0) {
        if (errno != ENOENT)
            return cannot_read(s, name);
        l->missing++;
        return LEAT_OK;
    }
    struct stat st;
    if (link && (depth > 0 || fstat(inner, &st) || (st.st_dev == s->root_device && st.st_ino == s->root_inode))) {
        close(inner);
        l->links++;
        return LEAT_OK;
    }
    if (depth == 0) {
        char *copy =
            leat_grow(&l->folders, &l->folders_room, l->n_folders + 1, sizeof *l->folders) ? leat_strdup(name) : NULL;
        if (!copy) {
            close(inner);
            return no_memory(s);
        }
        s->folder = (uint32_t)l->n_folders;
        l->folders[l->n_folders++] = (struct leat_listing_folder){copy, 0};
    }
    memcpy(s->path + s->path_length, name, length);
    s->path_length += length + 1;
    s->path[s->path_length - 1] = '/';
    s->path[s->path_length] = 0;
    int rc = scan_folder(s, inner, depth + 1);
    s->path_length -= length + 1;
    s->path[s->path_length] = 0;
    if (depth == 0)
        s->folder = LEAT_LISTING_ROOT;
    return rc;
}

static void add_other(struct scan *s, const char *name)
{
    struct leat_listing *l = s->listing;
    char path[sizeof l->other], extension[sizeof l->kinds->extension] = "";
    const char *dot = strrchr(name, '.');
    struct leat_listing_kind *k = l->kinds;
    if (snprintf(path, sizeof path, "%s%s", s->path, name) < (int)sizeof path && is_utf8(path) &&
        (!*l->other || strcmp(path, l->other) < 0))
        strcpy(l->other, path);
    for (size_t i = 0; dot && strlen(dot) < sizeof extension && is_utf8(dot) && dot[i]; i++)
        extension[i] = (char)tolower((unsigned char)dot[i]);
    l->others++;
    while (k < l->kinds + LEAT_LISTING_KINDS && k->n && strcmp(k->extension, extension) != 0)
        k++;
    if (k == l->kinds + LEAT_LISTING_KINDS)
        return;
    strcpy(k->extension, extension);
    k->n++;
}

static int look(struct scan *s, int fd, const struct dirent *entry, unsigned depth)
{
    struct leat_listing *l = s->listing;
    const char *name = entry->d_name;
    unsigned char type = entry->d_type;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return LEAT_OK;
    if (name[0] == '.') {
        l->hidden++;
        return LEAT_OK;
    }
    bool link = type == DT_LNK;
    struct stat st;
    if (type == DT_UNKNOWN) { /* some file systems do not say */
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            link = S_ISLNK(st.st_mode);
            type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
        }
    }
    if (link && fstatat(fd, name, &st, 0) == 0)
        type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
    if (type != DT_DIR && !leat_photo_has_suffix(name)) {
        add_other(s, name);
        return LEAT_OK;
    }
    if (!is_utf8(name)) {
        l->unnamed++;
        return LEAT_OK;
    }
    if (type == DT_DIR)
        return enter(s, fd, name, link, depth);
    struct statx x;
    if (statx(fd, name, 0, STATX_TYPE | STATX_SIZE | STATX_MTIME, &x)) {
        if (errno != ENOENT && errno != ELOOP)
            return cannot_read(s, name);
        l->missing++;
        return LEAT_OK;
    }
    if (!S_ISREG(x.stx_mode)) {
        add_other(s, name);
        return LEAT_OK;
    }
    return add_file(s, name, x.stx_size, (int64_t)x.stx_mtime.tv_sec * 1000000000 + x.stx_mtime.tv_nsec);
}

/* Takes over `fd`. */
static int scan_folder(struct scan *s, int fd, unsigned depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = cannot_read(s, "");
        close(fd);
        return rc;
    }
    int rc = LEAT_OK;
    while (!rc) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                rc = cannot_read(s, "");
            break;
        }
        rc = look(s, fd, entry, depth);
    }
    closedir(dir);
    return rc;
}

static int compare_files(const void *a, const void *b, void *names)
{
    const struct leat_listing_file *x = a, *y = b;
    return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

struct order {
    const struct leat_listing_folder *folder;
    uint32_t number;
};

static int compare_folders(const void *a, const void *b)
{
    return strcmp(((const struct order *)a)->folder->name, ((const struct order *)b)->folder->name);
}

static int sort(struct scan *s)
{
    struct leat_listing *l = s->listing;
    int rc = LEAT_OK;
    struct order *order = leat_new_array(l->n_folders, sizeof *order);
    uint32_t *rank = leat_new_array(l->n_folders, sizeof *rank);
    struct leat_listing_folder *sorted = leat_new_array(l->n_folders, sizeof *sorted);
    if (!order || !rank || !sorted) {
        rc = no_memory(s);
        goto out;
    }
    for (size_t i = 0; i < l->n_folders; i++)
        order[i] = (struct order){&l->folders[i], (uint32_t)i};
    qsort(order, l->n_folders, sizeof *order, compare_folders);
    for (size_t i = 0; i < l->n_folders; i++) {
        sorted[i] = *order[i].folder;
        rank[order[i].number] = (uint32_t)i;
    }
    if (l->n_folders)
        memcpy(l->folders, sorted, l->n_folders * sizeof *sorted);
    for (size_t i = 0; i < l->n_files; i++)
        if (l->files[i].folder != LEAT_LISTING_ROOT)
            l->files[i].folder = rank[l->files[i].folder];
    if (l->n_files)
        qsort_r(l->files, l->n_files, sizeof *l->files, compare_files, l->names);
out:
    leat_free(order);
    leat_free(rank);
    leat_free(sorted);
    return rc;
}

int leat_listing_scan(const char *root, struct leat_listing *listing, struct leat_error *error)
{
    int rc;
    memset(listing, 0, sizeof *listing);
    struct scan *s = leat_new(struct scan);
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to list %s", root);
    s->listing = listing;
    s->root = root;
    s->folder = LEAT_LISTING_ROOT;
    s->error = error;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        rc = errno == ENOTDIR ? leat_fail(error, LEAT_E_INVALID, "%s is a file, not a folder of photos", root)
                              : leat_fail_errno(error, errno == ENOENT ? LEAT_E_NOT_FOUND : LEAT_E_IO,
                                                "cannot open the folder %s", root);
        leat_error_at_file(error, root, LEAT_NO_OFFSET);
        if (fd >= 0)
            close(fd);
        goto out;
    }
    s->root_device = st.st_dev;
    s->root_inode = st.st_ino;
    rc = scan_folder(s, fd, 0);
    if (!rc)
        rc = sort(s);
out:
    if (rc)
        leat_listing_destroy(listing);
    leat_free(s);
    return rc;
}

void leat_listing_destroy(struct leat_listing *listing)
{
    for (size_t i = 0; i < listing->n_folders; i++)
        leat_free(listing->folders[i].name);
    leat_free(listing->folders);
    leat_free(listing->files);
    leat_free(listing->names);
    memset(listing, 0, sizeof *listing);
}

void leat_listing_keep(struct leat_listing *listing, int in_root)
{
    size_t n = 0;
    for (size_t i = 0; i < listing->n_files; i++)
        if ((listing->files[i].folder == LEAT_LISTING_ROOT) == (in_root != 0))
            listing->files[n++] = listing->files[i];
    listing->n_files = n;
}

/* Whether a part of the path begins with a dot, and is not the dot alone. */
static bool is_hidden(const char *name)
{
    bool begins = true, hidden = false;
    for (const char *p = name; *p; p++) {
        hidden |= begins && *p == '.' && p[1] && p[1] != '/';
        begins = *p == '/';
    }
    return hidden;
}

const char *leat_listing_why_not(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", root, name);
    if (*name == '/' || strstr(name, "..") || n <= 0 || (size_t)n >= sizeof path || stat(path, &st) ||
        !S_ISREG(st.st_mode))
        return NULL;
    if (!leat_photo_has_suffix(name))
        return other_suffix;
    return is_hidden(name) ? "leat passes over names that begin with a dot: rename it, here and there"
                           : "leat lists it under another name, or passes over a link in its path: correct the name";
}
