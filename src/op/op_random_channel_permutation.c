/* RandomChannelPermutation: the channels in an order that is drawn, all alike. Draws 0 to 2: the order. */
#include "op/adjust.h"

static unsigned adjust(const void *args, uint64_t key, unsigned channels, struct leat_adjust *steps)
{
    *steps = (struct leat_adjust){.kind = LEAT_ADJUST_PERMUTE};
    leat_adjust_draw_order(key, 0, channels, steps->order);
    return 1;
}

const struct leat_op_class leat_op_random_channel_permutation = {
    .type = "RandomChannelPermutation", .input = LEAT_INPUT_PIXELS, .random = true, .adjust = adjust};
