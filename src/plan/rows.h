/*
 * Rows of batches, as the engine needs them for every sample.
 */
#ifndef LEAT_PLAN_ROWS_H
#define LEAT_PLAN_ROWS_H

#include "plan/cut.h"

struct leat_plan;
/* The count of a row of a packed source, as leat_plan_rows gives it: `position` is its number in pass `begin`.
 * leat_plan_pieces gives its pieces. */
#define LEAT_PIECE_PACKED (UINT64_MAX - 1)

/* One row of a batch. Most rows have one piece; `more` then is NULL. */
struct leat_plan_row {
    uint64_t row; /* in the global order of the epoch; the base of the random key */
    uint64_t key; /* leat_plan_key(seed, epoch, row) */
    struct leat_piece piece;
    const struct leat_piece *more; /* the pieces after the first, in the array given to leat_plan_pieces */
    uint32_t n_more;
    bool valid; /* false: padding */
};              /* 64 bytes, a cache line: filling it is a good part of a row's cost */

/* Rows [first, first + n) of the batch. Fast: it is called for every row. LEAT_E_RANGE, with `rows` untouched:
 * decisions made since the batch was planned released its data. */
int leat_plan_rows(const struct leat_plan *plan, const struct leat_plan_batch *batch, uint64_t first, uint64_t n,
                   struct leat_plan_row *rows);

/* Rows of an epoch by number (leat_plan_row.row); padding is numbered after the epoch's rows. LEAT_E_RANGE: as above,
 * or an epoch without rows. */
int leat_plan_rows_at(const struct leat_plan *plan, uint64_t epoch, const uint64_t *numbers, uint64_t n,
                      struct leat_plan_row *rows);

/* Finds the pieces of n rows of packed sources: replaces `piece`, sets `more`. Pieces are in document order and not
 * empty; together they have the row's elements, which are fewer than its length in the last row of a pass. Other rows
 * stay as they are. The former contents of `pieces` are lost. The first call for a pass sums up its lengths. Any
 * thread, each with its own array. NOMEM. */
int leat_plan_pieces(const struct leat_plan *plan, struct leat_plan_row *rows, size_t n, struct leat_pieces *pieces);
/* Elements of the whole sample that such a piece is of. */
uint64_t leat_plan_piece_of(const struct leat_plan *plan, const struct leat_piece *piece);

/* The number of the first `rows` rows of an epoch that each source of a mixture gives; at most all rows. LEAT_E_RANGE:
 * an epoch that has none, or decisions were folded that it needs. NOMEM. */
int leat_plan_mix_counts(const struct leat_plan *plan, uint64_t epoch, uint64_t rows, uint64_t *counts);

/* Whether rows draw the members of groups: then positions of orders and lists are not those of samples. */
bool leat_plan_draws(const struct leat_plan *plan);
uint64_t leat_plan_key(uint64_t seed, uint64_t epoch, uint64_t row);
/* The substitute of a broken sample at attempt 0 to 15: a pure function of (seed, epoch, row, attempt). Its count is 0
 * if leat_plan_rows would return LEAT_E_RANGE. */
struct leat_piece leat_plan_substitute(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned attempt);

/* The n-th sample that is drawn to go with a row's own (Mosaic): a pure function of (seed, epoch, row, n), by the
 * order's weights or from its list, and another than its own if there is one. Its count is 0 as above. */
struct leat_piece leat_plan_companion(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned n);

#endif
