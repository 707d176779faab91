/*
 * XXH3 behind one name, so that no other file depends on libxxhash.
 */
#include "base/hash.h"

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
