/* MixUp: Zhang et al., "mixup: Beyond empirical risk minimization", 2018; one share per batch, as
 * torchvision.transforms.v2. */
#include "op/mix.h"

static void mix_up(const void *from, uint64_t key, const struct leat_batch_part *part, uint64_t rows)
{
    const struct leat_mix_args *args = from;
    uint64_t counter = 0;
    leat_mix_rows(part, rows, leat_draw_beta(key, args->alpha, &counter));
}

const struct leat_op_class leat_op_mix_up = {.type = "MixUp",
                                             .args_bytes = sizeof(struct leat_mix_args),
                                             .random = true,
                                             .blends = true,
                                             .parse = leat_mix_parse,
                                             .batch = mix_up};
