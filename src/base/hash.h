/*
 * Checksums and hashes: XXH3 (libxxhash), 64 bits, seed 0. The "checksum" of the file format.
 */
#ifndef LEAT_BASE_HASH_H
#define LEAT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* `data` may be NULL if bytes is 0. Any thread. */
uint64_t leat_hash64(const void *data, size_t bytes);

#endif
