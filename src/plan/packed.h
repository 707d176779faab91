/*
 * Rows made of documents.
 */
#ifndef LEAT_PLAN_PACKED_H
#define LEAT_PLAN_PACKED_H

#include <pthread.h>

#include "base/permute.h"
#include "plan/best_fit.h"
#include "plan/spec.h"

struct leat_packed_pass {
    bool set;
    uint64_t key;
    struct leat_permutation order; /* of the documents, if they are shuffled */
    uint64_t *sums;                /* number of elements before document 16 i */
};
struct leat_packing {
    pthread_rwlock_t lock; /* of `pass` and `oldest`; all else is fixed */
    enum leat_pack_how how;
    uint64_t documents, length, elements, rows, hash;
    uint64_t multiple; /* of elements that a document takes up: 1 but for BEST_FIT */
    bool shuffled;     /* the documents are permuted: CUT only */
    uint32_t *lengths;
    uint64_t *chunks; /* PAD, BEST_FIT: rows of one document each, before document 16 i; NULL: there are none */
    uint64_t n_chunks;
    struct leat_bins bins;           /* BEST_FIT: the rows after these */
    struct leat_packed_pass pass[2]; /* the second only if shuffled */
    unsigned oldest;
};
int leat_packing_new(const struct leat_pack_spec *spec, uint64_t documents, bool shuffled, struct leat_packing **out,
                     struct leat_error *error);
void leat_packing_free(struct leat_packing *packing);
/* Appends the pieces of a row of the pass that has this key (leat_order_pass_key). Errors: NOMEM. */
int leat_packing_row(struct leat_packing *packing, uint64_t pass_key, uint32_t source, uint64_t row,
                     struct leat_pieces *pieces);

#endif
