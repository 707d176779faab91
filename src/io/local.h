/* The door through which tests disturb the system calls of the local backend. */
#ifndef LEAT_IO_LOCAL_H
#define LEAT_IO_LOCAL_H

#include <sys/types.h>

/* pread(2). Replaced only by tests (tests/c/faulty.h), while nothing reads. */
extern ssize_t (*leat_io_pread)(int fd, void *buffer, size_t bytes, off_t offset);
/* open(2) of a file that exists. Likewise. */
extern int (*leat_io_open_path)(const char *path, int flags);

#endif
