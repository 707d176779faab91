/*
 * Letterbox: resized so that it fits, keeping the ratio of the sides, and put into a frame of a fixed size: the
 * preparation of photos of the YOLO family. The sides are rounded as there (round half to even), and an odd pixel of
 * the frame lies to the right or below.
 */
#include "base/elementary.h"
#include "base/error.h"
#include "op/operator.h"
#include "op/program.h"

struct box_args {
    int64_t height, width;
    bool scale_up, center;
    enum leat_filter filter;
    struct leat_fill fill;
};

static void parse(void *into, struct leat_args *json)
{
    struct box_args *args = into;
    leat_args_size(json, &args->height, &args->width);
    leat_args_bool(json, "scale_up", true, &args->scale_up);
    leat_args_bool(json, "center", true, &args->center);
    args->filter = leat_args_filter(json);
    leat_args_fill(json, 114, &args->fill);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct box_args *args = from;
    leat_type_resize(type, args->height, args->width);
    effect->resizes = true;
    effect->filter = args->filter;
    return leat_effect_pads(&args->fill, place, type, effect, error);
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct box_args *args = from;
    double across = (double)args->width / w, down = (double)args->height / h, ratio = across < down ? across : down;
    ratio = ratio > 1 && !args->scale_up ? 1 : ratio;
    int64_t out_w = leat_round_even(w * ratio), out_h = leat_round_even(h * ratio);
    move->out_w = out_w < 1 ? 1 : out_w < args->width ? (uint32_t)out_w : (uint32_t)args->width;
    move->out_h = out_h < 1 ? 1 : out_h < args->height ? (uint32_t)out_h : (uint32_t)args->height;
    move->filter = args->filter;
    move->frame_w = (uint32_t)args->width;
    move->frame_h = (uint32_t)args->height;
    move->left = args->center ? (move->frame_w - move->out_w) / 2 : 0;
    move->top = args->center ? (move->frame_h - move->out_h) / 2 : 0;
    return LEAT_OK;
}

const struct leat_op_class leat_op_letterbox = {.type = "Letterbox",
                                                .input = LEAT_INPUT_PIXELS,
                                                .args_bytes = sizeof(struct box_args),
                                                .parse = parse,
                                                .infer = infer,
                                                .move = move_pixels};
