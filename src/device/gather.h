/* Gathering rows of a table by threads of the processor. */
#ifndef LEAT_DEVICE_GATHER_H
#define LEAT_DEVICE_GATHER_H

#include "leat/leat.h"

struct leat_gather {
    const uint8_t *table;
    uint64_t count, width;
    enum leat_dtype from, as;
    const void *ids;
    bool wide;
    uint64_t n;
    uint8_t *out;
    unsigned num_threads; /* from 1 */
};

/* Errors: RANGE (the first id that names no row), IO (the table's file was cut). */
int leat_gather(const struct leat_gather *gather, struct leat_error *error);
/* Whether ids `begin` to `end`, which is none of them, name rows, by this thread. Errors: RANGE. */
int leat_gather_look(const struct leat_gather *gather, uint64_t begin, uint64_t end, struct leat_error *error);
/* Copies bytes, by as many threads. Errors: IO. */
int leat_gather_copy(void *to, const void *from, uint64_t bytes, unsigned num_threads, struct leat_error *error);

#endif
