/*
 * Archives of arrays of numpy.savez and savez_compressed: each member NAME.npy is a field (arrays.h) of NAME. Members
 * that are none are left out, with a notice. CRC-32 is compared by the pass over the values, and by leat verify. Access
 * points of deflated members are kept, so that the next opening decodes no more than their headers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/archive.h"
#include "format/arrays.h"
#include "format/arrays_kept.h"

struct npz {
    const struct leat_open_options *options; /* NULL: of leat verify */
    struct leat_io_file *file;
    struct leat_archive zip;
    struct leat_archive_member **arrays;
    size_t n;
};

static bool is_npy(const char *name, size_t n)
{
    return n > 4 && !memcmp(name + n - 4, ".npy", 4);
}

/* By its name, or by that of its first member, whose place in the local header is fixed. */
static bool npz_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    const size_t length = strlen(path), name = n > 30 ? (size_t)(head[26] | head[27] << 8) : 0;
    if (folder || !leat_archive_recognise(head, n))
        return false;
    return (length >= 4 && !strcasecmp(path + length - 4, ".npz")) ||
           (name && name <= n - 30 && is_npy((const char *)head + 30, name));
}

static const char *npz_name(void *user, size_t i, size_t *length)
{
    const struct npz *z = user;
    *length = z->arrays[i]->name_bytes - 4;
    return z->arrays[i]->name;
}

/* The header of a deflated array, which is decoded alone. */
static int find_deflated(const struct npz *z, const struct leat_archive_member *m, const char *name,
                         struct leat_found_array *out, struct leat_error *error)
{
    uint8_t head[LEAT_NPY_HEADER];
    const size_t n = m->size < sizeof head ? (size_t)m->size : sizeof head;
    struct leat_io_file *first = NULL;
    int rc = leat_archive_first(z->file, &z->zip, m, head, n, error);
    rc = rc ? rc : leat_io_from_memory(z->file->path, head, n, &first, error);
    rc = rc ? rc : leat_npy_find(z->file->path, first, 0, m->size, name, out, error);
    leat_io_release(first);
    return rc;
}

/* Opens a deflated member by the points that are kept, or decodes it and keeps them. */
static int open_deflated(const struct npz *z, const struct leat_archive_member *m, struct leat_arrays_kept *kept,
                         struct leat_found_array *out, struct leat_error *error)
{
    struct leat_gzip_points points;
    const char *index;
    uint64_t inode;
    if (leat_arrays_kept_points(kept, m, &points, &index, &inode)) {
        const int rc = leat_archive_reopen(z->file, &z->zip, m, &points, index, inode, &out->file, error);
        if (rc != LEAT_E_CORRUPT)
            return rc;
        leat_arrays_kept_doubt(kept);
    }
    const bool keeps = leat_arrays_kept_keeps(kept);
    const int rc =
        leat_archive_open(z->file, &z->zip, m, z->options, keeps ? &points : NULL, &out->file, &out->crc_at, error);
    return rc || !keeps ? rc : leat_arrays_kept_add(kept, m, &points, error);
}

static int npz_find(void *user, size_t i, const char *name, const struct leat_field *wish,
                    struct leat_arrays_kept *kept, struct leat_found_array *out, struct leat_error *error)
{
    const struct npz *z = user;
    const struct leat_archive_member *m = z->arrays[i];
    out->compressed = m->deflated;
    out->checked = !m->deflated;
    out->crc = m->crc;
    int rc = m->deflated ? find_deflated(z, m, name, out, error)
                         : leat_archive_open(z->file, &z->zip, m, z->options, NULL, &out->file, &out->crc_at, error);
    if (!rc && !m->deflated)
        rc = leat_npy_find(z->file->path, out->file, out->crc_at, m->size, name, out, error);
    if (!rc && m->deflated)
        return open_deflated(z, m, kept, out, error);
    if (rc != LEAT_E_FORMAT && rc != LEAT_E_CORRUPT)
        return rc;
    const int damaged = leat_archive_check(z->file, &z->zip, m, error);
    return damaged ? damaged : rc; /* a header that is refused may be a damaged one */
}

static void destroy(struct npz *z)
{
    leat_io_release(z->file);
    leat_archive_destroy(&z->zip);
    leat_free(z->arrays);
}

static int read_directory(const char *path, const struct leat_open_options *options, struct npz *z,
                          struct leat_error *error)
{
    *z = (struct npz){.options = options};
    int rc = leat_arrays_open_file(path, &z->file, error);
    rc = rc ? rc : leat_archive_read(z->file, &z->zip, error);
    if (!rc && !(z->arrays = leat_new_array(z->zip.n + 1, sizeof(struct leat_archive_member *))))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    for (size_t i = 0; i < z->zip.n && !rc; i++)
        if (is_npy(z->zip.members[i].name, z->zip.members[i].name_bytes))
            z->arrays[z->n++] = &z->zip.members[i];
    return rc;
}

static int npz_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    struct npz z;
    char notice[96] = "";
    *out = NULL;
    int rc = read_directory(path, options, &z, error);
    const size_t others = z.zip.n - z.n;
    if (!rc && others)
        snprintf(notice, sizeof notice, "left out: %zu %s of the archive that %s no .npy", others,
                 others == 1 ? "member" : "members", others == 1 ? "is" : "are");
    const struct leat_arrays_in in = {.v = &leat_format_npz,
                                      .path = path,
                                      .file = z.file,
                                      .n = z.n,
                                      .user = &z,
                                      .name = npz_name,
                                      .find = npz_find,
                                      .notice = notice};
    rc = rc ? rc : leat_arrays_open(&in, options, out, error);
    destroy(&z);
    return rc;
}

/* All members, whether they are fields or not. */
static int npz_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error)
{
    struct npz z;
    int rc = read_directory(source->path, NULL, &z, error);
    const uint64_t total = rc ? 0 : z.file->size;
    for (size_t i = 0; i < z.zip.n && !rc; i++) {
        rc = leat_archive_check(z.file, &z.zip, &z.zip.members[i], error);
        if (!rc && options->progress && options->progress(options->user, total / z.zip.n * (i + 1), total))
            rc = leat_fail(error, LEAT_E_CANCELLED, "verifying %s was stopped", source->path);
    }
    destroy(&z);
    return rc;
}

const struct leat_source_vtable leat_format_npz = {
    .name = "npz", .recognise = npz_recognise, .open = npz_open, LEAT_ARRAYS_VTABLE, .verify = npz_verify};
