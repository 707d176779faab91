/*
 * The index of a file of lines: read where it is kept, or made and kept; and the decoded bytes of a compressed file.
 *
 *     plain                          the file itself
 *     zstd, many frames              blocks of some frames each, decoded when they are wanted
 *     zstd, a long frame; gzip       cannot be read from its middle: while the index is made, a copy is, too, in short
 *                                    frames of zstd, which is kept beside the index (NAME.leat-frames.zst) or, where
 *                                    that may not be written, in an unnamed temporary file of this process
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/text_file.h"
#include "io/gzip.h"
#include "io/zstd.h"

enum { PATH = 4096 + 64, PIECE = 1 << 20, HEAD = 18, TELL = 16 << 20 };
#define END ".leat-index"

/* ---- making an index ------------------------------------------------------------------------- */

struct making {
    struct leat_text_file *t;
    const struct leat_open_options *options;
    struct leat_text_stream *stream;
    struct leat_zstd_copy *copy;
    uint64_t done, told;
};

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct making *m = user;
    int rc = leat_text_stream_push(m->stream, bytes, n, error);
    if (!rc && m->copy)
        rc = leat_zstd_copy_add(m->copy, bytes, n, error);
    m->done += n;
    if (!rc && m->options->progress && m->done - m->told >= TELL) {
        m->told = m->done;
        if (m->options->progress(m->options->user, m->done, 0))
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", m->t->path);
    }
    return rc;
}

/* Gives a plain file in order, for documents that are not lines. */
static int read_plain(struct making *m, struct leat_error *error)
{
    struct leat_io_file *file = m->t->file;
    uint8_t *piece = leat_alloc(PIECE);
    int rc = piece ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    for (uint64_t at = 0; at < file->size && !rc; at += PIECE) {
        const size_t n = file->size - at < PIECE ? (size_t)(file->size - at) : PIECE;
        rc = leat_io_read(file, at, n, piece, error);
        rc = rc ? rc : take(m, piece, n, error);
    }
    leat_free(piece);
    return rc;
}

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* Opens the file that a copy is written to, for reading and writing: one beside the index, or one without a name. -1:
 * there is no place for one. */
static int open_copy(const char *place, char temporary[PATH])
{
    struct stat st;
    int fd = -1;
    char dir[PATH];
    const char *slash = strrchr(place, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - place) + 1 : 2, slash ? place : "./");
    temporary[0] = 0;
    if (*place && !stat(dir, &st) && st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH) &&
        leat_text_partial_name(temporary, PATH, place))
        fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        return fd;
    temporary[0] = 0;
    return open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* The frames become the index's. */
static int keep_frames(struct leat_text_file *t, const struct leat_zstd_frame *frames, size_t n, uint64_t copy_bytes,
                       struct leat_error *error)
{
    struct leat_text_index *x = &t->index;
    struct leat_zstd_frame *room = leat_text_index_room(x, n + 1, sizeof *room);
    if (!room)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->path);
    memcpy(room, frames, (n + 1) * sizeof *room);
    x->frames = n ? room : NULL;
    x->n_frames = n;
    x->bytes = frames[n].out;
    x->copy_bytes = copy_bytes;
    return LEAT_OK;
}

static int open_decoded(struct leat_text_file *t, struct leat_io_file *file, struct leat_error *error)
{
    if (!t->index.n_frames)
        return leat_io_from_memory(t->path, "", 0, &t->decoded, error);
    return leat_zstd_open(file, t->index.frames, (size_t)t->index.n_frames, &t->decoded, error);
}

/* Opens a copy that was written, under its name or by its descriptor. Under its name there may be the copy of another
 * process by now, which is whole and the same. */
static int open_written(struct leat_text_file *t, int fd, const char *temporary, const char *place,
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
    rc = open_decoded(t, file, error);
    leat_io_release(file);
    return rc;
}

/* Reads the file in order, decodes it and indexes it; with a copy, if `long_frames`. */
static int make_streamed(struct making *m, enum leat_text_mode mode, bool gzip, bool zstd, const char *place,
                         bool *kept, struct leat_error *error)
{
    struct leat_text_file *t = m->t;
    struct leat_zstd_frame *frames = NULL, *copied = NULL;
    size_t n = 0, n_copied = 0;
    uint64_t copy_bytes = 0;
    bool is_long = gzip;
    char temporary[PATH] = "", name[2 * PATH + 32];
    int fd = -1, rc = LEAT_OK;
    const struct leat_text_scan scan = {.mode = mode};
    if (zstd)
        rc = leat_zstd_find(t->file, &frames, &n, &is_long, error);
    if (!rc && is_long && (fd = open_copy(place, temporary)) < 0)
        rc = leat_fail_errno(error, LEAT_E_IO,
                             "%s cannot be read from its middle, and there is no place for a copy that can: give an "
                             "index_dir that may be written",
                             t->path);
    snprintf(name, sizeof name, "a copy of %s in %s", t->path, temporary_folder());
    rc = rc || fd < 0 ? rc : leat_zstd_copy_begin(fd, *temporary ? temporary : name, &m->copy, error);
    rc = rc ? rc : leat_text_stream_begin(t->path, &scan, &m->stream, error);
    if (!rc && gzip)
        rc = leat_gzip_open(t->file, &(struct leat_gzip_options){.sink = take, .user = m}, NULL, error);
    else if (!rc)
        rc = zstd ? leat_zstd_scan(t->file, frames, n, take, m, error) : read_plain(m, error);
    if (m->copy) {
        const int copy_rc = leat_zstd_copy_end(m->copy, rc ? NULL : &copied, &n_copied, &copy_bytes, rc ? NULL : error);
        rc = rc ? rc : copy_rc;
    }
    if (m->stream) {
        const int end = leat_text_stream_end(m->stream, !rc, &t->index, rc ? NULL : error);
        rc = rc ? rc : end;
    }
    if (!rc && !gzip && !zstd) {
        t->index.bytes = t->file->size;
        t->decoded = leat_io_retain(t->file);
    } else if (!rc) {
        rc = keep_frames(t, copied ? copied : frames, copied ? n_copied : n, copy_bytes, error);
        if (!rc)
            rc = copied ? open_written(t, fd, temporary, place, error) : open_decoded(t, t->file, error);
    }
    if (rc && *temporary)
        unlink(temporary);
    *kept = *kept && (!copied || *temporary);
    if (fd >= 0)
        close(fd);
    leat_free(frames);
    leat_free(copied);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* An index that was read needs the copy that it speaks of. */
static bool open_kept(struct leat_text_file *t, const char *place)
{
    struct leat_io_file *file = NULL;
    struct stat st;
    if (!t->index.copy_bytes)
        return !open_decoded(t, t->file, NULL);
    if (stat(place, &st) || leat_io_open(place, &file, NULL))
        return false;
    const bool good = file->size == t->index.copy_bytes && !open_decoded(t, file, NULL);
    leat_io_release(file);
    return good;
}

int leat_text_file_index(struct leat_text_file *t, const struct leat_open_options *options, enum leat_text_mode mode,
                         bool careful, struct leat_error *error)
{
    char place[4096], copy[PATH] = "";
    uint8_t head[HEAD];
    const size_t n = t->file->size < HEAD ? (size_t)t->file->size : HEAD;
    int rc = leat_io_read(t->file, 0, n, head, error);
    if (rc)
        return rc;
    const bool gzip = leat_gzip_recognise(head, n), zstd = leat_zstd_recognise(head, n);
    const struct leat_text_care care = {.small = LEAT_TEXT_INDEX_SMALL, .careful = careful};
    bool kept = mode != LEAT_TEXT_FILE && leat_text_index_path(t->path, options->index_dir, place, sizeof place);
    if (kept)
        snprintf(copy, sizeof copy, "%.*s.leat-frames.zst", (int)(strlen(place) - strlen(END)), place);
    if (kept && leat_text_index_load(&t->index, place, t->file, mode, &care)) {
        if (!gzip && !zstd)
            t->decoded = leat_io_retain(t->file);
        if (t->decoded || open_kept(t, copy))
            return LEAT_OK;
        leat_text_index_destroy(&t->index);
    }
    if (kept && options->index_dir)
        mkdir(options->index_dir, 0777);
    const struct leat_text_scan scan = {.mode = mode, .progress = options->progress, .user = options->user};
    struct making m = {.t = t, .options = options};
    if (gzip || zstd || mode == LEAT_TEXT_BLANK || mode == LEAT_TEXT_FILE) {
        rc = make_streamed(&m, mode, gzip, zstd, copy, &kept, error);
    } else {
        t->decoded = leat_io_retain(t->file);
        rc = leat_text_scan_file(t->file, &scan, &t->index, error);
    }
    if (!rc && kept && !(rc = leat_text_file_refresh(t, error)))
        leat_text_index_save(&t->index, place, t->file, mode);
    return rc;
}
