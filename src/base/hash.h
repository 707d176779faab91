/*
 * Checksums and hashes: XXH3 (libxxhash), 64 bits, seed 0. The "checksum" of the file format.
 */
#ifndef LEAT_BASE_HASH_H
#define LEAT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* `data` may be NULL if bytes is 0. Any thread. */
uint64_t leat_hash64(const void *data, size_t bytes);

/* The same of bytes that come in pieces: begin, add any number of times, end. */
struct leat_hash_pieces {
    uint8_t state[576 + 63]; /* it lies at a multiple of 64 in these, wherever they are; they are not moved */
};
void leat_hash_begin(struct leat_hash_pieces *hash);
void leat_hash_add(struct leat_hash_pieces *hash, const void *data, size_t bytes);
uint64_t leat_hash_end(const struct leat_hash_pieces *hash);

#endif
