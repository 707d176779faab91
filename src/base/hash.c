/*
 * XXH3 behind one name, so that no other file depends on libxxhash.
 */
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY /* for the size of a state */
#include <xxhash.h>

/* For libraries that have it (on x86, mostly): the same with the widest registers of the machine, and 2.7 times as
 * fast.
 */
extern XXH64_hash_t XXH3_64bits_dispatch(const void *data, size_t bytes) __attribute__((weak));
enum { SHORT = 240 }; /* up to here all are the same code */

uint64_t leat_hash64(const void *data, size_t bytes)
{
    if (bytes > SHORT && XXH3_64bits_dispatch)
        return XXH3_64bits_dispatch(data, bytes);
    return bytes ? XXH3_64bits(data, bytes) : XXH3_64bits("", 0);
}

_Static_assert(sizeof(struct leat_hash_pieces) >= sizeof(XXH3_state_t) + 63, "a state fits");

static XXH3_state_t *state_of(const struct leat_hash_pieces *hash)
{
    return (XXH3_state_t *)(((uintptr_t)hash->state + 63) & ~(uintptr_t)63); /* NOLINT: within the state */
}

void leat_hash_begin(struct leat_hash_pieces *hash)
{
    XXH3_INITSTATE(state_of(hash));
    XXH3_64bits_reset(state_of(hash));
}

void leat_hash_add(struct leat_hash_pieces *hash, const void *data, size_t bytes)
{
    XXH3_64bits_update(state_of(hash), data, bytes);
}

uint64_t leat_hash_end(const struct leat_hash_pieces *hash)
{
    return XXH3_64bits_digest(state_of(hash));
}
