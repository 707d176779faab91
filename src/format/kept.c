/* Files that keep what a pass over a source has found: kept.h. */
#include "format/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "io/guard.h"

enum { PIECES = 16, END = 64 << 10, PIECE = 4 << 10 };

/* ---- where they are -------------------------------------------------------------------------- */

bool leat_kept_path(const char *source, const char *dir, char *out, size_t room)
{
    if (!dir)
        return !leat_io_is_remote(source) && (size_t)snprintf(out, room, "%s" LEAT_KEPT_END, source) < room;
    char *whole = leat_io_is_remote(source) ? NULL : realpath(source, NULL);
    const char *path = whole ? whole : source, *slash = strrchr(path, '/');
    const bool good = (size_t)snprintf(out, room, "%s/%.100s-%016" PRIx64 LEAT_KEPT_END, dir, slash ? slash + 1 : path,
                                       leat_hash64(path, strlen(path))) < room;
    free(whole);
    return good;
}

int leat_kept_check_dir(const char *dir, struct leat_error *error)
{
    struct stat st;
    if (!dir || stat(dir, &st) || S_ISDIR(st.st_mode))
        return LEAT_OK;
    return leat_fail(error, LEAT_E_INVALID, "index_dir %s is a file: name a folder; it is made when needed", dir);
}

bool leat_kept_partial_name(char *name, size_t room, const char *path)
{
    static _Atomic unsigned counter;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int n = snprintf(name, room, "%s.%ld-%u-%09ld.partial", path, (long)getpid(), atomic_fetch_add(&counter, 1),
                           (long)now.tv_nsec);
    return n > 0 && (size_t)n < room;
}

int leat_kept_refused(const char *path)
{
    char folder[4096];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if ((size_t)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") >=
        sizeof folder)
        return ENAMETOOLONG;
    if (stat(folder, &st))
        return errno;
    if (!(st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)))
        return EACCES;
    return access(folder, W_OK) ? errno : 0;
}

void leat_kept_unwritten(const char *path, int why)
{
    leat_log(LEAT_LOG_WARNING, "%s cannot be written%s%s%s%s: it is made again the next time", path, why ? " (" : "",
             why ? strerror(why) : "", leat_if_full(why), why ? ")" : "");
}

bool leat_kept_pieces(struct leat_io_file *file, uint64_t *out)
{
    uint8_t *piece = leat_alloc(END);
    uint64_t hashes[PIECES + 2] = {0};
    bool good = piece;
    for (size_t i = 0; i < PIECES + 2 && good; i++) {
        const uint64_t most = i < 2 ? END : PIECE, n = file->size < most ? file->size : most,
                       at = i == 0   ? 0
                            : i == 1 ? file->size - n
                                     : (file->size - n) / (PIECES + 1) * (i - 1);
        good = !leat_io_read(file, at, n, piece, NULL);
        hashes[i] = good ? leat_hash64(piece, (size_t)n) : 0;
    }
    leat_free(piece);
    *out = leat_hash64(hashes, sizeof hashes);
    return good;
}

/* ---- sections -------------------------------------------------------------------------------- */

struct header {
    char magic[8], kind[8];
    uint64_t file_bytes, source_bytes, source_pieces;
    int64_t source_mtime_ns;
    uint64_t facts[8];
    struct {
        uint64_t at, count, each, hash;
    } sections[LEAT_KEPT_SECTIONS];
    uint64_t hash; /* of all before */
};
static const char magic[8] = {'L', 'E', 'A', 'T', 'K', 'E', 'P', 'T'};

static bool is_right(const struct header *h, const struct leat_kept *wanted, const struct leat_io_file *file,
                     struct leat_io_file *source, const char kind[8], bool trusts)
{
    uint64_t pieces, bytes, end;
    if (memcmp(h->magic, magic, 8) != 0 || memcmp(h->kind, kind, 8) != 0 || h->file_bytes != file->size)
        return false;
    for (size_t i = 0; i < LEAT_KEPT_SECTIONS; i++)
        if (h->sections[i].each != wanted->sections[i].each || h->sections[i].at % 64 ||
            !leat_mul_u64(h->sections[i].count, h->sections[i].each, &bytes) ||
            !leat_add_u64(h->sections[i].at, bytes, &end) || end > file->size)
            return false;
    if (trusts || h->hash != leat_hash64(h, offsetof(struct header, hash)))
        return trusts;
    return !source || (h->source_bytes == source->size && h->source_mtime_ns == source->mtime_ns &&
                       leat_kept_pieces(source, &pieces) && pieces == h->source_pieces);
}

bool leat_kept_load(struct leat_kept *k, const char *path, struct leat_io_file *source, const char kind[8], bool trusts)
{
    struct leat_io_file *file = NULL;
    struct stat st;
    struct header h;
    const uint8_t *base = NULL;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || leat_io_open(path, &file, NULL))
        return false;
    bool good = file->size >= sizeof h && !leat_io_read(file, 0, sizeof h, &h, NULL) &&
                is_right(&h, k, file, source, kind, trusts);
    k->memory = NULL;
    k->file = NULL;
    if (good && file->size <= LEAT_KEPT_SMALL) {
        base = k->memory = leat_alloc((size_t)file->size);
        good = base && !leat_io_read(file, 0, file->size, k->memory, NULL);
    } else if (good) {
        k->file = leat_io_retain(file);
        good = (base = leat_io_map(file, NULL));
    }
    for (size_t i = 0; good && i < LEAT_KEPT_SECTIONS; i++) {
        k->sections[i].data = base + h.sections[i].at;
        k->sections[i].count = h.sections[i].count;
        uint64_t hash = h.sections[i].hash;
        if (!trusts)
            good = !leat_guarded_hash(k->sections[i].data, (size_t)(h.sections[i].count * h.sections[i].each), &hash,
                                      NULL) &&
                   hash == h.sections[i].hash;
    }
    memcpy(k->facts, h.facts, sizeof k->facts);
    k->inode = st.st_ino;
    k->path = good ? leat_strdup(path) : NULL;
    leat_io_release(file);
    if (!good)
        leat_kept_release(k);
    return good;
}

void leat_kept_release(struct leat_kept *k)
{
    leat_free(k->memory);
    leat_io_release(k->file);
    leat_free(k->path);
    k->memory = NULL;
    k->file = NULL;
    k->path = NULL;
}

bool leat_kept_forget(const char *path, uint64_t inode)
{
    struct stat st;
    return stat(path, &st) || st.st_ino != inode || (!leat_kept_refused(path) && !unlink(path));
}

int leat_kept_wrong(const char *source, const char *path, uint64_t inode, const char *what, uint64_t at,
                    struct leat_error *error)
{
    const bool gone = !path || leat_kept_forget(path, inode);
    return leat_fail_at(error, LEAT_E_CHANGED, source, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s: %s: open it again%s%s%s", source, what, gone ? "" : ", and before that remove the index ",
                        gone ? "" : path, gone ? "" : ", which cannot be removed here, or name an index_dir");
}

static bool write_all(FILE *file, const struct leat_kept *k, const struct header *h)
{
    static const uint8_t zeros[64];
    uint64_t at = sizeof *h;
    bool good = fwrite(h, 1, sizeof *h, file) == sizeof *h;
    for (size_t i = 0; i < LEAT_KEPT_SECTIONS && good; i++) {
        const size_t pad = (size_t)(h->sections[i].at - at), n = (size_t)(h->sections[i].count * h->sections[i].each);
        good = fwrite(zeros, 1, pad, file) == pad && (!n || fwrite(k->sections[i].data, 1, n, file) == n);
        at += pad + n;
    }
    return good;
}

bool leat_kept_save(struct leat_kept *k, const char *path, struct leat_io_file *source, const char kind[8])
{
    char temporary[4096 + 64];
    struct header h = {.source_bytes = source ? source->size : 0, .source_mtime_ns = source ? source->mtime_ns : 0};
    struct stat st;
    uint64_t at = sizeof h;
    const int refused = leat_kept_refused(path);
    if (refused || (source && !leat_kept_pieces(source, &h.source_pieces)) ||
        !leat_kept_partial_name(temporary, sizeof temporary, path)) {
        leat_kept_unwritten(path, refused);
        return false;
    }
    memcpy(h.magic, magic, 8);
    memcpy(h.kind, kind, 8);
    memcpy(h.facts, k->facts, sizeof h.facts);
    for (size_t i = 0; i < LEAT_KEPT_SECTIONS; i++) {
        const struct leat_kept_section *s = &k->sections[i];
        const uint64_t bytes = s->count * s->each;
        h.sections[i].at = leat_align64(at);
        h.sections[i].count = s->count;
        h.sections[i].each = s->each;
        h.sections[i].hash = leat_hash64(s->data, (size_t)bytes);
        at = h.sections[i].at + bytes;
    }
    h.file_bytes = at;
    h.hash = leat_hash64(&h, offsetof(struct header, hash));
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !file)
        close(fd);
    bool good = file && write_all(file, k, &h);
    good = file && !fclose(file) && good && !stat(temporary, &st) && !rename(temporary, path);
    k->inode = good ? st.st_ino : 0;
    k->path = good ? leat_strdup(path) : NULL;
    if (!good) {
        leat_kept_unwritten(path, errno);
        if (fd >= 0)
            unlink(temporary);
    }
    return good;
}
