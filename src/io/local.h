/* The system calls of the local backend, which a test may replace (LEAT_REPLACEABLE). */
#ifndef LEAT_IO_LOCAL_H
#define LEAT_IO_LOCAL_H

#include <stdint.h>
#include <sys/types.h>

/* pread(2). */
ssize_t leat_io_pread(int fd, void *buffer, size_t bytes, off_t offset);
/* open(2) of a file that exists. */
int leat_io_open_path(const char *path, int flags);
void *leat_io_mmap(size_t bytes, int flags, int fd); /* from the beginning, to be read */
/* The longest read that is copied out of a mapping: rows of cells and documents are shorter. Values that are decoded,
 * as photos, are longer; they would gain little, and files of them exceed memory. */
#define LEAT_LONGEST_COPY (UINT64_C(32) << 10)
uint64_t leat_io_longest_copy(void);

#endif
