/*
 * A set of ids in little memory, as Roaring bitmaps keep it: chunks of 65536 ids, each in the form that takes least.
 *
 *     ids 0 .. 65535     | 65536 ..     | (no chunk: none)    | ...
 *     runs (begin, at)   | 1024 words   |                     | array of 16-bit numbers
 *
 * A chunk takes at most 8.3 KB, so a set of n ids out of N takes at most N / 8 bytes, about 2 n if they are sparse, and
 * next to nothing if they are intervals. The k-th id is found in O(log chunks). Immutable once made.
 */
#ifndef LEAT_DATA_PACKED_H
#define LEAT_DATA_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEAT_CHUNK_IDS 65536
#define LEAT_CHUNK_WORDS (LEAT_CHUNK_IDS / 64)

struct leat_chunk {
    uint64_t key;    /* its ids are key * 65536 and on */
    uint64_t before; /* ids in the chunks before it */
    uint32_t count;  /* 1 to 65536 */
    uint32_t n;      /* of runs, of an array */
    uint8_t form;
    void *data;
};

struct leat_packed {
    struct leat_chunk *chunks;
    size_t n, room;
    uint64_t count;
    uint64_t n_runs; /* of consecutive ids; a run that crosses a border counts in each chunk */
    uint64_t bytes;  /* about the memory it takes */
};

void leat_packed_destroy(struct leat_packed *packed);
/* Appends a chunk; keys ascend. NOMEM. */
int leat_packed_add(struct leat_packed *packed, uint64_t key, const uint64_t bits[LEAT_CHUNK_WORDS]);
/* The id at a position below `count`; and how many consecutive ones begin there, at least, if `run` is not NULL. */
uint64_t leat_packed_at(const struct leat_packed *packed, uint64_t position, uint64_t *run);

struct leat_packed_cursor {
    size_t chunk;
    uint32_t place;
};
/* The next run of consecutive ids, as long as it is. False: there is none. */
bool leat_packed_next(const struct leat_packed *packed, struct leat_packed_cursor *cursor, uint64_t *begin,
                      uint64_t *count);

/* Making a set from ascending runs. */
struct leat_set_making {
    struct leat_packed packed;
    uint64_t key, end; /* the open chunk; behind the last id */
    bool open;
    uint64_t bits[LEAT_CHUNK_WORDS];
};
int leat_set_making_add(struct leat_set_making *packing, uint64_t begin, uint64_t count);
/* Gives the set over. */
int leat_set_making_close(struct leat_set_making *packing, struct leat_packed *out);

#endif
