/*
 * Archives of arrays of numpy.savez and savez_compressed: each member NAME.npy is a field (arrays.h) of NAME. Members
 * that are none are left out, with a notice. CRC-32 is compared by the pass over the values, and by leat verify.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/archive.h"
#include "format/arrays.h"

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

static int npz_find(void *user, size_t i, const char *name, const struct leat_field *wish, struct leat_found_array *out,
                    struct leat_error *error)
{
    const struct npz *z = user;
    const struct leat_archive_member *m = z->arrays[i];
    int rc = leat_archive_open(z->file, &z->zip, m, z->options, &out->file, &out->crc_at, error);
    if (rc)
        return rc;
    out->compressed = m->deflated;
    out->checked = !m->deflated;
    out->crc = m->crc;
    rc = leat_npy_find(z->file->path, out->file, out->crc_at, m->size, name, out, error);
    if (rc != LEAT_E_FORMAT && rc != LEAT_E_CORRUPT)
        return rc;
    const int damaged = m->deflated ? LEAT_OK : leat_archive_check(z->file, &z->zip, m, error);
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
