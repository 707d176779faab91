/*
 * libleat: data sets of parts of values, such as windows over a genome.
 */
#ifndef LEAT_WINDOWS_H
#define LEAT_WINDOWS_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Windows over the records of a data set: samples that are parts of `length` elements of a field, which is a list that
 * varies in length, such as uint8 (None,). Nothing is copied or read but the lengths. Windows of a record of n elements
 * begin at 0, stride, 2 * stride, ..., while these are below n and no window before has reached the end; a record
 * without an element has none.
 *     SHORT    the last one has what is left.
 *     COVER    the last one that would be short, or that would begin beyond the end, begins at n - length: a window is
 *              short only if n < length.
 *     DROP     there are only whole ones.
 * Fields: that one, of shape (length,) with DROP, else as before; `name`, if the records have a text of that name; and
 * `begin`, int64, the first element of the window in its record. Ids are numbers of windows. A window is read, and
 * verified, without the rest of its record, if this is in a file with checksums of pages, or without any. Retains
 * `records`. Errors: INVALID (length, stride, tail), NOT_FOUND (no such field), TYPE (no such list), RANGE (2^63
 * windows), NOMEM, and those of reading lengths. */
enum leat_windows_tail { LEAT_WINDOWS_SHORT = 0, LEAT_WINDOWS_COVER, LEAT_WINDOWS_DROP };
LEAT_API int leat_dataset_windows(struct leat_dataset *records, const char *field, uint64_t length, uint64_t stride,
                                  enum leat_windows_tail tail, struct leat_dataset **out, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
