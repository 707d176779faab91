/*
 * Draws by weight, with and without replacement.
 */
#ifndef LEAT_PLAN_WEIGHTED_H
#define LEAT_PLAN_WEIGHTED_H

#include <pthread.h>

#include "leat/leat.h"

struct leat_weights {
    uint64_t n, hash, positive; /* how many are above 0 */
    double *cumulative;         /* cumulative[i] = w[0] + .. + w[i] */
    /* Without replacement: the draws of the two passes used last, in memory that is allocated at the start. */
    uint64_t num_samples;
    struct leat_weighted_key {
        double key, weight;
        uint64_t position;
    } * scratch;
    struct {
        bool set;
        uint64_t key;
        uint64_t *positions;
    } pass[2];
    unsigned newest;
    pthread_mutex_t lock;
};
/* num_samples 0: with replacement. */
int leat_weights_new(const double *weights, uint64_t n, uint64_t num_samples, struct leat_weights **out,
                     struct leat_error *error);
void leat_weights_free(struct leat_weights *w);
/* The i-th draw under a key, with replacement. */
uint64_t leat_weights_draw(const struct leat_weights *w, uint64_t key, uint64_t i);
/* n of the num_samples draws under a key, without replacement, from the first-th on. Any thread. */
void leat_weights_take(struct leat_weights *w, uint64_t key, uint64_t first, size_t n, uint64_t *out);
/* The draw of a number that is not `broken`, or that if it alone has a weight. */
uint64_t leat_weights_draw_other(const struct leat_weights *w, uint64_t key, unsigned number, uint64_t broken);

#endif
