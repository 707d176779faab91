/*
 * Doubles of the few functions of the library that a program may replace (LEAT_REPLACEABLE): the doors to the system.
 * Each does as the variable here says. A program that names none of these variables has the library's own functions.
 */
#ifndef LEAT_TESTS_DOUBLES_H
#define LEAT_TESTS_DOUBLES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/file.h"

/* All memory of the library. Set before threads are started, or while none allocates. */
extern struct test_allocator {
    void *(*allocate)(size_t bytes);
    void *(*resize)(void *p, size_t bytes);
    void (*release)(void *p);
} test_allocator;

/* The system calls of local files, set while nothing reads; the backend of paths without a scheme, set while no file is
 * open that the test goes on to use. */
extern ssize_t (*test_pread)(int fd, void *buffer, size_t bytes, off_t offset);
extern int (*test_open_path)(const char *path, int flags);
extern void *(*test_mmap)(size_t bytes, int flags, int fd);
extern const struct leat_io_backend *test_backend;
extern uint64_t test_longest_copy; /* of a read through a mapping; 0: there is none */

extern uint64_t test_blocks_budget; /* bytes of blocks that stay in memory; 0: as without a test */
extern long test_stall_s;           /* until a server that sends next to nothing is given up */

#endif
