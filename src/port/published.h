/*
 * What is known of a batch that a port has published: where its values lie in the loader's memory, its ids, keys and
 * errors. It lies in that memory itself, where consumers read it; who reads it trusts no number in it.
 *
 *     head | offsets of outputs | ids | keys | errors | domains | valid | texts
 */
#ifndef LEAT_PORT_PUBLISHED_H
#define LEAT_PORT_PUBLISHED_H

#include "engine/batch.h"

struct leat_published_error {
    uint64_t row; /* of the planned ones */
    int64_t planned, delivered;
    int32_t code;
    uint32_t text; /* where its reason begins in the texts */
};

struct leat_published_head {
    char magic[8];
    uint64_t bytes;              /* all of it */
    uint64_t epoch, begin, rows; /* rows of the plan that it is of; of a batch that failed too */
    uint64_t delivered;          /* rows that it has */
    uint32_t n_outputs, n_errors;
    uint32_t n_texts; /* bytes */
    uint32_t failed;  /* it has nothing: who needs a row of it asks for that */
};

/* What one says, checked: all pointers lie in it. */
struct leat_published {
    struct leat_published_head head;
    const uint64_t *outputs; /* offsets of their buffers; UINT64_MAX: not delivered */
    const int64_t *ids;
    const uint64_t *keys;
    const int32_t *domains;
    const uint8_t *valid;
    const struct leat_published_error *errors;
    const char *texts;
};

/* Bytes for a batch, or, NULL, for one that failed. */
uint64_t leat_published_bytes(const struct leat_batch *batch);
/* `plan`: which rows of the plan it has. */
void leat_published_write(void *to, const struct leat_batch *batch, const struct leat_plan_batch *plan);
/* Reads what lies at [offset, offset + bytes) of `memory`. FORMAT: it is none, or not of so many outputs. */
int leat_published_read(const uint8_t *memory, uint64_t memory_bytes, uint64_t offset, uint64_t bytes, size_t n_outputs,
                        struct leat_published *out, struct leat_error *error);
/* How many rows before planned row `row` were delivered. */
uint64_t leat_published_row(const struct leat_published *published, uint64_t row);

#endif
