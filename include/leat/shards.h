/*
 * libleat: one data set of files that several writers have written, on any machines.
 *
 *     leat_writer_open ...  each writes a file of its own, into one folder
 *     leat_writer_join      the files become a data set, in one step
 */
#ifndef LEAT_SHARDS_H
#define LEAT_SHARDS_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes one data set of `n` finished files of one schema: `path` becomes their manifest. `files` are their names in the
 * folder of `path`, without a slash, in the order of the samples. The manifest appears whole or not at all, and
 * replaces nothing. Whether all files have one schema shows when it is opened. Errors: EXISTS, BUSY, IO, NOMEM, INVALID
 * (n is 0); for a file NOT_FOUND, FORMAT, CORRUPT, IO. */
LEAT_API int leat_writer_join(const char *path, const char *const *files, size_t n, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
