/*
 * The order of one source: which sample is at a place of a pass. It knows the lists, weights and groups that make
 * orders, and no other source.
 */
#ifndef LEAT_PLAN_ORDER_H
#define LEAT_PLAN_ORDER_H

#include "base/permute.h"
#include "plan/spec.h"

/* One source's order. */
struct leat_source_order {
    enum leat_order order;
    uint64_t count;        /* samples, or rows of a packed source, or groups of which each row draws one */
    uint64_t rows;         /* of a pass; for a LIST: see the list */
    uint64_t block_rows;   /* BLOCKS: at most count */
    uint64_t block_window; /* BLOCKS: rows of a window; 0: LEAT_ORDER_WINDOW blocks */
    bool replacement;
    enum leat_exhausted exhausted; /* of a mixture, as is */
    uint64_t limit;
    uint64_t key; /* of (seed, source) */
    struct leat_weights *weights;
    struct leat_list *list; /* LIST of a mixture, or the one that the plan was opened with */
    struct leat_packing *packing;
    struct leat_lengths *lengths; /* if shares are of tokens and rows vary in length */
    struct leat_groups *groups;
    struct leat_members *members; /* of the groups that are counted in the place of samples */
};

/* The state that a run of rows of one pass can share. Zero is a valid start. */
struct leat_order_cursor {
    bool pass_set, window_set;
    const struct leat_source_order *order;
    const struct leat_list *list;
    uint64_t pass, key, window, slot;
    struct leat_permutation outer, inner;
};
#define LEAT_ORDER_RUN 256 /* rows that are computed together */
/* Positions of the rows [first, first + n) of a pass; n <= LEAT_ORDER_RUN. `list`: the one in force, or NULL. */
void leat_order_run(const struct leat_source_order *order, const struct leat_list *list,
                    struct leat_order_cursor *cursor, uint64_t pass, uint64_t first, size_t n, uint64_t *out);
/* The same of any number of rows, for a caller that has no cursor. */
void leat_order_rows(const struct leat_source_order *order, const struct leat_list *list, uint64_t pass, uint64_t first,
                     uint64_t n, int64_t *out);
uint64_t leat_order_pass_key(const struct leat_source_order *order, uint64_t pass);

#endif
