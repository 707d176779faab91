/*
 * Calls of columns to the system: a table, so that a test can make each call fail, and look at the file where it is
 * synced.
 *
 * Locks are those of open file descriptions, on bytes far behind the end of any file: they end with the process,
 * however it ends, and exclude two open files of one process too.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "columns/internal.h"

static int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}

/* All at once, or nothing: if a file system cannot reserve, zeroes are written. */
static int allocate(int fd, uint64_t offset, uint64_t bytes)
{
    static const uint8_t zeroes[1 << 16];
    int rc;
    do
        rc = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (rc && errno == EINTR);
    if (!rc || (errno != EOPNOTSUPP && errno != ENOSYS))
        return rc;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t n = bytes - done < sizeof zeroes ? bytes - done : sizeof zeroes;
        const ssize_t written = pwrite(fd, zeroes, n, (off_t)(offset + done));
        if (written < 0 && errno != EINTR)
            return -1;
        done += written > 0 ? (uint64_t)written : 0;
    }
    return 0;
}

static int cut(int fd, uint64_t bytes)
{
    int rc;
    do
        rc = ftruncate(fd, (off_t)bytes);
    while (rc && errno == EINTR);
    return rc;
}

static int write_all(int fd, const void *data, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(fd, (const uint8_t *)data + done, bytes - done, (off_t)done);
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

static int read_all(int fd, void *data, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n = pread(fd, (uint8_t *)data + done, bytes - done, (off_t)done);
        if (n == 0)
            return errno = 0, -1;
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

static ssize_t put(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    return pwrite(fd, data, bytes, (off_t)offset);
}

static int sync_file(int fd)
{
    int rc;
    do
        rc = fdatasync(fd);
    while (rc && errno == EINTR);
    return rc;
}

static void *map(int fd, uint64_t offset, uint64_t bytes, bool writable)
{
    void *p =
        mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    return p == MAP_FAILED ? NULL : p;
}

#define FIRST_BYTE (INT64_C(1) << 62)

static int set_lock(int fd, uint64_t number, short type, bool wait)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = FIRST_BYTE + (off_t)number, .l_len = 1};
    int rc;
    do
        rc = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    while (rc && errno == EINTR);
    return rc && (errno == EAGAIN || errno == EACCES) ? 1 : rc;
}

static int lock_byte(int fd, uint64_t number, bool wait)
{
    return set_lock(fd, number, F_WRLCK, wait);
}

static int unlock_byte(int fd, uint64_t number)
{
    return set_lock(fd, number, F_UNLCK, false);
}

struct leat_columns_calls leat_columns_calls = {open_file, allocate, cut, write_all, read_all,   put,
                                                sync_file, link,     map, lock_byte, unlock_byte};
