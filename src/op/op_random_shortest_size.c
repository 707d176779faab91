/*
 * RandomShortestSize: the shorter side becomes one of some sizes, or less, so that the longer one stays below a bound.
 * Arguments and distribution are those of torchvision.transforms.v2.
 *
 * Draw 0: which size.
 */
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

#define MAX_SIZES 256

struct shortest_args {
    int64_t sizes[MAX_SIZES], max_size; /* 0: none */
    unsigned n;
    enum leat_filter filter;
};

static void parse(void *into, struct leat_args *json)
{
    struct shortest_args *args = into;
    args->n = leat_args_ints(json, "min_size", 1, MAX_SIZES, 1, LEAT_MAX_SIDE, args->sizes);
    leat_args_int(json, "max_size", 1, LEAT_MAX_SIDE, 0, &args->max_size);
    args->filter = leat_args_filter(json);
    if (!args->n)
        leat_args_wrong(json, "min_size", "given");
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct shortest_args *args = from;
    double size = (double)args->sizes[leat_draw_below(key, 0, args->n ? args->n : 1)];
    double ratio = size / (w < h ? w : h), most = (double)args->max_size / (w < h ? h : w);
    ratio = args->max_size && most < ratio ? most : ratio;
    return leat_move_resize(move, "RandomShortestSize", (double)w * ratio, (double)h * ratio, args->filter, error);
}

const struct leat_op_class leat_op_random_shortest_size = {.type = "RandomShortestSize",
                                                           .input = LEAT_INPUT_PIXELS,
                                                           .args_bytes = sizeof(struct shortest_args),
                                                           .random = true,
                                                           .parse = parse,
                                                           .infer = leat_infer_resize,
                                                           .move = move_pixels};
