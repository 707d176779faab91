/*
 * DetectionMixUp: the row's own image and that of another sample, one over the other, with the objects of both. Source:
 * Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks", 2019.
 *
 * Draws: 0: whether; from 1 on: the share of the row's own image, of Beta(alpha, alpha).
 */
#include "op/gather.h"
#include "op/mix.h"

struct mix_args {
    struct leat_gather_args common;
    double alpha;
};

static void parse(void *into, struct leat_args *json)
{
    struct mix_args *args = into;
    leat_args_double(json, "alpha", 1e-3, 1e6, 1.5, &args->alpha);
    leat_args_double(json, "p", 0, 1, 1, &args->common.p);
}

static double share(const void *from, uint64_t key)
{
    const struct mix_args *args = from;
    uint64_t counter = 1;
    return leat_draw_beta(key, args->alpha, &counter);
}

const struct leat_op_class leat_op_detection_mix_up = {.type = "DetectionMixUp",
                                                       .input = LEAT_INPUT_PIXELS,
                                                       .args_bytes = sizeof(struct mix_args),
                                                       .random = true,
                                                       .gathers = 2,
                                                       .overlays = true,
                                                       .share = share,
                                                       .parse = parse,
                                                       .infer = leat_overlay_infer,
                                                       .move = leat_overlay_move};
