/*
 * The local file system: pread into the caller's buffer, or one mapping of the whole file. A read is complete when
 * submit returns, unless reads of the file have turned out to be slow (io/helpers.h).
 *
 * A file that is mapped is also read through the mapping: a copy without a system call, whose bytes the processor
 * fetches while the read before is used. Only bytes that are in the page cache are cheap there (others take one read of
 * the disk for each page), and each first touch adds to what counts as this process's memory. So that is done for short
 * reads, once a good part of the file has been read, and as long as reads do not wait:
 *
 *     read --> short, much was read, quick --> guarded copy --> whole? done
 *       |                                          | the file was cut
 *       `------------------------------------------+--> pread, which also says what is wrong
 */
#include "io/local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/file.h"
#include "io/guard.h"
#include "io/helpers.h"
#include "io/warm.h"

LEAT_REPLACEABLE ssize_t leat_io_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    return pread(fd, buffer, bytes, offset);
}

LEAT_REPLACEABLE int leat_io_open_path(const char *path, int flags)
{
    return open(path, flags);
}

LEAT_REPLACEABLE void *leat_io_mmap(size_t bytes, int flags, int fd)
{
    return mmap(NULL, bytes, PROT_READ, flags, fd, 0);
}

LEAT_REPLACEABLE uint64_t leat_io_longest_copy(void)
{
    return LEAT_LONGEST_COPY;
}

struct local_file {
    struct leat_io_file file;
    int fd;
    struct leat_io_pace pace;
    _Atomic(uint8_t *) map;
    _Atomic uint64_t bytes_read; /* in all; not counted on once there are enough */
    struct leat_warm warm;
    char path[]; /* one allocation per open file: folders open one per sample */
};

enum { SOON_MS = 20, MAX_READ = 1 << 30 };

/* Reads are copies out of the mapping once so much of the file was read: as reader.c has it for columns. */
#define COLD_PART 16
#define BLOCK 4096 /* pages have a multiple of it */
#define LOOKED_AT 64
#define LINE 64
#define LINES_AHEAD 2 /* of each block: the processor goes on by itself */

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int local_open(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                      struct leat_error *error)
{
    int rc;
    size_t path_bytes = strlen(path) + 1;
    struct local_file *f = leat_alloc(sizeof *f + path_bytes);
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    memset(f, 0, sizeof *f);
    memcpy(f->path, path, path_bytes);
    /* O_NONBLOCK: a pipe of that name must not block; it has no effect on files. */
    f->fd = leat_io_open_path(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        rc = leat_fail_errno(error, errno == ENOENT || errno == ENOTDIR ? LEAT_E_NOT_FOUND : LEAT_E_IO,
                             "cannot open %s", path);
        goto out;
    }
    struct stat st;
    if (fstat(f->fd, &st)) {
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot open %s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = leat_fail(error, LEAT_E_IO, "%s is %s, not a file", path,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
        goto out;
    }
    f->file = (struct leat_io_file){
        .backend = backend,
        .path = f->path,
        .size = (uint64_t)st.st_size,
        .device = st.st_dev,
        .inode = st.st_ino,
        .mtime_ns = nanoseconds(st.st_mtim),
        .references = 1,
    };
    atomic_init(&f->pace.turn, 1); /* one that is read once, as those of a folder are, is not measured */
    *out = &f->file;
    return LEAT_OK;
out:
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    if (f->fd >= 0)
        close(f->fd);
    leat_free(f);
    return rc;
}

static int read_all(const struct local_file *f, struct leat_io_request *r)
{
    uint64_t done = 0;
    uint64_t end;
    int rc;
    if (!leat_add_u64(r->offset, r->length, &end) || end > INT64_MAX) {
        rc =
            leat_fail(&r->error, LEAT_E_CORRUPT, "%s: a read of %" PRIu64 " bytes at %" PRIu64 " lies outside any file",
                      f->path, r->length, r->offset);
        goto out;
    }
    while (done < r->length) {
        uint64_t left = r->length - done;
        ssize_t n = leat_io_pread(f->fd, (uint8_t *)r->buffer + done, left < MAX_READ ? (size_t)left : MAX_READ,
                                  (off_t)(r->offset + done));
        if (n > 0) {
            done += (uint64_t)n;
        } else if (n == 0) {
            rc = leat_fail(&r->error, LEAT_E_CORRUPT,
                           "%s ends at byte %" PRIu64 ", but %" PRIu64 " bytes from %" PRIu64
                           " on are needed: the file was cut; "
                           "restore it",
                           f->path, r->offset + done, r->length, r->offset);
            goto out;
        } else if (errno != EINTR) {
            r->retry_after_ms = errno == EIO || errno == EAGAIN ? SOON_MS : 0;
            rc = leat_fail_errno(&r->error, LEAT_E_IO, "cannot read %s at byte %" PRIu64, f->path, r->offset + done);
            goto out;
        }
    }
    return LEAT_OK;
out:
    leat_error_at_file(&r->error, f->path, r->offset + done > INT64_MAX ? LEAT_NO_OFFSET : (int64_t)(r->offset + done));
    return rc;
}

static void run(struct leat_io_request *request)
{
    request->status = read_all((struct local_file *)request->file, request);
}

/* ---- through the mapping --------------------------------------------------------------------- */

static bool copies(const struct local_file *f, uint64_t offset, uint64_t length)
{
    return length && length <= leat_io_longest_copy() && length <= f->file.size && offset <= f->file.size - length &&
           atomic_load_explicit(&f->map, memory_order_relaxed) &&
           atomic_load_explicit(&f->bytes_read, memory_order_relaxed) >= f->file.size / COLD_PART &&
           leat_pace_is_quick(&f->pace);
}

struct look {
    const struct local_file *file;
    uint64_t offset, length;
    void (*look)(void *user, const uint8_t *bytes);
    void *user;
};

/* A cut file ends with zeros in the mapping, up to the end of the page: zeros from the last byte on may be that. */
static int look_at_mapped(void *arg)
{
    const struct look *k = arg;
    const struct local_file *f = k->file;
    const uint8_t *map = atomic_load_explicit(&f->map, memory_order_acquire);
    const uint64_t last = k->offset + k->length - 1, block = (last | (BLOCK - 1)) + 1;
    uint64_t end = block < f->file.size ? block : f->file.size, zeros = last;
    k->look(k->user, map + k->offset);
    end = end - last < LOOKED_AT ? end : last + LOOKED_AT;
    while (zeros < end && !map[zeros])
        zeros++;
    return zeros == end ? LEAT_E_CHANGED : LEAT_OK;
}

/* Whether what was looked at was there. */
static bool look(struct look k)
{
    const int rc = leat_guarded(look_at_mapped, &k, NULL);
    struct stat st;
    return !rc || (rc == LEAT_E_CHANGED && !fstat(k.file->fd, &st) && (uint64_t)st.st_size >= k.offset + k.length);
}

static void copy(void *user, const uint8_t *bytes)
{
    const struct leat_io_request *r = user;
    memcpy(r->buffer, bytes, (size_t)r->length);
}

static void run_mapped(struct leat_io_request *r)
{
    if (!look((struct look){(const struct local_file *)r->file, r->offset, r->length, copy, r}))
        run(r);
}

static bool local_within(struct leat_io_file *file, uint64_t offset, uint64_t length,
                         void (*show)(void *user, const uint8_t *bytes), void *user)
{
    struct local_file *f = (struct local_file *)file;
    return copies(f, offset, length) && leat_pace_passes(&f->pace) &&
           look((struct look){f, offset, length, show, user});
}

static bool local_expect(const struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    const struct local_file *f = (const struct local_file *)file;
    if (!copies(f, offset, length))
        return false;
    const uint8_t *map = atomic_load_explicit(&f->map, memory_order_relaxed);
    for (uint64_t at = offset; at < offset + length; at = (at | (BLOCK - 1)) + 1)
        for (uint64_t k = 0; k < LINES_AHEAD; k++)
            __builtin_prefetch(map + at + k * LINE);
    return true;
}

static int local_submit(struct leat_io_file *file, struct leat_io_request *request)
{
    struct local_file *f = (struct local_file *)file;
    if (!request->past_mapping && copies(f, request->offset, request->length))
        return leat_helpers_submit(request, &f->pace, run_mapped);
    const uint64_t bytes = atomic_load_explicit(&f->bytes_read, memory_order_relaxed);
    if (bytes < file->size)
        atomic_store_explicit(&f->bytes_read, bytes + request->length, memory_order_relaxed); /* one may get lost */
    leat_warm_asked(file, &f->warm, &f->pace, request->length);
    return leat_helpers_submit(request, &f->pace, run);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A file system of FUSE without a page cache has no shared mappings. A private one that nobody writes to shows the same
 * bytes. */
static void *map_whole(size_t bytes, int fd)
{
    void *map = leat_io_mmap(bytes, MAP_SHARED, fd);
    return map == MAP_FAILED && errno == ENODEV ? leat_io_mmap(bytes, MAP_PRIVATE, fd) : map;
}

static const uint8_t *local_map(struct leat_io_file *file, struct leat_error *error)
{
    static const uint8_t empty[1];
    struct local_file *f = (struct local_file *)file;
    uint8_t *map = atomic_load_explicit(&f->map, memory_order_acquire);
    if (map)
        return map;
    if (file->size == 0)
        return empty;
    void *fresh = file->size > SIZE_MAX ? MAP_FAILED : map_whole((size_t)file->size, f->fd);
    if (fresh == MAP_FAILED) {
        leat_fail_errno(error, LEAT_E_IO, "cannot map %s (%" PRIu64 " bytes)", file->path, file->size);
        leat_error_at_file(error, file->path, LEAT_NO_OFFSET);
        return NULL;
    }
    madvise(fresh, (size_t)file->size, MADV_RANDOM);
    int rc = leat_guard_add(fresh, (size_t)file->size, file->path);
    if (rc) {
        munmap(fresh, (size_t)file->size);
        leat_fail(error, rc, "cannot guard the mapping of %s", file->path);
        return NULL;
    }
    /* Two threads may map at once; the first one to get here wins. No lock: the file must survive a fork at any
     * time. */
    if (!atomic_compare_exchange_strong_explicit(&f->map, &map, fresh, memory_order_acq_rel, memory_order_acquire)) {
        leat_guard_remove(fresh, (size_t)file->size);
        munmap(fresh, (size_t)file->size);
        return map;
    }
    return fresh;
}

static int local_look(struct leat_io_file *file, struct leat_io_look *out, struct leat_error *error)
{
    struct stat st;
    if (fstat(((struct local_file *)file)->fd, &st)) {
        leat_fail_errno(error, LEAT_E_IO, "cannot look at %s", file->path);
        leat_error_at_file(error, file->path, LEAT_NO_OFFSET);
        return LEAT_E_IO;
    }
    *out = (struct leat_io_look){(uint64_t)st.st_size, nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
    return LEAT_OK;
}

static void local_close(struct leat_io_file *file)
{
    struct local_file *f = (struct local_file *)file;
    uint8_t *map = atomic_load(&f->map);
    leat_warm_end(file, &f->warm);
    if (map) {
        leat_guard_remove(map, (size_t)file->size);
        munmap(map, (size_t)file->size);
    }
    close(f->fd);
    leat_free(f);
}

const struct leat_io_backend leat_io_local = {.name = "local",
                                              .open = local_open,
                                              .submit = local_submit,
                                              .cancel = leat_helpers_cancel,
                                              .expect = local_expect,
                                              .within = local_within,
                                              .map = local_map,
                                              .look = local_look,
                                              .close = local_close};
