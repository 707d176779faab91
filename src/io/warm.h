/*
 * Cold files of short rows. Rows in random order cost a read each, and a disk, above all one on a network, makes a few
 * thousand reads a second, of whatever length: such a file comes at a fraction of the rate of long reads. Once reads of
 * a file have waited, a thread of the process therefore goes through it by long reads, beside those that are asked for,
 * and brings it into the page cache:
 *
 *     asked for      .   .  . .    .  .       .  .      go on as before, and find more and more in memory
 *     warmed         =====>|            |=========      once; from a place on that differs between processes
 *
 * Files that memory holds are warmed (half of it for all together), and as much of one as is worth it: 128 KiB for each
 * read that is asked for, which is about what a disk transfers in the time of one. So whoever reads a few rows of a
 * large file causes little more to be read. A file is given up if what was read of it does not stay in memory: file
 * systems may have no page cache, and other processes may fill it.
 */
#ifndef LEAT_IO_WARM_H
#define LEAT_IO_WARM_H

#include <stdatomic.h>

#include "io/file.h"

/* Files that are warmed at a time: each is open once more. Those that have to wait for reads that are asked for make
 * room for others. */
#define LEAT_WARM_PASSES 16

/* Of one open file; all zero at first. */
struct leat_warm {
    _Atomic uint64_t reads; /* that may have waited */
    _Atomic uint64_t done;  /* bytes that were warmed */
    _Atomic bool active;    /* a thread has it, or it is not to be warmed */
    _Atomic bool counted;   /* it is one of those that were begun with: */
    struct leat_warm *next;
    uint64_t device, inode;
};

/* A read of the file is about to be made, at a place whose reads may wait. Any thread. */
void leat_warm_asked(struct leat_io_file *file, struct leat_warm *warm, const struct leat_io_pace *pace,
                     uint64_t length);
/* The file is closed. */
void leat_warm_end(const struct leat_io_file *file, struct leat_warm *warm);

#endif
