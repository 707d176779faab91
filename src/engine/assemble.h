/*
 * A batch that is put together from rows of others: of several planned batches out of order, for a consumer whose
 * batches are not those of the plan, or for a reader of a port. The rows are copied, without the engine's lock.
 *
 *     parts    | batch 4: rows 5 to 7 | batch 5: rows 0 to 7 | batch 6: rows 0 to 2 |
 *     becomes  | a batch of 14 rows, less those that were left out                  |
 */
#ifndef LEAT_ENGINE_ASSEMBLE_H
#define LEAT_ENGINE_ASSEMBLE_H

#include "engine/batch.h"

struct leat_loader;

/* Rows [first, first + n) of a batch, by their places in its plan. */
struct leat_excerpt {
    struct leat_plan_batch plan;
    uint64_t first, n;
    struct leat_batch *batch;
};

/* A batch for the rows of `parts`, which are made: with its memory, counted as held, and the policy's notes on them.
 * The batches of the parts stay until leat_assemble_fill. Under the lock. Errors: NOMEM, those of leat_loader_ask; that
 * of the first row, if every one was left out. */
int leat_assemble(struct leat_loader *loader, const struct leat_plan_batch *plan, const struct leat_excerpt *parts,
                  size_t n, struct leat_batch **out, struct leat_error *error);
/* Copies the rows. Under the lock, which is let go meanwhile. */
void leat_assemble_fill(struct leat_loader *loader, const struct leat_excerpt *parts, size_t n,
                        struct leat_batch *batch);

/* The steps of both, for a batch of `parts` whose memory comes from elsewhere. They need no lock. */

/* The notes on its rows, and their number. False: no memory. */
bool leat_assemble_notes(const struct leat_excerpt *parts, size_t n, struct leat_batch *batch);
/* The offsets of its rows in a ragged output, and the end of the last one for planned rows behind them. */
void leat_assemble_offsets(const struct leat_excerpt *parts, size_t n, size_t output, uint64_t rows, int64_t *to);
/* Copies the values of an output, whose offsets are there; and the ids, keys and sources of the rows. */
void leat_assemble_values(const struct leat_excerpt *parts, size_t n, size_t output, struct leat_batch *batch);
void leat_assemble_rows(const struct leat_excerpt *parts, size_t n, struct leat_batch *batch);
/* The place, in a batch that is complete, of the first delivered row that is planned at `row` or later. */
uint64_t leat_assemble_place(const struct leat_batch *batch, uint64_t row);

#endif
