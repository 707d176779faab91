/*
 * The inputs of a plan, and its results: positions, pieces of samples, orders, sources. Data alone.
 */
#ifndef LEAT_PLAN_SPEC_H
#define LEAT_PLAN_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_PLAN_VERSION 1
#define LEAT_MAX_GLOBAL_BATCH (UINT64_C(1) << 40)
#define LEAT_PLAN_MAX_SOURCES 1024
#define LEAT_PLAN_MAX_ROWS (UINT64_C(1) << 63)
#define LEAT_PLAN_MAX_FACTS 8192
#define LEAT_ORDER_WINDOW 8 /* blocks of a window whose size is not stated */

/* Keys of (seed, tag) differ from those of (seed, epoch), because epochs are below 2^63. */
#define LEAT_TAG_ORDER ((UINT64_C(1) << 63) | 1)
#define LEAT_TAG_SUBSTITUTE ((UINT64_C(1) << 63) | 2)
#define LEAT_TAG_COMPANION ((UINT64_C(1) << 63) | 3)
#define LEAT_TAG_BINS ((UINT64_C(1) << 63) | 4)
#define LEAT_TAG_MEMBER ((UINT64_C(1) << 63) | 6) /* 5 and 7: groups.c */

struct leat_position {
    uint64_t epoch, row; /* of a plan of groups, `row` counts these */
};
static inline bool leat_position_is(struct leat_position a, struct leat_position b)
{
    return a.epoch == b.epoch && a.row == b.row;
}
static inline bool leat_position_precedes(struct leat_position a, struct leat_position b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.row < b.row);
}

/* Part of a row: `count` elements from `begin` of one sample; UINT64_MAX: all of it. */
struct leat_piece {
    uint32_t source;
    uint64_t position; /* in that source's data set */
    uint64_t begin, count;
};

/* Pieces of many rows, in one array that grows. Zero is a valid start. The caller frees `at` with leat_free. */
struct leat_pieces {
    struct leat_piece *at;
    size_t n, room;
};

/* The order of rows. */
struct leat_order_spec {
    enum leat_order order;
    uint64_t block_rows;
    const double *weights; /* WEIGHTED: of length count */
    uint64_t num_samples;
    bool replacement;
    const int64_t *positions; /* LIST */
    uint64_t n_positions;
    uint64_t block_window; /* BLOCKS: rows of a window, a multiple of block_rows; 0: LEAT_ORDER_WINDOW blocks */
};

/* The samples of a source are made into rows of `length` elements, as enum leat_pack_how of leat.h says. The order is
 * then one of rows; SHUFFLED permutes the samples first if they are joined and cut, by a key of the pass, and then the
 * rows. */
struct leat_pack_spec {
    enum leat_pack_how how;
    uint64_t length; /* 1 to 2^32 - 1 */
    /* Elements of each sample, bos and eos included; below 2^32. Copied, 4 bytes each. */
    const uint64_t *lengths;
    bool partial;       /* CUT: keep the last row if its elements do not fill it */
    uint64_t seed;      /* BEST_FIT: decides between documents of one length */
    uint64_t multiple;  /* BEST_FIT: documents take up a multiple of this, which divides `length`; 0: 1 */
    uint64_t n_weights; /* WEIGHTED: the number of weights: one per row */
};

/* A batch of a rank has samples of about one length, or samples put together by their costs (docs/order.md, "Batches by
 * length", "Batches by cost", "Batches of prompts"). The global batch of the plan is then one of such a batch for each
 * rank, and positions, in the log and the state too, count these in the place of rows. SEQUENTIAL and SHUFFLED only,
 * and no mixture. */
struct leat_group_spec {
    const uint64_t *lengths; /* elements of each sample, or its cost; not kept */
    uint64_t budget;         /* of a batch of a rank: elements, as if each sample had its bucket's width, 0: any number;
                              * or the sum of costs */
    uint64_t rows;           /* at most so many rows of a rank; 0: any number */
    const uint64_t *widths;  /* of the buckets, rising: a sample is in the first that is not below its length */
    size_t n_widths;         /* 0: made from the lengths */
    bool costs;              /* best fit in the place of buckets; */
    bool alone;              /* ... a cost above the budget is a batch of its own; */
    uint64_t seed;           /* ... decides between samples of one cost, if they are shuffled */
    /* Spans of samples as they lie in the place of best fit: samples firsts[k] to firsts[k + 1] - 1 have something in
     * common that costs shared[k], once in each batch that has one of them. */
    const uint64_t *firsts, *shared; /* firsts: rising, the first is 0 */
    uint64_t n_shared;               /* 0: best fit */
};

struct leat_plan_source {
    uint64_t count;                /* samples */
    double share;                  /* of the rows; ignored if there is one source */
    enum leat_exhausted exhausted; /* of a mixture, */
    uint64_t limit;                /* ... as in leat_mix_source */
    uint64_t tokens;               /* of each of its rows; 0 and row_tokens NULL: shares are of rows */
    const uint64_t *row_tokens;    /* of each of its samples, if they vary; at most 2^28. Copied, 4 bytes each */
    struct leat_order_spec order;
    const struct leat_pack_spec *pack;        /* NULL: a row is a sample */
    const struct leat_group_spec *group;      /* NULL: batches have the same number of rows */
    const struct leat_one_of_options *one_of; /* NULL: a row is no group of samples */
};

struct leat_plan_spec {
    const struct leat_plan_source *sources;
    uint32_t n_sources;
    bool mixed;          /* the sources are a mixture, also if there is one */
    uint64_t epoch_rows; /* of a mixture: as in leat_mix_options, as are */
    const struct leat_mix_point *schedule;
    size_t n_points;
    bool linear;
    uint64_t seed;
    uint64_t global_batch; /* G, above 0 */
    uint32_t rank, world_size;
    enum leat_tail tail;
    const char *view;  /* JSON of the part of a data set that the only source is, for the state; or NULL */
    const char *facts; /* JSON object copied into the first log entry (error policy, program hash), or NULL */
};

#endif
