/*
 * Loaders over groups of samples, of which each row draws one. leat.h includes this: it stands apart for its length
 * alone.
 */
#include "leat/leat.h" /* which includes this, if it is the first */
#ifndef LEAT_ONE_OF_H
#define LEAT_ONE_OF_H

/* A row is a group, such as a cluster of proteins: position g of the order is group g, and its sample is a member that
 * the row's random key draws (docs/order.md). Members are positions in the data set; group g has members[begins[g]] to
 * members[begins[g + 1] - 1], at least one. A sample may be in several groups, or in none. Weights of an order and its
 * lists are of groups. The ids of a batch are those of the members. All is copied. */
struct leat_one_of_options {
    const uint64_t *begins; /* n_groups + 1, the first is 0 */
    uint64_t n_groups;
    const uint64_t *members;
    const double *weights; /* of each entry of `members`, not negative, of each group not all 0; NULL: all alike */
};

#endif
