#include "doubles.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/blocks.h"
#include "io/http.h"
#include "io/local.h"

struct test_allocator test_allocator = {malloc, realloc, free};

void *leat_system_allocate(size_t bytes)
{
    return test_allocator.allocate(bytes);
}

void *leat_system_resize(void *p, size_t bytes)
{
    return test_allocator.resize(p, bytes);
}

void leat_system_release(void *p)
{
    test_allocator.release(p);
}

ssize_t (*test_pread)(int fd, void *buffer, size_t bytes, off_t offset) = pread;

ssize_t leat_io_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    return test_pread(fd, buffer, bytes, offset);
}

static int open_path(const char *path, int flags)
{
    return open(path, flags);
}
int (*test_open_path)(const char *path, int flags) = open_path;

int leat_io_open_path(const char *path, int flags)
{
    return test_open_path(path, flags);
}

static void *map(size_t bytes, int flags, int fd)
{
    return mmap(NULL, bytes, PROT_READ, flags, fd, 0);
}
void *(*test_mmap)(size_t bytes, int flags, int fd) = map;

void *leat_io_mmap(size_t bytes, int flags, int fd)
{
    return test_mmap(bytes, flags, fd);
}

uint64_t test_longest_copy = LEAT_LONGEST_COPY;

uint64_t leat_io_longest_copy(void)
{
    return test_longest_copy;
}

const struct leat_io_backend *test_backend = &leat_io_local;

const struct leat_io_backend *leat_io_backend_of_files(void)
{
    return test_backend;
}

uint64_t test_blocks_budget;

uint64_t leat_blocks_budget(uint64_t usual)
{
    return test_blocks_budget ? test_blocks_budget : usual;
}

long test_stall_s = 30;

long leat_http_stall_s(void)
{
    return test_stall_s;
}
