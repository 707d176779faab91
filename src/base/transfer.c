#include "base/transfer.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/* Counts what a call has done. False: it has failed, or did nothing. */
static bool went_on(ssize_t n, uint64_t *done)
{
    if (n < 0)
        return errno == EINTR;
    *done += (uint64_t)n;
    if (!n)
        errno = 0;
    return n;
}

uint64_t leat_read_at(int fd, void *to, uint64_t bytes, uint64_t at)
{
    uint64_t done = 0;
    while (done < bytes && went_on(pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(at + done)), &done)) {
    }
    return done;
}

uint64_t leat_write_at(int fd, const void *from, uint64_t bytes, uint64_t at)
{
    uint64_t done = 0;
    while (done < bytes && went_on(pwrite(fd, (const uint8_t *)from + done, bytes - done, (off_t)(at + done)), &done)) {
    }
    return done;
}
