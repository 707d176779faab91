/*
 * RandomZoomOut: the image at a random place of a larger canvas. Source: Liu et al., "SSD: Single Shot MultiBox
 * Detector", ECCV 2016; arguments and distribution are those of torchvision.transforms.v2.
 *
 * Draw 0: whether; 1: the canvas's sides; 2: left, 3: top.
 */
#include "base/error.h"
#include "base/random.h"
#include "op/operator.h"

struct zoom_args {
    double p, low, high;
    struct leat_fill fill;
};

static void parse(void *into, struct leat_args *json)
{
    struct zoom_args *args = into;
    double range[2] = {1, 4};
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
    leat_args_doubles(json, "side_range", 2, 2, range);
    args->low = range[0];
    args->high = range[1];
    if (!(range[0] >= 1 && range[0] <= range[1] && range[1] <= 1000))
        leat_args_wrong(json, "side_range", "(low, high) with 1 <= low <= high");
    leat_args_fill(json, 0, &args->fill);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct zoom_args *args = from;
    int rc = leat_effect_pads(&args->fill, place, type, effect, error);
    leat_type_resize(type, -1, -1);
    return rc;
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct zoom_args *args = from;
    if (leat_draw_unit(key, 0) >= args->p)
        return LEAT_OK;
    double side = args->low + (args->high - args->low) * leat_draw_unit(key, 1);
    int64_t wide = (int64_t)(w * side), high = (int64_t)(h * side);
    if (wide > LEAT_MAX_SIDE || high > LEAT_MAX_SIDE)
        return leat_fail(error, LEAT_E_DECODE,
                         "RandomZoomOut cannot put a photo of %u x %u into %lld x %lld: sides are at most 65535. Put "
                         "Resize before it.",
                         w, h, (long long)wide, (long long)high);
    *move = (struct leat_move){.x = -(int64_t)((double)(wide - w) * leat_draw_unit(key, 2)),
                               .y = -(int64_t)((double)(high - h) * leat_draw_unit(key, 3)),
                               .w = wide,
                               .h = high,
                               .out_w = (uint32_t)wide,
                               .out_h = (uint32_t)high,
                               .filter = move->filter,
                               .crops = true};
    return LEAT_OK;
}

static bool same_draw(const void *a, const void *b)
{
    const struct zoom_args *p = a, *q = b;
    return p->p == q->p && p->low == q->low && p->high == q->high;
}

const struct leat_op_class leat_op_random_zoom_out = {.type = "RandomZoomOut",
                                                      .input = LEAT_INPUT_IMAGE,
                                                      .args_bytes = sizeof(struct zoom_args),
                                                      .random = true,
                                                      .parse = parse,
                                                      .infer = infer,
                                                      .move = move_pixels,
                                                      .same_draw = same_draw};
