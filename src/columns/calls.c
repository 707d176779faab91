/*
 * Calls of columns to the system, in one file: a test wraps them (--wrap), makes each one fail, and looks at the file
 * when it is synced.
 *
 * Locks are those of open file descriptions, on bytes far behind the end of any file: they end with the process,
 * however it ends, and exclude two open files of one process too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/transfer.h"
#include "columns/internal.h"

int leat_call_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}

/* All at once, or nothing: if a file system cannot reserve, zeroes are written. */
int leat_call_allocate(int fd, uint64_t offset, uint64_t bytes)
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

int leat_call_cut(int fd, uint64_t bytes)
{
    int rc;
    do
        rc = ftruncate(fd, (off_t)bytes);
    while (rc && errno == EINTR);
    return rc;
}

int leat_call_write(int fd, const void *data, uint64_t bytes)
{
    return leat_write_at(fd, data, bytes, 0) == bytes ? 0 : -1;
}

int leat_call_read(int fd, void *data, uint64_t bytes)
{
    return leat_read_at(fd, data, bytes, 0) == bytes ? 0 : -1;
}

ssize_t leat_call_put(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    return pwrite(fd, data, bytes, (off_t)offset);
}

int leat_call_sync(int fd)
{
    int rc;
    do
        rc = fdatasync(fd);
    while (rc && errno == EINTR);
    return rc;
}

/* `from` may be a link to an open file without a name, of /proc. */
int leat_call_publish(const char *from, const char *to)
{
    if (!linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW))
        return 0;
    if (errno != EPERM && errno != EOPNOTSUPP &&
        errno != ENOSYS) /* else the file system has no links: FAT, some FUSE */
        return -1;
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

int leat_call_replace(const char *from, const char *to)
{
    return rename(from, to);
}

ssize_t leat_call_move(int from, int to, uint64_t offset, uint64_t bytes)
{
    off_t in = (off_t)offset, out = (off_t)offset;
    return copy_file_range(from, &in, to, &out, bytes, 0);
}

void *leat_call_map(int fd, uint64_t offset, uint64_t bytes, bool writable)
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

int leat_call_lock(int fd, uint64_t number, bool wait)
{
    return set_lock(fd, number, F_WRLCK, wait);
}

int leat_call_unlock(int fd, uint64_t number)
{
    return set_lock(fd, number, F_UNLCK, false);
}
