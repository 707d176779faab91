/*
 * Random numbers of rows: for whatever is drawn on the model's side (masks, noise, time steps) and has to be the same
 * on each rank, after a resume and on every device. The key of a row is that of its augmentations
 * (leat_batch_row_keys), so a draw follows from (seed, epoch, row) alone.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * Draws of one row are a stream of 32-bit words, four to a block:
 *
 *     key      the row's: low word, high word
 *     counter  block: low word, high word | call | 0
 *
 * `call` tells draws of one step apart: the mask has 0, the noise 1, and so on. All functions write the draws of row r
 * to out[r * n .. r * n + n), and a row's draws depend on its own key alone. They are pure, give the same bits with
 * each instruction set and compiler, and any thread may call them; docs/order.md says how to compute them elsewhere.
 */
#ifndef LEAT_RANDOM_H
#define LEAT_RANDOM_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The words themselves. */
LEAT_API void leat_random_words(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, uint32_t *out);

/* In [0, 1): multiples of 2^-24 as float32 (`dtype` LEAT_F32), of 2^-53 as float64 (LEAT_F64).
 * Errors: INVALID (another dtype). */
LEAT_API int leat_random_uniform(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, enum leat_dtype dtype,
                                 void *out, struct leat_error *error);

/* Numbers of the normal distribution with mean 0 and variance 1, by its inverse (Wichura: "The percentage points of the
 * normal distribution", AS 241, 1988). float32: from 32 bits, so up to 6.3 from 0; float64: from 52 bits, up to 8.2.
 * Errors: INVALID (another dtype). */
LEAT_API int leat_random_normal(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, enum leat_dtype dtype,
                                void *out, struct leat_error *error);

/* Integers in [low, high), by multiplication of 64 bits: none is more likely than another by more than
 * (high - low) / 2^64. Errors: INVALID (low is not below high). */
LEAT_API int leat_random_integers(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, int64_t low,
                                  int64_t high, int64_t *out, struct leat_error *error);

/* The numbers 0 to n - 1 in random order. Errors: NOMEM. */
LEAT_API int leat_random_permutation(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, int64_t *out,
                                     struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
