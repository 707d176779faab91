/*
 * Values of a field that are made from bytes of files of others: arrays of .npy files, numbers in text, and bytes that
 * are said to be an array.
 */
#ifndef LEAT_FORMAT_MADE_VALUES_H
#define LEAT_FORMAT_MADE_VALUES_H

#include "format/source.h"

/* Makes the value of an ARRAY field, as the i-th of the k-th field of `out`. DECODE: the bytes are another thing, which
 * *fault says; NOMEM. */
int leat_made_value(const struct leat_field *f, const uint8_t *bytes, size_t n, struct leat_values *out, size_t k,
                    size_t i, const char **fault);
/* Whether n bytes are more than any value of the field has, so that they need not be read. */
bool leat_made_is_longer(const struct leat_field *f, uint64_t n);
extern const char leat_made_longer[]; /* which is the fault then */
/* The value of a sample that has none: NaN among floats, else zeros; no elements of one that varies. NOMEM. */
int leat_made_lacking(const struct leat_field *f, struct leat_values *out, size_t k, size_t i);

#endif
