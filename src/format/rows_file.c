/*
 * The file only grows, block by block. A block holds what a process had to add at one time:
 *
 *     header    checksum of the rest | "leatrows" | version | length of the folder's path | generation | path, padded
 *     block     checksum of head and entries | "rowblock" | n | 0 | bytes of the payload
 *               n entries: hash of the name | size | time | number in the listing | length
 *               payload: for each entry  checksum of its record | checksum of the photo's bytes | the index, padded
 *
 * Parts are padded to 8 bytes. So opening reads heads and entries, 32 bytes a photo, and one read gets an index when
 * its photo is decoded. Numbers are little-endian. A record also says that the photo was good when its bytes had that
 * checksum, so a good photo without an index has a record with an index of no bytes.
 *
 * A writer holds a lock (flock) on the whole file. It reads what others have added, cuts off an incomplete last block
 * that a crash has left, and adds a block in one write. Readers hold no lock. If the file was started again, or a write
 * is under way, the checksum of the block or index fails; that of an index also binds it to its photo. A file that was
 * started again has another generation, a random number. The descriptor for the lock is opened each time, because a
 * child that inherits one would share its lock.
 */
#include "format/rows_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/transfer.h"
#include "leat/leat.h"

/* VERSION must be raised when jpeg/rows.h packs an index in another way, or when photos that counted as good no longer
 * do: old records would never be replaced. */
enum { VERSION = 2, HEADER = 32, BLOCK = 32, ENTRY = 32, CHECKSUMS = 16, MOST_PATH = 1 << 16 };
static_assert(ENTRY + CHECKSUMS == LEAT_ROWS_RECORD, "bytes of a record");
static const char header_magic[] = "leatrows", block_magic[] = "rowblock";

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* A checksum binds an index to its photo, because its place may hold another's after the file was started again. */
static uint64_t checksum_of(const struct leat_rows_key *key, uint64_t photo, const uint8_t *rows, size_t length)
{
    uint64_t of_key = leat_key_mix(leat_key_mix(key->name, key->size), (uint64_t)key->mtime_ns);
    return leat_key_mix(leat_key_mix(of_key, photo), leat_hash64(rows, length));
}

/* ---- walking --------------------------------------------------------------------------------- */

/* The header, `*end` of it and its generation. False: this is no such file, or of another folder. */
static bool read_header(int fd, const char *root, uint64_t *generation, uint64_t *end)
{
    uint8_t head[HEADER];
    size_t n = strlen(root), bytes = HEADER + padded(n);
    if (leat_read_at(fd, head, HEADER, 0) < HEADER || memcmp(head + 8, header_magic, 8) ||
        leat_get_u32(head + 16) != VERSION || leat_get_u32(head + 20) != n)
        return false;
    uint8_t *whole = leat_alloc(bytes);
    bool good = whole && leat_read_at(fd, whole, bytes, 0) == bytes &&
                leat_hash64(whole + 8, bytes - 8) == leat_get_u64(whole) && !memcmp(whole + HEADER, root, n);
    if (good) {
        *generation = leat_get_u64(whole + 24);
        *end = bytes;
    }
    leat_free(whole);
    return good;
}

/* Reads head and entries of the block at `at` into `buffer`. The end of the block, or 0 if there is none. */
static uint64_t read_block(int fd, uint64_t at, uint64_t size, uint8_t *buffer)
{
    uint64_t end;
    if (at > size || size - at < BLOCK || leat_read_at(fd, buffer, BLOCK, at) < BLOCK ||
        memcmp(buffer + 8, block_magic, 8))
        return 0;
    uint32_t n = leat_get_u32(buffer + 16);
    if (n > LEAT_ROWS_AT_ONCE || !leat_add_u64(at + BLOCK + (uint64_t)n * ENTRY, leat_get_u64(buffer + 24), &end) ||
        end > size || end > LEAT_ROWS_PLACES || end % 8)
        return 0;
    if (leat_read_at(fd, buffer + BLOCK, (uint64_t)n * ENTRY, at + BLOCK) < (uint64_t)n * ENTRY ||
        leat_hash64(buffer + 8, BLOCK - 8 + (size_t)n * ENTRY) != leat_get_u64(buffer))
        return 0;
    return end;
}

static void tell(const uint8_t *block, uint64_t at, leat_rows_found *found, void *user)
{
    uint32_t n = leat_get_u32(block + 16);
    uint64_t left = leat_get_u64(block + 24), place = at + BLOCK + (uint64_t)n * ENTRY;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = block + BLOCK + (size_t)i * ENTRY;
        struct leat_rows_record record = {
            .key = {leat_get_u64(p), leat_get_u64(p + 8), (int64_t)leat_get_u64(p + 16)},
            .hint = leat_get_u32(p + 24),
            .length = leat_get_u32(p + 28),
            .place = place,
        };
        if (record.length > LEAT_ROWS_LONGEST || left < CHECKSUMS + record.length)
            return;
        left -= CHECKSUMS + record.length;
        place += CHECKSUMS + record.length;
        found(user, &record);
    }
}

/* Continues where the last walk ended, or at the beginning if the file is another one. False: it is not ours. */
static bool walk(struct leat_rows_file *file, int fd, leat_rows_found *found, void *user)
{
    uint64_t generation, end, size = size_of(fd), at = atomic_load_explicit(&file->end, memory_order_relaxed);
    if (!read_header(fd, file->root, &generation, &end))
        return false;
    uint8_t *buffer = leat_alloc(BLOCK + (size_t)LEAT_ROWS_AT_ONCE * ENTRY);
    if (!buffer)
        return false;
    if (generation != atomic_load_explicit(&file->generation, memory_order_relaxed) || at < end || at > size)
        at = end;
    for (uint64_t next; (next = read_block(fd, at, size, buffer)); at = next)
        tell(buffer, at, found, user);
    leat_free(buffer);
    atomic_store_explicit(&file->end, 0, memory_order_relaxed); /* a child forked in between begins at the beginning */
    atomic_store_explicit(&file->generation, generation, memory_order_relaxed);
    atomic_store_explicit(&file->end, at, memory_order_relaxed);
    return true;
}

/* ---- opening and reading --------------------------------------------------------------------- */

int leat_rows_file_init(struct leat_rows_file *file, const char *dir, const char *root, uint64_t limit)
{
    size_t room = strlen(dir) + 32;
    file->path = leat_alloc(room);
    file->root = leat_strdup(root);
    file->limit = limit < LEAT_ROWS_PLACES ? limit : LEAT_ROWS_PLACES;
    file->reader = file->writer = -1;
    if (!file->path || !file->root || strlen(root) > MOST_PATH)
        return LEAT_E_NOMEM;
    snprintf(file->path, room, "%s/%016" PRIx64 ".rows", dir, leat_hash64(root, strlen(root)));
    return LEAT_OK;
}

void leat_rows_file_destroy(struct leat_rows_file *file)
{
    if (file->reader >= 0)
        close(file->reader);
    leat_free(file->path);
    leat_free(file->root);
}

/* Not a link, and nothing that blocks. */
static int open_file(const char *path, int how)
{
    struct stat st;
    int fd = open(path, how | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

void leat_rows_file_load(struct leat_rows_file *file, leat_rows_found *found, void *user)
{
    int fd = open_file(file->path, O_RDONLY);
    if (fd < 0)
        return;
    if (walk(file, fd, found, user))
        file->reader = fd;
    else
        close(fd);
}

bool leat_rows_file_read(struct leat_rows_file *file, const struct leat_rows_key *key, uint64_t place, uint32_t length,
                         uint8_t *to, uint64_t *photo)
{
    uint8_t checksums[CHECKSUMS];
    struct iovec parts[2] = {{checksums, sizeof checksums}, {to, length}};
    ssize_t n;
    int fd = atomic_load_explicit(&file->reader, memory_order_acquire);
    do
        n = fd < 0 ? -1 : preadv(fd, parts, 2, (off_t)place);
    while (n < 0 && fd >= 0 && errno == EINTR);
    if (n != (ssize_t)(sizeof checksums + length))
        return false;
    *photo = leat_get_u64(checksums + 8);
    return leat_get_u64(checksums) == checksum_of(key, *photo, to, length);
}

/* ---- appending ------------------------------------------------------------------------------- */

static bool refused(const struct leat_rows_file *file, const char *what)
{
    leat_log(LEAT_LOG_WARNING, "%s: %s (%s%s); what was found out about photos is not kept for other processes",
             file->path, what, errno ? strerror(errno) : "it is as large as it may be", leat_if_full(errno));
    return false;
}

/* Makes the folders on the way to the file. 0, or the errno of the last one that could not be made. */
static int make_folders(char *path)
{
    int why = 0;
    for (char *p = path; (p = strchr(p + 1, '/'));) {
        *p = 0;
        why = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        *p = '/';
    }
    return why;
}

static bool lock(int fd, int wait_ms)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    int64_t end = leat_clock_ns() + (int64_t)wait_ms * 1000000;
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK || leat_clock_ns() >= end)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Whether the path still leads to the open file. */
static bool is_there(const struct leat_rows_file *file, int fd)
{
    struct stat open, named;
    return !fstat(fd, &open) && !lstat(file->path, &named) && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

/* An empty file with a header. */
static bool begin_anew(struct leat_rows_file *file, int fd)
{
    uint64_t generation = 0;
    size_t n = strlen(file->root), bytes = HEADER + padded(n);
    uint8_t *header = leat_new_array(bytes, 1);
    if (!header)
        return false;
    if (getrandom(&generation, sizeof generation, 0) != sizeof generation)
        generation = leat_key_mix((uint64_t)leat_clock_ns(), (uint64_t)getpid());
    generation |= 1; /* 0: no file yet */
    memcpy(header + 8, header_magic, 8);
    leat_put_u32(header + 16, VERSION);
    leat_put_u32(header + 20, (uint32_t)n);
    leat_put_u64(header + 24, generation);
    memcpy(header + HEADER, file->root, n);
    leat_put_u64(header, leat_hash64(header + 8, bytes - 8));
    atomic_store_explicit(&file->end, 0, memory_order_relaxed);
    bool good = !ftruncate(fd, 0) && leat_write_at(fd, header, bytes, 0) == bytes;
    if (good) {
        atomic_store_explicit(&file->generation, generation, memory_order_relaxed);
        atomic_store_explicit(&file->end, bytes, memory_order_relaxed);
    }
    leat_free(header);
    return good;
}

/* Readers then use the file at the path, whatever they had before. */
static void take_reader(struct leat_rows_file *file)
{
    int now = atomic_load_explicit(&file->reader, memory_order_relaxed);
    if (now >= 0 && is_there(file, now))
        return;
    int fd = open_file(file->path, O_RDONLY);
    if (fd < 0)
        return;
    if (now < 0) {
        atomic_store_explicit(&file->reader, fd, memory_order_release);
    } else {
        dup3(fd, now, O_CLOEXEC); /* at once: others read from it */
        close(fd);
    }
}

int leat_rows_file_begin(struct leat_rows_file *file, int wait_ms, leat_rows_found *found, void *user)
{
    int fd = -1;
    for (int attempt = 0; attempt < 3; attempt++) {
        fd = open_file(file->path, O_RDWR);
        if (fd < 0 && errno == ENOENT) {
            const int why = make_folders(file->path);
            fd = open_file(file->path, O_RDWR | O_CREAT);
            if (fd < 0 && errno == ENOENT && why)
                errno = why; /* there is no folder, and this is the reason */
        }
        if (fd < 0) {
            refused(file, "cannot be opened for writing");
            return LEAT_E_IO;
        }
        if (!lock(fd, wait_ms)) {
            int code = errno == EWOULDBLOCK ? LEAT_E_BUSY : LEAT_E_IO;
            if (code == LEAT_E_IO)
                refused(file, "cannot be locked");
            close(fd);
            return code;
        }
        if (is_there(file, fd))
            break;
        close(fd); /* somebody removed the file meanwhile */
        fd = -1;
    }
    if (fd < 0)
        return LEAT_E_BUSY;
    file->writer = fd;
    uint64_t generation = 0, header = 0;
    bool ours = read_header(fd, file->root, &generation, &header);
    bool anew = file->restart && generation == atomic_load_explicit(&file->generation, memory_order_relaxed);
    file->restart = false;
    bool good = ours && !anew && walk(file, fd, found, user);
    uint64_t end = atomic_load_explicit(&file->end, memory_order_relaxed);
    if (good && size_of(fd) > end)
        good = !ftruncate(fd, (off_t)end); /* a block that was not finished */
    else if (!good)
        good = begin_anew(file, fd);
    if (!good) {
        refused(file, "cannot be written");
        leat_rows_file_end(file);
        return LEAT_E_IO;
    }
    take_reader(file);
    return LEAT_OK;
}

bool leat_rows_file_write(struct leat_rows_file *file, struct leat_rows_record *records, size_t n)
{
    uint64_t entries = (uint64_t)n * ENTRY, payload = 0, at = atomic_load_explicit(&file->end, memory_order_relaxed);
    for (size_t i = 0; i < n; i++)
        payload += CHECKSUMS + records[i].length;
    payload = padded(payload);
    errno = 0;
    if (at + BLOCK + entries + payload > file->limit || payload > UINT32_MAX)
        return refused(file, "takes no more");
    uint8_t *block = leat_new_array(BLOCK + (size_t)entries + (size_t)payload, 1);
    if (!block)
        return false;
    memcpy(block + 8, block_magic, 8);
    leat_put_u32(block + 16, (uint32_t)n);
    leat_put_u64(block + 24, payload);
    uint8_t *entry = block + BLOCK, *data = entry + entries, *to = data;
    for (size_t i = 0; i < n; i++, entry += ENTRY) {
        const struct leat_rows_record *r = &records[i];
        leat_put_u64(entry, r->key.name);
        leat_put_u64(entry + 8, r->key.size);
        leat_put_u64(entry + 16, (uint64_t)r->key.mtime_ns);
        leat_put_u32(entry + 24, r->hint);
        leat_put_u32(entry + 28, r->length);
        leat_put_u64(to, checksum_of(&r->key, r->photo, r->rows, r->length));
        leat_put_u64(to + 8, r->photo);
        if (r->length)
            memcpy(to + CHECKSUMS, r->rows, r->length);
        to += CHECKSUMS + r->length;
    }
    leat_put_u64(block, leat_hash64(block + 8, BLOCK - 8 + (size_t)entries));
    const uint64_t bytes = BLOCK + (uint64_t)entries + (uint64_t)payload;
    bool good = leat_write_at(file->writer, block, bytes, at) == bytes;
    if (good) {
        to = data;
        for (size_t i = 0; i < n; i++) {
            records[i].place = at + (uint64_t)(to - block);
            to += CHECKSUMS + records[i].length;
        }
        atomic_store_explicit(&file->end, at + BLOCK + entries + payload, memory_order_relaxed);
    } else {
        refused(file, "cannot be written");
        if (ftruncate(file->writer, (off_t)at)) /* the next writer cuts it off */
            leat_log(LEAT_LOG_DEBUG, "%s: %s", file->path, strerror(errno));
    }
    leat_free(block);
    return good;
}

void leat_rows_file_end(struct leat_rows_file *file)
{
    flock(file->writer, LOCK_UN); /* a child that was forked in between has the descriptor too */
    close(file->writer);
    file->writer = -1;
}
