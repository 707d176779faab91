/* RandomCrop: a box at a random place, in an image that may be padded first. */
#include "base/error.h"
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

struct crop_args {
    int64_t height, width;
    int64_t sides[4]; /* padding: left, top, right, bottom */
    bool pad_if_needed;
    enum leat_padding padding;
    struct leat_fill fill;
};

static void parse(void *into, struct leat_args *json)
{
    struct crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
    leat_args_padding(json, 0, args->sides, &args->padding);
    leat_args_bool(json, "pad_if_needed", false, &args->pad_if_needed);
    leat_args_fill(json, 0, &args->fill);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct crop_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    bool small = (w >= 0 && w + args->sides[0] + args->sides[2] < args->width) ||
                 (h >= 0 && h + args->sides[1] + args->sides[3] < args->height);
    if (small && !args->pad_if_needed)
        return leat_op_misfit(place, type, "an image no smaller than the crop (or pad_if_needed=True)", error);
    int rc = leat_effect_pads(&args->fill, place, type, effect, error);
    effect->pads = args->sides[0] || args->sides[1] || args->sides[2] || args->sides[3] || args->pad_if_needed;
    effect->padding = args->padding;
    leat_type_resize(type, args->height, args->width);
    return rc;
}

/* One axis: the begin of the crop, in the coordinates of the image without padding. */
static bool draw_axis(uint64_t key, uint64_t counter, int64_t side, int64_t before, int64_t after, int64_t crop,
                      bool pad, int64_t *begin)
{
    int64_t padded = side + before + after;
    if (padded < crop && pad) { /* as torchvision: the missing part is added on both sides */
        int64_t missing = crop - padded;
        before += missing;
        padded += 2 * missing;
    }
    if (padded < crop)
        return false;
    *begin = (int64_t)leat_draw_below(key, counter, (uint64_t)(padded - crop) + 1) - before;
    return true;
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct crop_args *args = from;
    if (!draw_axis(key, 0, h, args->sides[1], args->sides[3], args->height, args->pad_if_needed, &move->y) ||
        !draw_axis(key, 1, w, args->sides[0], args->sides[2], args->width, args->pad_if_needed, &move->x))
        return leat_fail(
            error, LEAT_E_DECODE,
            "RandomCrop of %lld x %lld does not fit in a photo of %u x %u. Put Resize before it, or set pad_if_needed.",
            (long long)args->width, (long long)args->height, w, h);
    move->w = args->width;
    move->h = args->height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    move->crops = true;
    return LEAT_OK;
}

/* The value of the padding is not drawn. */
static bool same_draw(const void *a, const void *b)
{
    const struct crop_args *p = a, *q = b;
    return p->height == q->height && p->width == q->width && p->sides[0] == q->sides[0] && p->sides[1] == q->sides[1] &&
           p->sides[2] == q->sides[2] && p->sides[3] == q->sides[3] && p->pad_if_needed == q->pad_if_needed;
}

const struct leat_op_class leat_op_random_crop = {.type = "RandomCrop",
                                                  .input = LEAT_INPUT_IMAGE,
                                                  .args_bytes = sizeof(struct crop_args),
                                                  .random = true,
                                                  .parse = parse,
                                                  .infer = infer,
                                                  .move = move_pixels,
                                                  .same_draw = same_draw};
