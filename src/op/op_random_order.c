/*
 * RandomOrder: all of its operators, each order as likely as any other.
 *
 * Draws: i: the operator that changes places with number n - 1 - i.
 */
#include "base/random.h"
#include "op/operator.h"

static unsigned choose(const void *args, uint64_t key, unsigned n, uint8_t which[LEAT_MAX_ALTERNATIVES])
{
    for (unsigned i = 0; i < n; i++)
        which[i] = (uint8_t)i;
    for (unsigned i = n; i > 1; i--) {
        uint64_t k = leat_draw_below(key, n - i, i);
        uint8_t last = which[i - 1];
        which[i - 1] = which[k];
        which[k] = last;
    }
    return n;
}

const struct leat_op_class leat_op_random_order = {
    .type = "RandomOrder", .input = LEAT_INPUT_IMAGE, .random = true, .choose = choose, .branch = LEAT_BRANCH_ALL};
