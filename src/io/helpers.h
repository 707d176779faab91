/*
 * Reads that block, without blocking their callers. If they are quick, the caller's thread does them: for files in the
 * page cache nothing is faster. If they have turned out to be slow (a file system on a network, a disk with a moving
 * head), threads of the process do them, so that many wait side by side. The times of the reads of a place are measured
 * all the time, so a place that becomes quick again is soon read in the caller's thread again.
 */
#ifndef LEAT_IO_HELPERS_H
#define LEAT_IO_HELPERS_H

#include "io/file.h"

/* Threads that read at a time: at 5 ms for opening and reading a photo, 6,400 photos a second. */
#define LEAT_HELPERS 32

/* `run` carries out the request and sets its status. LEAT_OK: it is complete. LEAT_IO_PENDING: a thread does it, and
 * calls `done` then; `pace` stays until the request's file is released. */
int leat_helpers_submit(struct leat_io_request *request, struct leat_io_pace *pace,
                        void (*run)(struct leat_io_request *request));
/* Whether reads of a place have hardly ever waited, as those of a file in the page cache. */
bool leat_pace_is_quick(const struct leat_io_pace *pace);
/* Whether the next read of such a place is not measured; it then counts as done, and its caller does it. False: it is
 * left to leat_helpers_submit. */
bool leat_pace_passes(struct leat_io_pace *pace);
/* The number of times that this thread has given up its core because it had to wait. */
long leat_times_waited(void);
/* As the backend's `cancel`: a request that no thread has begun with ends at once. */
void leat_helpers_cancel(struct leat_io_request *request);

#endif
