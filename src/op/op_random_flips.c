/* RandomHorizontalFlip: mirrored left to right, or not. RandomVerticalFlip: turned upside down, as a mirror on the
 * floor does, or not. Draw 0: below p. */
#include "base/random.h"
#include "op/operator.h"

struct flip_args {
    double p;
};

static void parse(void *into, struct leat_args *json)
{
    leat_args_double(json, "p", 0, 1, 0.5, &((struct flip_args *)into)->p);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    effect->flips = true;
    return LEAT_OK;
}

static bool acts(const void *from, uint64_t key)
{
    return leat_draw_unit(key, 0) < ((const struct flip_args *)from)->p;
}

static int across(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                  struct leat_error *error)
{
    move->flip = acts(args, key);
    return LEAT_OK;
}

static int down(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                struct leat_error *error)
{
    move->flip_y = acts(args, key);
    return LEAT_OK;
}

#define FLIPS(name, title, mover)                                                                                      \
    const struct leat_op_class leat_op_random_##name = {.type = title,                                                 \
                                                        .input = LEAT_INPUT_IMAGE,                                     \
                                                        .args_bytes = sizeof(struct flip_args),                        \
                                                        .random = true,                                                \
                                                        .parse = parse,                                                \
                                                        .infer = infer,                                                \
                                                        .move = mover};
FLIPS(horizontal_flip, "RandomHorizontalFlip", across)
FLIPS(vertical_flip, "RandomVerticalFlip", down)
