/*
 * XXH3 behind one name, so that no other file depends on libxxhash.
 */
#include "base/hash.h"

#include <xxhash.h>

uint64_t leat_hash64(const void *data, size_t bytes)
{
    return bytes ? XXH3_64bits(data, bytes) : XXH3_64bits("", 0);
}
