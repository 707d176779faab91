/* The n-th call of the library to the system fails, as on a full disk. */
#ifndef LEAT_TESTS_COLUMNS_FAILING_H
#define LEAT_TESTS_COLUMNS_FAILING_H

#include <errno.h>

#include "rows.h"

static uint64_t calls_made, failing_call;

static bool fails(void)
{
    if (++calls_made != failing_call)
        return false;
    errno = ENOSPC;
    return true;
}

static int faulty_open(const char *p, int flags, mode_t mode)
{
    return fails() ? -1 : plain_calls.open(p, flags, mode);
}
static int faulty_allocate(int fd, uint64_t offset, uint64_t bytes)
{
    return fails() ? -1 : plain_calls.allocate(fd, offset, bytes);
}
static int faulty_cut(int fd, uint64_t bytes)
{
    return fails() ? -1 : plain_calls.cut(fd, bytes);
}
static int faulty_write(int fd, const void *data, uint64_t bytes)
{
    return fails() ? -1 : plain_calls.write(fd, data, bytes);
}
static int faulty_read(int fd, void *data, uint64_t bytes)
{
    return fails() ? -1 : plain_calls.read(fd, data, bytes);
}
static ssize_t faulty_put(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    return fails() ? -1 : plain_calls.put(fd, data, bytes, offset);
}
static int faulty_sync(int fd)
{
    return fails() ? -1 : plain_calls.sync(fd);
}
static int faulty_publish(const char *from, const char *to)
{
    return fails() ? -1 : plain_calls.publish(from, to);
}
static int faulty_replace(const char *from, const char *to)
{
    return fails() ? -1 : plain_calls.replace(from, to);
}
static ssize_t faulty_move(int from, int to, uint64_t offset, uint64_t bytes)
{
    return fails() ? -1 : plain_calls.move(from, to, offset, bytes);
}
static void *faulty_map(int fd, uint64_t offset, uint64_t bytes, bool writable)
{
    return fails() ? NULL : plain_calls.map(fd, offset, bytes, writable);
}
static int faulty_lock(int fd, uint64_t number, bool wait)
{
    return fails() ? -1 : plain_calls.lock(fd, number, wait);
}
static const struct calls faulty_calls = {faulty_open,    faulty_allocate, faulty_cut,  faulty_write,
                                          faulty_read,    faulty_put,      faulty_sync, faulty_publish,
                                          faulty_replace, faulty_move,     faulty_map,  faulty_lock};

/* The n-th call, from 1. */
static void fail_call(uint64_t n)
{
    failing_call = n;
    calls_made = 0;
    calls = faulty_calls;
}

/* Returns whether it came to that. */
static bool call_failed(void)
{
    calls = plain_calls;
    return calls_made >= failing_call;
}

#endif
