/* CenterCrop: the middle of an image; the missing part is padded with 0. */
#include "base/elementary.h"
#include "op/operator.h"

struct crop_args {
    int64_t height, width;
};

static void parse(void *into, struct leat_args *json)
{
    struct crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct crop_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    effect->pads = w < args->width || h < args->height; /* also if the size is open (-1) */
    leat_type_resize(type, args->height, args->width);
    return LEAT_OK;
}

/* The start of a centred crop of `crop`; before 0: so much is padded. */
static int64_t center(int64_t side, int64_t crop)
{
    return side < crop ? -((crop - side) / 2) : leat_round_even((double)(side - crop) / 2.0);
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct crop_args *args = from;
    move->x = center(w, args->width);
    move->y = center(h, args->height);
    move->w = args->width;
    move->h = args->height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    move->crops = true;
    return LEAT_OK;
}

const struct leat_op_class leat_op_center_crop = {.type = "CenterCrop",
                                                  .input = LEAT_INPUT_IMAGE,
                                                  .args_bytes = sizeof(struct crop_args),
                                                  .parse = parse,
                                                  .infer = infer,
                                                  .move = move_pixels};
