/*
 * Rows made of documents, and batches of samples by their sizes. leat.h includes this: it stands apart for its length
 * alone.
 */
#include "leat/leat.h" /* which includes this, if it is the first */
#ifndef LEAT_PACKING_H
#define LEAT_PACKING_H

/* The way rows are made of documents. */
enum leat_pack_how {
    LEAT_PACK_CUT = 0, /* joined in the order of an epoch and cut; SHUFFLED permutes the documents, and then the rows */
    LEAT_PACK_BEST_FIT, /* no document is cut that fits into a row: best-fit decreasing (docs/order.md) */
    LEAT_PACK_PAD       /* one document a row */
};

/* Rows of `length` elements, made of the values of one field ("documents"). With BEST_FIT and PAD a document longer
 * than a row is cut into pieces of `length` and the rest. Instead of the data set's fields, the program has
 *
 *     the field itself, of shape (length)
 *     "doc_ids"      i64, the sample id of each element's document; -1 on padding
 *     "positions"    i64, 0, 1 ... from each document's first element in the row
 *     "loss_mask"    bool, false on padding
 *
 * The row after the last cut is padded, or left out with LEAT_TAIL_DROP. The ids of a batch are row numbers. */
struct leat_pack_options {
    const char *field;      /* integers, one dimension, which may vary */
    uint64_t length;        /* BEST_FIT: at most 2^24 */
    bool has_bos, has_eos;  /* whether one element is put before and behind each document */
    int64_t bos, eos, fill; /* u64 values as their bits */
    enum leat_pack_how how;
    uint64_t seed; /* BEST_FIT: decides between documents of one length */
    /* BEST_FIT: each document of a row is followed by padding up to a multiple of this, as attention over sequences of
     * varying length may want. It divides `length`. 0 is 1: none. */
    uint64_t multiple;
    const char *chain; /* NULL, or a program of one chain that makes each document's tokens, labels and loss_mask */
};

/* The rows of BEST_FIT: row k has documents[begin[k]] to documents[begin[k + 1] - 1], or the rest of these when pieces
 * of `length` are cut off. `documents` has room for n numbers, `begin` for n + 2; `*rows` is how many there are. With a
 * `multiple`, `lengths` are those rounded up to it. Takes O(n log n) time, 16 bytes a document and 20 a row of memory.
 * Any thread. Errors: INVALID (length), RANGE (n), NOMEM. */
LEAT_API int leat_pack_best_fit(const uint32_t *lengths, uint64_t n, uint64_t length, uint64_t seed, uint64_t *rows,
                                uint32_t *begin, uint32_t *documents, struct leat_error *error);

/* A batch of a rank has samples of about one length, so that little of it is padding: a sample is in the first bucket
 * whose width is not below its length, and samples of a bucket come together, rows times width at most `elements`. Or,
 * with `costs`, any samples whose costs sum to at most `elements`, by best fit (docs/order.md, "Batches by cost").
 * Batches of a rank are the unit of positions, and each step has one for each rank. `batch_size` must be 1. */
struct leat_bucket_options {
    const char *field;      /* whose lengths count: elements of the first dimension; bytes for text and bytes */
    uint64_t elements;      /* with costs 1 to 2^48; else 0: any number, if */
    uint64_t rows;          /* ... at most so many rows are stated; 0: any number */
    const uint64_t *widths; /* rising, the last not below the longest sample. Copied */
    size_t n_widths;        /* 0: eight to each doubling */
    const uint64_t *costs;  /* in the place of `field`: one for each position, 0 to 2^48. Not kept; NULL: by length */
    uint64_t n_costs;
    bool by_length;      /* the costs are lengths, in the place of the field's: batches are as without costs */
    bool oversize_alone; /* a sample that costs more than `elements` is a batch; false: an error that names it */
    /* With costs: batches are spans of samples as they lie, in the place of best fit. Samples firsts[k] to
     * firsts[k + 1] - 1 share something, such as a prefix (leat/prompts.h), that costs shared[k] in each batch that has
     * one of them, once. Not kept; n_shared 0: best fit. */
    const uint64_t *firsts; /* rising, the first is 0 */
    const uint64_t *shared; /* 0 to 2^48 */
    uint64_t n_shared;
};

#endif
