/* Values of a source that decodes chunks (leat/chunks.h), from blocks of the cache: chunks.c. */
#ifndef LEAT_DATA_CHUNKS_H
#define LEAT_DATA_CHUNKS_H

#include "format/source.h"
#include "leat/chunks.h"
#include "store/layout.h"

struct leat_chunks; /* any thread */

/* `layout`, `decode`, `compute` and `user` outlive it. RANGE (2^63 samples), NOMEM. */
int leat_chunks_new(const struct leat_store_layout *layout, size_t n_fields, const uint64_t *rows, uint64_t n_chunks,
                    leat_decode_fn decode, leat_compute_fn compute, void *user, struct leat_chunks **out,
                    struct leat_error *error);
void leat_chunks_free(struct leat_chunks *chunks); /* NULL is allowed */
uint64_t leat_chunks_count(const struct leat_chunks *chunks);
/* As the function `asks_many` of a source. It is not 0 once many blocks were made again, or `compute` was called. */
size_t leat_chunks_ask_many(const struct leat_chunks *chunks);

/* As the function `compute` of a source. */
int leat_chunks_compute(struct leat_chunks *chunks, const size_t *fields, size_t n_fields, const uint64_t *samples,
                        size_t n, struct leat_values *out, size_t *failed, struct leat_error *error);

#endif
