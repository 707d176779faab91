/*
 * RandomSizeCrop: a box of random sides at a random place. Source: Carion et al., "End-to-End Object Detection with
 * Transformers", ECCV 2020, whose training has it; a side that is below the least is taken whole.
 *
 * Draws: 0 width, 1 height, 2 top, 3 left.
 */
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

struct size_args {
    int64_t least, most;
};

static void parse(void *into, struct leat_args *json)
{
    struct size_args *args = into;
    leat_args_int(json, "min_size", 1, LEAT_MAX_SIDE, 0, &args->least);
    leat_args_int(json, "max_size", 1, LEAT_MAX_SIDE, 0, &args->most);
    if (!args->least || args->least > args->most)
        leat_args_wrong(json, "max_size", "no less than min_size");
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    leat_type_resize(type, -1, -1);
    return LEAT_OK;
}

static int64_t draw_side(const struct size_args *args, uint64_t key, uint64_t counter, int64_t side)
{
    int64_t most = side < args->most ? side : args->most;
    return most <= args->least
               ? most
               : args->least + (int64_t)leat_draw_below(key, counter, (uint64_t)(most - args->least + 1));
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct size_args *args = from;
    move->w = draw_side(args, key, 0, w);
    move->h = draw_side(args, key, 1, h);
    move->y = (int64_t)leat_draw_below(key, 2, (uint64_t)(h - move->h + 1));
    move->x = (int64_t)leat_draw_below(key, 3, (uint64_t)(w - move->w + 1));
    move->out_w = (uint32_t)move->w;
    move->out_h = (uint32_t)move->h;
    move->crops = true;
    return LEAT_OK;
}

const struct leat_op_class leat_op_random_size_crop = {.type = "RandomSizeCrop",
                                                       .input = LEAT_INPUT_IMAGE,
                                                       .args_bytes = sizeof(struct size_args),
                                                       .random = true,
                                                       .parse = parse,
                                                       .infer = infer,
                                                       .move = move_pixels};
