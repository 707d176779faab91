/*
 * RandomResizedCrop: a box of random area and shape, resized. The distribution is that of torchvision.transforms.v2;
 * the pixels are Pillow's (resample.h).
 */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/random.h"
#include "op/operator.h"

struct crop_args {
    int64_t height, width;
    double scale[2], ratio[2], log_ratio[2];
    enum leat_filter filter;
};

static void parse(void *into, struct leat_args *json)
{
    struct crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
    args->scale[0] = 0.08;
    args->scale[1] = 1.0;
    args->ratio[0] = 3.0 / 4.0;
    args->ratio[1] = 4.0 / 3.0;
    leat_args_doubles(json, "scale", 2, 2, args->scale);
    leat_args_doubles(json, "ratio", 2, 2, args->ratio);
    args->filter = leat_args_filter(json);
    if (args->scale[0] < 0 || args->scale[0] > args->scale[1] || args->scale[1] <= 0 || args->scale[1] > 1e6)
        leat_args_wrong(json, "scale", "(low, high) with 0 <= low <= high");
    if (args->ratio[0] < 1e-6 || args->ratio[0] > args->ratio[1] || args->ratio[1] > 1e6)
        leat_args_wrong(json, "ratio", "(low, high) with 0 < low <= high");
    if (!json->status)
        for (int i = 0; i < 2; i++)
            args->log_ratio[i] = leat_math_log(args->ratio[i]);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct crop_args *args = from;
    leat_type_resize(type, args->height, args->width);
    effect->resizes = true;
    effect->filter = args->filter;
    return LEAT_OK;
}

/* Draws 0 to 19: area and shape of ten tries; 20 and 21: the place of the box. */
static int move_pixels(const void *from, uint64_t key, uint32_t width, uint32_t height, struct leat_move *move,
                       struct leat_error *error)
{
    const struct crop_args *args = from;
    double area = (double)width * (double)height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    move->crops = true;
    move->filter = args->filter;
    for (uint64_t i = 0; i < 10; i++) {
        double target = area * (args->scale[0] + leat_draw_unit(key, 2 * i) * (args->scale[1] - args->scale[0]));
        double aspect = leat_math_exp(args->log_ratio[0] +
                                      leat_draw_unit(key, 2 * i + 1) * (args->log_ratio[1] - args->log_ratio[0]));
        int64_t w = leat_round_even(sqrt(target * aspect)), h = leat_round_even(sqrt(target / aspect));
        if (w > 0 && w <= width && h > 0 && h <= height) {
            move->w = w;
            move->h = h;
            move->y = (int64_t)leat_draw_below(key, 20, height - (uint64_t)h + 1);
            move->x = (int64_t)leat_draw_below(key, 21, width - (uint64_t)w + 1);
            return LEAT_OK;
        }
    }
    double in_ratio = (double)width / (double)height;
    int64_t w = width, h = height; /* the central box of the nearest allowed shape */
    if (in_ratio < args->ratio[0])
        h = leat_round_even((double)w / args->ratio[0]);
    else if (in_ratio > args->ratio[1])
        w = leat_round_even((double)h * args->ratio[1]);
    move->w = w < 1 ? 1 : w;
    move->h = h < 1 ? 1 : h;
    move->x = ((int64_t)width - move->w) / 2;
    move->y = ((int64_t)height - move->h) / 2;
    return LEAT_OK;
}

/* The size of the result is not drawn. */
static bool same_draw(const void *a, const void *b)
{
    const struct crop_args *p = a, *q = b;
    return !memcmp(p->scale, q->scale, sizeof p->scale) && !memcmp(p->ratio, q->ratio, sizeof p->ratio);
}

const struct leat_op_class leat_op_random_resized_crop = {.type = "RandomResizedCrop",
                                                          .input = LEAT_INPUT_PIXELS,
                                                          .args_bytes = sizeof(struct crop_args),
                                                          .random = true,
                                                          .parse = parse,
                                                          .infer = infer,
                                                          .move = move_pixels,
                                                          .same_draw = same_draw};
