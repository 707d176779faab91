/*
 * Groups of samples, of which each row draws one.
 */
#ifndef LEAT_PLAN_MEMBERS_H
#define LEAT_PLAN_MEMBERS_H

#include "plan/spec.h"

struct leat_members {
    uint64_t n, hash; /* groups; of all numbers */
    uint64_t *begins, *at;
    double *sums; /* of the weights from the group's first member up to each; NULL: all are alike */
};
/* `count`: samples of the data set. Errors: INVALID, RANGE, NOMEM. */
int leat_members_new(const struct leat_one_of_options *options, uint64_t count, struct leat_members **out,
                     struct leat_error *error);
void leat_members_free(struct leat_members *members); /* NULL is allowed */
/* The i-th draw of a member of a group under a row's key: its position in the data set. */
uint64_t leat_members_draw(const struct leat_members *members, uint64_t group, uint64_t row_key, uint64_t i);

#endif
