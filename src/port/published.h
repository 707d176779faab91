/*
 * The record of a batch that a port has published: the place of its values in the loader's memory, its ids, keys and
 * errors. It lies in that memory itself, where consumers read it; a reader trusts no number in it.
 *
 *     head | offsets of outputs | ids | keys | errors | mirrors | domains | valid | texts
 */
#ifndef LEAT_PORT_PUBLISHED_H
#define LEAT_PORT_PUBLISHED_H

#include "engine/batch.h"

struct leat_published_error {
    uint64_t row; /* of the planned ones */
    int64_t planned, delivered;
    int32_t code;
    uint32_t text; /* the start of its reason in the texts */
};

struct leat_published_head {
    char magic[8];
    uint64_t bytes;              /* all of it */
    uint64_t epoch, begin, rows; /* its rows of the plan; of a batch that failed too */
    uint64_t delivered;          /* rows that it has */
    uint32_t n_outputs, n_errors;
    uint32_t n_texts;  /* bytes */
    uint16_t failed;   /* it is empty: a reader that needs a row of it asks for that */
    uint16_t mirrored; /* each output has a mirror */
};

/* The contents of one, checked: all pointers lie in it. */
struct leat_published {
    struct leat_published_head head;
    const uint64_t *outputs; /* offsets of their buffers; UINT64_MAX: not delivered */
    const int64_t *ids;
    const uint64_t *keys;
    const int32_t *domains;
    const uint8_t *valid;
    const struct leat_published_error *errors;
    const struct leat_mirror *mirrors; /* or NULL */
    const char *texts;
};

/* Bytes for a batch, or, NULL, for one that failed. */
uint64_t leat_published_bytes(const struct leat_batch *batch);
/* `plan`: its rows of the plan. */
void leat_published_write(void *to, const struct leat_batch *batch, const struct leat_plan_batch *plan);
/* Reads the record at [offset, offset + bytes) of `memory`. FORMAT: it is none, or not of so many outputs. */
int leat_published_read(const uint8_t *memory, uint64_t memory_bytes, uint64_t offset, uint64_t bytes, size_t n_outputs,
                        struct leat_published *out, struct leat_error *error);
/* The batch that a record speaks of, of `pool`, whose buffers are its own: its values are views into `memory`. One that
 * failed is LEAT_BATCH_FAILED. Takes the engine's lock. FORMAT: its values do not lie in the memory; NOMEM. */
int leat_published_batch(const struct leat_published *published, uint8_t *memory, uint64_t memory_bytes,
                         struct leat_batch_pool *pool, struct leat_batch **out, struct leat_error *error);

#endif
