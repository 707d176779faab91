/*
 * RandomResize: the shorter side becomes a random size. Arguments and distribution are those of
 * torchvision.transforms.v2.
 *
 * Draw 0: the size, of [min_size, max_size).
 */
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

struct random_args {
    int64_t low, high;
    enum leat_filter filter;
};

static void parse(void *into, struct leat_args *json)
{
    struct random_args *args = into;
    leat_args_int(json, "min_size", 1, LEAT_MAX_SIDE, 0, &args->low);
    leat_args_int(json, "max_size", 1, LEAT_MAX_SIDE + 1, 0, &args->high);
    args->filter = leat_args_filter(json);
    if (!args->low || args->low >= args->high)
        leat_args_wrong(json, "max_size", "above min_size");
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct random_args *args = from;
    int64_t size = args->low + (int64_t)leat_draw_below(key, 0, (uint64_t)(args->high - args->low));
    int64_t shorter = w < h ? w : h, longer = w < h ? h : w;
    double other = (double)(size * longer) / (double)shorter;
    return leat_move_resize(move, "RandomResize", w <= h ? (double)size : other, w <= h ? other : (double)size,
                            args->filter, error);
}

const struct leat_op_class leat_op_random_resize = {.type = "RandomResize",
                                                    .input = LEAT_INPUT_PIXELS,
                                                    .args_bytes = sizeof(struct random_args),
                                                    .random = true,
                                                    .parse = parse,
                                                    .infer = leat_infer_resize,
                                                    .move = move_pixels};
