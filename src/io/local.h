/* The system calls of the local backend, which a test may replace (LEAT_REPLACEABLE). */
#ifndef LEAT_IO_LOCAL_H
#define LEAT_IO_LOCAL_H

#include <sys/types.h>

/* pread(2). */
ssize_t leat_io_pread(int fd, void *buffer, size_t bytes, off_t offset);
/* open(2) of a file that exists. */
int leat_io_open_path(const char *path, int flags);

#endif
