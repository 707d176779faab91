/*
 * libleat: data sets of a source that decodes many samples at a time, such as row groups of Parquet. Decoded chunks
 * stay in the cache of the process, with the blocks of compressed files (LEAT_CACHE_BYTES), and samples are taken from
 * there without the source.
 */
#ifndef LEAT_CHUNKS_H
#define LEAT_CHUNKS_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_chunk; /* opaque: what a call decodes. Its caller's, on one thread at a time */

/* Says of a data set of leat_dataset_from_source, before it is read, that a call of `compute` costs much beside a
 * value: loaders then ask for the samples of several batches at once, up to 512. One of leat_dataset_from_chunks is
 * asked so once many chunks had to be decoded again, or has fields that are computed. INVALID: it is another one. */
LEAT_API int leat_dataset_ask_many(struct leat_dataset *dataset, struct leat_error *error);

/* Decodes all values of `fields` (numbers) in a chunk, and gives each field that it has as bytes to leat_chunk_put. The
 * samples of the others are computed one by one. It is called on several threads at once, and is pure. A source that
 * may hang calls leat_chunk_cancelled now and then, and returns LEAT_E_CANCELLED once it is true. Errors are those of
 * leat_compute_fn: all samples of the chunk have them. */
typedef int (*leat_decode_fn)(void *user, const size_t *fields, size_t n_fields, uint64_t chunk, struct leat_chunk *out,
                              struct leat_error *error);

/* Copies all values of a field in the chunk; called once for each field_index (into `fields`). Values of fixed size lie
 * one behind the other, and `offsets` is NULL; value i of a field that varies is steps offsets[i] to offsets[i + 1] of
 * `values` (rows of an array, or bytes), integers of `offset_bytes`, 4 or 8. `marks`: NULL, or a byte for each value
 * (enum leat_chunk_mark). Errors: INVALID (sizes that do not fit the field and the chunk), NOMEM. */
enum leat_chunk_mark {
    LEAT_MARK_VALUE = 0, /* a value */
    LEAT_MARK_NONE,      /* the sample has none */
    LEAT_MARK_BEGUN      /* it is made of these bytes by `compute`, such as of the path of a file, or cannot be made */
};
LEAT_API int leat_chunk_put(struct leat_chunk *chunk, size_t field_index, const void *values, uint64_t bytes,
                            const void *offsets, unsigned offset_bytes, const uint8_t *marks);
LEAT_API bool leat_chunk_cancelled(const struct leat_chunk *chunk);
/* In `compute` of such a data set, whether it is asked for values that `decode` has begun: then of a sample the bytes
 * that it gave, valid until `compute` returns, or NULL, as the sample has no value, and the error says so. */
LEAT_API bool leat_values_begun(const struct leat_values *values, size_t sample_index, const void **data,
                                uint64_t *bytes);

/* A data set of chunks of rows[0], rows[1], ... samples. `compute` as in leat_dataset_from_source: it is asked for what
 * `decode` does not give, and, field by field, for samples whose values are begun, and for those without a value that
 * need one, of which it says what is wrong (leat_values_begun). The other
 * arguments are those of leat_dataset_from_source, and leat_dataset_may_lack and leat_dataset_name_classes say more.
 * Errors: INVALID (schema), RANGE, NOMEM. */
LEAT_API int leat_dataset_from_chunks(const struct leat_field *fields, size_t n_fields, const uint64_t *rows,
                                      uint64_t n_chunks, const char *version, leat_decode_fn decode,
                                      leat_compute_fn compute, void (*release)(void *user), void *user,
                                      struct leat_dataset **out, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
