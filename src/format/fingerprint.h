/*
 * The fingerprint of a data set: a 128-bit hash over its schema and, per sample, its values. It can be joined: the sums
 * of two data sets give those of their concatenation without a second scan, whatever the shards and threads.
 *
 * Each sample has two 61-bit hashes h (from two seeds). The sums of a run of n samples are polynomial hashes
 *
 *     S = sum over i of h_i * B^(n-1-i)  mod 2^61 - 1,      S(a ++ b) = S(a) * B^len(b) + S(b)
 *
 * with a fixed base B for each of the two (fingerprint.c has the numbers; docs/stability.md: they never change). The
 * fingerprint is the hash of (schema, classes, n, S0, S1), of each field that is not derived: name, kind, dtype,
 * layout, ndim, LEAT_FIELD_FILES, role, normalized, shape, pairs.
 */
#ifndef LEAT_FORMAT_FINGERPRINT_H
#define LEAT_FORMAT_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* Adds one value to the running hash of its sample, which starts with {0, 0}, in the order of the schema and without
 * derived fields. A file of a folder counts by its relative name and length, any other value by its checksum. */
void leat_fingerprint_value(uint64_t sample[2], uint64_t checksum);
void leat_fingerprint_file(uint64_t sample[2], const char *relative_name, uint64_t length);
/* Appends a complete sample to the sums. */
void leat_fingerprint_append(uint64_t sums[2], const uint64_t sample[2]);
/* sums = sums ++ tail, where tail covers n samples. */
void leat_fingerprint_join(uint64_t sums[2], const uint64_t tail[2], uint64_t n);
/* The 16 bytes that users see. `classes` are part of the schema. */
void leat_fingerprint_finish(const struct leat_field *fields, size_t n_fields, const char *const *classes,
                             size_t n_classes, uint64_t count, const uint64_t sums[2], uint8_t out[16]);

#endif
