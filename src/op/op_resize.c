/*
 * Resize and RandomResizedCrop. Sizes and distributions are those of torchvision.transforms.v2; the pixels are Pillow's
 * (resample.h).
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/elementary.h"
#include "op/operator.h"
#include "op/program.h"

static const char *const interpolations[] = {"bilinear", "nearest", "nearest-exact", NULL};

static enum leat_filter filter_of(struct leat_args *json)
{
    unsigned word;
    bool antialias;
    leat_args_word(json, "interpolation", interpolations, 0, &word);
    leat_args_bool(json, "antialias", true, &antialias);
    return word ? LEAT_FILTER_NEAREST : antialias ? LEAT_FILTER_ANTIALIAS : LEAT_FILTER_BILINEAR;
}

/* ---- Resize ---- */

struct resize_args {
    int64_t height, width; /* width 0: height is that of the shorter side */
    int64_t max_size;      /* 0: none */
    enum leat_filter filter;
};

static void resize_parse(void *into, struct leat_args *json)
{
    struct resize_args *args = into;
    int64_t size[2] = {0, 0};
    unsigned n = leat_args_ints(json, "size", 1, 2, 1, LEAT_MAX_SIDE, size);
    args->filter = filter_of(json);
    leat_args_int(json, "max_size", 1, LEAT_MAX_SIDE, 0, &args->max_size);
    args->height = size[0];
    args->width = n == 2 ? size[1] : 0;
    if (!n && !args->max_size)
        leat_args_wrong(json, "size", "given");
    else if (n == 2 && args->max_size)
        leat_args_wrong(json, "max_size", "left out where size has two numbers");
    else if (n == 1 && args->max_size && args->max_size <= args->height)
        leat_args_wrong(json, "max_size", "above size");
}

/* int(a * b / c) as Python computes it */
static int64_t scaled(int64_t a, int64_t b, int64_t c)
{
    return (int64_t)((double)(a * b) / (double)c);
}

static void resized(const struct resize_args *args, int64_t w, int64_t h, int64_t *out_w, int64_t *out_h)
{
    if (args->width) {
        *out_w = args->width;
        *out_h = args->height;
        return;
    }
    int64_t shorter = w <= h ? w : h, longer = w <= h ? h : w, new_short, new_long;
    if (args->height) {
        new_short = args->height;
        new_long = scaled(args->height, longer, shorter);
        if (args->max_size && new_long > args->max_size) {
            new_short = scaled(args->max_size, new_short, new_long);
            new_long = args->max_size;
        }
    } else { /* size None: the longer side becomes max_size */
        new_long = args->max_size;
        new_short = scaled(args->max_size, shorter, longer);
    }
    *out_w = w <= h ? new_short : new_long;
    *out_h = w <= h ? new_long : new_short;
}

static int resize_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                        struct leat_error *error)
{
    const struct resize_args *args = from;
    int rc = leat_op_needs_pixels(place, type, error);
    if (rc)
        return rc;
    int64_t w = leat_type_width(type), h = leat_type_height(type), out_w = -1, out_h = -1;
    if (args->width || (w > 0 && h > 0))
        resized(args, w, h, &out_w, &out_h);
    if (out_w == 0 || out_h == 0 || out_w > LEAT_MAX_SIDE || out_h > LEAT_MAX_SIDE)
        return leat_op_misfit(place, type, "an image whose sides stay between 1 and 65535 after the resize", error);
    leat_type_resize(type, out_h, out_w);
    effect->resizes = true;
    return LEAT_OK;
}

static int resize_draw(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move, struct leat_error *error)
{
    const struct resize_args *args = from;
    int64_t out_w, out_h;
    resized(args, w, h, &out_w, &out_h);
    if (out_w < 1 || out_h < 1 || out_w > LEAT_MAX_SIDE || out_h > LEAT_MAX_SIDE)
        return leat_fail(error, LEAT_E_DECODE,
                         "Resize cannot bring a photo of %u x %u to %lld x %lld: sides stay between 1 and 65535. Give Resize both sides.",
                         w, h, (long long)out_w, (long long)out_h);
    move->out_w = (uint32_t)out_w;
    move->out_h = (uint32_t)out_h;
    move->filter = args->filter;
    return LEAT_OK;
}

const struct leat_op_class leat_op_resize = {
    .type = "Resize", .args_bytes = sizeof(struct resize_args), .parse = resize_parse, .infer = resize_infer, .draw = resize_draw};

/* ---- RandomResizedCrop ---- */

struct crop_args {
    int64_t height, width;
    double scale[2], ratio[2], log_ratio[2];
    enum leat_filter filter;
};

static void crop_parse(void *into, struct leat_args *json)
{
    struct crop_args *args = into;
    int64_t size[2] = {0, 0};
    unsigned n = leat_args_ints(json, "size", 1, 2, 1, LEAT_MAX_SIDE, size);
    if (!n)
        leat_args_wrong(json, "size", "given");
    args->height = size[0];
    args->width = n == 2 ? size[1] : size[0];
    args->scale[0] = 0.08;
    args->scale[1] = 1.0;
    args->ratio[0] = 3.0 / 4.0;
    args->ratio[1] = 4.0 / 3.0;
    leat_args_doubles(json, "scale", 2, 2, args->scale);
    leat_args_doubles(json, "ratio", 2, 2, args->ratio);
    args->filter = filter_of(json);
    if (args->scale[0] < 0 || args->scale[0] > args->scale[1] || args->scale[1] <= 0 || args->scale[1] > 1e6)
        leat_args_wrong(json, "scale", "(low, high) with 0 <= low <= high");
    if (args->ratio[0] < 1e-6 || args->ratio[0] > args->ratio[1] || args->ratio[1] > 1e6)
        leat_args_wrong(json, "ratio", "(low, high) with 0 < low <= high");
    if (!json->status)
        for (int i = 0; i < 2; i++)
            args->log_ratio[i] = leat_math_log(args->ratio[i]);
}

static int crop_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                      struct leat_error *error)
{
    const struct crop_args *args = from;
    int rc = leat_op_needs_pixels(place, type, error);
    if (rc)
        return rc;
    leat_type_resize(type, args->height, args->width);
    effect->resizes = true;
    return LEAT_OK;
}

/* Draws 0 to 19: area and shape of ten tries; 20 and 21: where the box lies. */
static int crop_draw(const void *from, uint64_t key, uint32_t width, uint32_t height, struct leat_move *move, struct leat_error *error)
{
    const struct crop_args *args = from;
    double area = (double)width * (double)height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    move->filter = args->filter;
    for (uint64_t i = 0; i < 10; i++) {
        double target = area * (args->scale[0] + leat_draw_unit(key, 2 * i) * (args->scale[1] - args->scale[0]));
        double aspect = leat_math_exp(args->log_ratio[0] + leat_draw_unit(key, 2 * i + 1) * (args->log_ratio[1] - args->log_ratio[0]));
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

const struct leat_op_class leat_op_random_resized_crop = {.type = "RandomResizedCrop",
                                                          .args_bytes = sizeof(struct crop_args),
                                                          .random = true,
                                                          .parse = crop_parse,
                                                          .infer = crop_infer,
                                                          .draw = crop_draw};
