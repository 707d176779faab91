/* Resize: to sizes as torchvision.transforms.v2 computes them, in pixels as Pillow does (resample.h). */
#include "base/error.h"
#include "op/operator.h"
#include "op/program.h"

struct resize_args {
    int64_t height, width; /* width 0: height is that of the shorter side */
    int64_t max_size;      /* 0: none */
    enum leat_filter filter;
};

static void parse(void *into, struct leat_args *json)
{
    struct resize_args *args = into;
    int64_t size[2] = {0, 0};
    unsigned n = leat_args_ints(json, "size", 1, 2, 1, LEAT_MAX_SIDE, size);
    args->filter = leat_args_filter(json);
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

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct resize_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type), out_w = -1, out_h = -1;
    if (args->width || (w > 0 && h > 0))
        resized(args, w, h, &out_w, &out_h);
    if (out_w == 0 || out_h == 0 || out_w > LEAT_MAX_SIDE || out_h > LEAT_MAX_SIDE)
        return leat_op_misfit(place, type, "an image whose sides stay between 1 and 65535 after the resize", error);
    leat_type_resize(type, out_h, out_w);
    effect->resizes = true;
    effect->filter = args->filter;
    return LEAT_OK;
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct resize_args *args = from;
    int64_t out_w, out_h;
    resized(args, w, h, &out_w, &out_h);
    if (out_w < 1 || out_h < 1 || out_w > LEAT_MAX_SIDE || out_h > LEAT_MAX_SIDE)
        return leat_fail(error, LEAT_E_DECODE,
                         "Resize cannot bring a photo of %u x %u to %lld x %lld: sides stay between 1 and 65535. Give "
                         "Resize both sides.",
                         w, h, (long long)out_w, (long long)out_h);
    move->out_w = (uint32_t)out_w;
    move->out_h = (uint32_t)out_h;
    move->filter = args->filter;
    return LEAT_OK;
}

const struct leat_op_class leat_op_resize = {.type = "Resize",
                                             .input = LEAT_INPUT_PIXELS,
                                             .args_bytes = sizeof(struct resize_args),
                                             .parse = parse,
                                             .infer = infer,
                                             .move = move_pixels};
