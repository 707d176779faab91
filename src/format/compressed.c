/* The decoded bytes of a file: compressed.h. */
#include "format/compressed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/kept.h"
#include "io/bgzf.h"
#include "io/gzip.h"
#include "io/zstd.h"

enum { PATH = 4096 + 64, PIECE = 1 << 20 };

int leat_compression_of(struct leat_io_file *file, enum leat_compression *out, struct leat_error *error)
{
    uint8_t head[LEAT_BGZF_HEAD];
    const size_t n = file->size < sizeof head ? (size_t)file->size : sizeof head;
    const int rc = leat_io_read(file, 0, n, head, error);
    *out = rc                             ? LEAT_COMPRESSION_NONE
           : leat_bgzf_recognise(head, n) ? LEAT_COMPRESSION_BGZF
           : leat_gzip_recognise(head, n) ? LEAT_COMPRESSION_GZIP
           : leat_zstd_recognise(head, n) ? LEAT_COMPRESSION_ZSTD
                                          : LEAT_COMPRESSION_NONE;
    return rc;
}

void leat_compressed_copy_place(const char *index, char *out, size_t room)
{
    const size_t n = strlen(index), end = strlen(LEAT_KEPT_END);
    snprintf(out, room, "%.*s.leat-frames.zst", (int)(n > end ? n - end : 0), index);
}

/* ---- in order -------------------------------------------------------------------------------- */

struct reading {
    int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error);
    void *user;
    struct leat_zstd_copy *copy;
};

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct reading *r = user;
    int rc = r->sink(r->user, bytes, n, error);
    return rc || !r->copy ? rc : leat_zstd_copy_add(r->copy, bytes, n, error);
}

static int read_plain(struct leat_io_file *file, struct reading *r, struct leat_error *error)
{
    uint8_t *piece = leat_alloc(PIECE);
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    for (uint64_t at = 0; at < file->size && !rc; at += PIECE) {
        const size_t n = file->size - at < PIECE ? (size_t)(file->size - at) : PIECE;
        rc = leat_io_read(file, at, n, piece, error);
        rc = rc ? rc : take(r, piece, n, error);
    }
    leat_free(piece);
    return rc;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* Opens the file that a copy is written to, for reading and writing: one beside the index, or one without a name. -1:
 * there is no place for one. */
static int open_copy(const char *place, char temporary[PATH])
{
    temporary[0] = 0;
    int fd = -1;
    const int refused = *place ? leat_kept_refused(place) : 0;
    if (*place && !refused && leat_kept_partial_name(temporary, PATH, place))
        fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        return fd;
    if (*place)
        leat_kept_unwritten(place, refused ? refused : errno);
    temporary[0] = 0;
    return open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int open_frames(struct leat_io_file *file, enum leat_compression compression, const struct leat_frame *frames,
                       size_t n, struct leat_io_file **out, struct leat_error *error)
{
    if (!n)
        return leat_io_from_memory(file->path, "", 0, out, error);
    return (compression == LEAT_COMPRESSION_BGZF ? leat_bgzf_open : leat_zstd_open)(file, frames, n, out, error);
}

/* Opens a copy that was written, under its name or by its descriptor. Under its name there may be the copy of another
 * process by now, which is whole and the same. */
static int open_written(struct leat_compressed *d, int fd, const char *temporary, const char *place,
                        struct leat_error *error)
{
    char path[PATH];
    struct leat_io_file *file;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (*temporary && rename(temporary, place))
        return leat_fail_errno(error, LEAT_E_IO, "cannot rename %s", temporary);
    int rc = leat_io_open(*temporary ? place : path, &file, error);
    if (rc)
        return rc;
    file->copy = true;
    rc = open_frames(file, LEAT_COMPRESSION_ZSTD, d->frames, d->n_frames, &d->file, error);
    leat_io_release(file);
    return rc;
}

/* Reads a file of gzip, or of zstd whose frames were found, with a copy. */
static int read_copied(struct leat_io_file *file, bool gzip, const char *place, struct reading *r,
                       struct leat_compressed *d, struct leat_error *error)
{
    struct leat_frame *copied = NULL;
    char temporary[PATH], name[PATH];
    int rc = LEAT_OK;
    const int fd = open_copy(place, temporary);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return leat_fail_errno(error, LEAT_E_IO,
                               "%s cannot be opened, as each compressed file keeps two open: raise the limit (ulimit "
                               "-n), or decompress them",
                               file->path);
    if (fd < 0)
        return leat_fail_errno(error, LEAT_E_IO,
                               "%s cannot be read from its middle, and there is no place for a copy that can: give an "
                               "index_dir that may be written",
                               file->path);
    snprintf(name, sizeof name, "a copy of %s in %s", file->path, temporary_folder());
    rc = leat_zstd_copy_begin(fd, *temporary ? temporary : name, &r->copy, error);
    if (!rc && gzip)
        rc = leat_gzip_open(file, &(struct leat_gzip_options){.sink = take, .user = r}, NULL, error);
    else if (!rc)
        rc = leat_zstd_scan(file, d->frames, d->n_frames, take, r, error);
    if (r->copy) {
        const int end =
            leat_zstd_copy_end(r->copy, rc ? NULL : &copied, &d->n_frames, &d->copy_bytes, rc ? NULL : error);
        rc = rc ? rc : end;
    }
    leat_free(d->frames);
    d->frames = copied;
    rc = rc ? rc : open_written(d, fd, temporary, place, error);
    if (rc && *temporary)
        unlink(temporary);
    d->lasting = *temporary;
    close(fd);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int leat_compressed_find(struct leat_io_file *file, enum leat_compression compression, struct leat_compressed *out,
                         struct leat_error *error)
{
    *out = (struct leat_compressed){.lasting = true};
    if (compression == LEAT_COMPRESSION_NONE)
        out->file = leat_io_retain(file);
    if (compression != LEAT_COMPRESSION_BGZF)
        return LEAT_OK;
    int rc = leat_bgzf_find(file, &out->frames, &out->n_frames, error);
    if (!rc && (rc = open_frames(file, compression, out->frames, out->n_frames, &out->file, error)))
        leat_free(out->frames);
    return rc;
}

int leat_compressed_read(struct leat_io_file *file, enum leat_compression compression, const char *place,
                         int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                         struct leat_compressed *out, struct leat_error *error)
{
    struct reading r = {.sink = sink, .user = user};
    bool is_long = compression == LEAT_COMPRESSION_GZIP;
    int rc = leat_compressed_find(file, compression, out, error);
    if (!rc && compression == LEAT_COMPRESSION_BGZF)
        rc = leat_bgzf_scan(file, out->frames, out->n_frames, take, &r, error);
    else if (!rc && out->file)
        rc = read_plain(file, &r, error);
    else if (!rc && compression == LEAT_COMPRESSION_ZSTD)
        rc = leat_zstd_find(file, &out->frames, &out->n_frames, &is_long, error);
    if (!rc && !out->file && is_long) {
        rc = read_copied(file, compression == LEAT_COMPRESSION_GZIP, place, &r, out, error);
    } else if (!rc && !out->file) {
        rc = leat_zstd_scan(file, out->frames, out->n_frames, take, &r, error);
        rc = rc ? rc : open_frames(file, compression, out->frames, out->n_frames, &out->file, error);
    }
    if (!rc)
        return rc;
    leat_io_release(out->file);
    leat_free(out->frames);
    *out = (struct leat_compressed){0};
    return rc;
}

int leat_compressed_pass(struct leat_io_file *file, enum leat_compression compression,
                         int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                         struct leat_error *error)
{
    struct reading r = {.sink = sink, .user = user};
    struct leat_frame *frames = NULL;
    size_t n = 0;
    bool is_long;
    int rc = LEAT_OK;
    switch (compression) {
    case LEAT_COMPRESSION_GZIP:
        return leat_gzip_open(file, &(struct leat_gzip_options){.sink = take, .user = &r}, NULL, error);
    case LEAT_COMPRESSION_BGZF:
        rc = leat_bgzf_find(file, &frames, &n, error);
        rc = rc ? rc : leat_bgzf_scan(file, frames, n, take, &r, error);
        break;
    case LEAT_COMPRESSION_ZSTD:
        rc = leat_zstd_find(file, &frames, &n, &is_long, error);
        rc = rc ? rc : leat_zstd_scan(file, frames, n, take, &r, error);
        break;
    default:
        return read_plain(file, &r, error);
    }
    leat_free(frames);
    return rc;
}

bool leat_compressed_swells(const struct leat_io_file *file, uint64_t bytes)
{
    return bytes / 32 > (UINT64_C(4) << 20) + file->size;
}

int leat_compressed_open(struct leat_io_file *file, enum leat_compression compression, const char *place,
                         const struct leat_frame *frames, size_t n_frames, uint64_t copy_bytes,
                         struct leat_io_file **out, struct leat_error *error)
{
    struct leat_io_file *copy = NULL;
    *out = NULL;
    if (compression == LEAT_COMPRESSION_NONE) {
        *out = leat_io_retain(file);
        return LEAT_OK;
    }
    if (!copy_bytes)
        return open_frames(file, compression, frames, n_frames, out, error);
    int rc = leat_io_open(place, &copy, error);
    if (!rc)
        copy->copy = true;
    if (!rc && copy->size != copy_bytes)
        rc = leat_fail(error, LEAT_E_CORRUPT, "%s is another copy than the index speaks of", place);
    rc = rc ? rc : open_frames(copy, LEAT_COMPRESSION_ZSTD, frames, n_frames, out, error);
    leat_io_release(copy);
    return rc;
}

size_t leat_compressed_head(const uint8_t *head, size_t n, uint8_t *out, size_t room)
{
    if (leat_gzip_recognise(head, n))
        return leat_gzip_head(head, n, out, room);
    n = leat_zstd_recognise(head, n) ? 0 : n < room ? n : room;
    memcpy(out, head, n);
    return n;
}
