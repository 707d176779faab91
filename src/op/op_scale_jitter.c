/*
 * ScaleJitter: to a random multiple of the size that fits into a target, keeping the ratio of the sides. Source: Ghiasi
 * et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", CVPR 2021; arguments and
 * distribution are those of torchvision.transforms.v2, which fits the height into the second side of the target.
 *
 * Draw 0: the multiple.
 */
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

struct scale_args {
    int64_t target[2];
    double low, high;
    enum leat_filter filter;
};

static void parse(void *into, struct leat_args *json)
{
    struct scale_args *args = into;
    double range[2] = {0.1, 2.0};
    if (leat_args_ints(json, "target_size", 2, 2, 1, LEAT_MAX_SIDE, args->target) != 2)
        leat_args_wrong(json, "target_size", "two sides");
    leat_args_doubles(json, "scale_range", 2, 2, range);
    args->low = range[0];
    args->high = range[1];
    args->filter = leat_args_filter(json);
    if (!(range[0] > 0 && range[0] <= range[1] && range[1] <= 1e6))
        leat_args_wrong(json, "scale_range", "(low, high) with 0 < low <= high");
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct scale_args *args = from;
    double scale = args->low + (args->high - args->low) * leat_draw_unit(key, 0);
    double down = (double)args->target[1] / h, across = (double)args->target[0] / w;
    double ratio = (down < across ? down : across) * scale;
    return leat_move_resize(move, "ScaleJitter", (double)w * ratio, (double)h * ratio, args->filter, error);
}

const struct leat_op_class leat_op_scale_jitter = {.type = "ScaleJitter",
                                                   .input = LEAT_INPUT_PIXELS,
                                                   .args_bytes = sizeof(struct scale_args),
                                                   .random = true,
                                                   .parse = parse,
                                                   .infer = leat_infer_resize,
                                                   .move = move_pixels};
