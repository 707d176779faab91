/* RandomVerticalFlip: turned upside down, as a mirror on the floor does, or not. */
#include "base/random.h"
#include "op/operator.h"

struct flip_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    struct flip_args *args = into;
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    effect->flips = true;
    return LEAT_OK;
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct flip_args *args = from;
    move->flip_y = leat_draw_unit(key, 0) < args->p;
    return LEAT_OK;
}

const struct leat_op_class leat_op_random_vertical_flip = {.type = "RandomVerticalFlip",
                                                           .input = LEAT_INPUT_IMAGE,
                                                           .args_bytes = sizeof(struct flip_args),
                                                           .random = true,
                                                           .parse = parse,
                                                           .infer = infer,
                                                           .move = move_pixels};
