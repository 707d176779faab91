/*
 * Filling `struct leat_error`. Every function here accepts a NULL error and returns the code, so that a failure is
 * one line:  return leat_fail(error, LEAT_E_INVALID, "batch_size must be above 0, not %" PRIu64, n);
 */
#ifndef LEAT_BASE_ERROR_H
#define LEAT_BASE_ERROR_H

#include "leat/leat.h"

/* Sets code and message, and clears place and errno. Names and passwords in addresses ("http://name:password@host/")
 * are left out, here and of files. Returns `code`. */
int leat_fail(struct leat_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, with its place in a file. */
int leat_fail_at(struct leat_error *error, int code, const char *file, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* As leat_fail, with the current errno and its text appended to the message; of LEAT_E_IO if a file cannot get longer,
 * also with the remedy, unless the message says to make room. */
int leat_fail_errno(struct leat_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Cuts a text that does not fit into `room` bytes in its middle, so that long names push no sentence out of it. */
void leat_shorten(char *text, size_t room);

/* The remedy if an errno means that a file cannot get longer, such as "; make room on the disk", else "". */
const char *leat_if_full(int sys_errno);

#define LEAT_MORE_THREADS "; raise the limit of threads and processes (ulimit -u, or the container's)"

/* Add the place to an error that is already filled. `file` is cut at the front if too long; NULL keeps the present one;
 * so do LEAT_NO_SAMPLE and LEAT_NO_OFFSET. */
void leat_error_at_file(struct leat_error *error, const char *file, int64_t offset);
void leat_error_at_sample(struct leat_error *error, int64_t sample, const char *field);

/* An error without content: code 0, no place. */
void leat_error_clear(struct leat_error *error);

#endif
