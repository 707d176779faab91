/* RandomCrop: a box at a random place, in an image that may be padded first. */
#include "base/error.h"
#include "base/random.h"
#include "op/operator.h"
#include "op/program.h"

struct crop_args {
    int64_t height, width;
    int64_t left, top, right, bottom; /* padding */
    bool pad_if_needed;
    enum leat_padding padding;
    unsigned n_fill; /* 0: 0; 1: the same for all channels */
    double fill[LEAT_MAX_CHANNELS];
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", NULL}; /* as enum leat_padding */
    struct crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
    int64_t p[4] = {0, 0, 0, 0};
    unsigned n = leat_args_ints(json, "padding", 1, 4, 0, LEAT_MAX_SIDE, p), mode;
    if (n == 3)
        leat_args_wrong(json, "padding", "one, two or four numbers");
    args->left = p[0];
    args->top = n >= 2 ? p[1] : p[0];
    args->right = n == 4 ? p[2] : args->left;
    args->bottom = n == 4 ? p[3] : args->top;
    leat_args_bool(json, "pad_if_needed", false, &args->pad_if_needed);
    args->n_fill = leat_args_doubles(json, "fill", 1, LEAT_MAX_CHANNELS, args->fill);
    leat_args_word(json, "padding_mode", modes, LEAT_PAD_CONSTANT, &mode);
    args->padding = (enum leat_padding)mode;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct crop_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type), channels = leat_type_channels(type);
    bool small = (w >= 0 && w + args->left + args->right < args->width) ||
                 (h >= 0 && h + args->top + args->bottom < args->height);
    if (small && !args->pad_if_needed)
        return leat_op_misfit(place, type, "an image no smaller than the crop (or pad_if_needed=True)", error);
    if (args->n_fill > 1 && args->n_fill != channels)
        return leat_op_misfit(place, type, "one fill, or one per channel", error);
    effect->pads = args->left || args->top || args->right || args->bottom || args->pad_if_needed;
    effect->padding = args->padding;
    for (int64_t c = 0; c < channels && c < LEAT_MAX_CHANNELS; c++)
        effect->fill[c] = args->n_fill ? args->fill[args->n_fill > 1 ? c : 0] : 0;
    leat_type_resize(type, args->height, args->width);
    return LEAT_OK;
}

/* One axis: the begin of the crop, in the coordinates of the image without padding. */
static bool draw_axis(uint64_t key, uint64_t counter, int64_t side, int64_t before, int64_t after, int64_t crop,
                      bool pad, int64_t *begin)
{
    int64_t padded = side + before + after;
    if (padded < crop && pad) { /* as torchvision: what is missing is added on both sides */
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
    if (!draw_axis(key, 0, h, args->top, args->bottom, args->height, args->pad_if_needed, &move->y) ||
        !draw_axis(key, 1, w, args->left, args->right, args->width, args->pad_if_needed, &move->x))
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
    return p->height == q->height && p->width == q->width && p->left == q->left && p->top == q->top &&
           p->right == q->right && p->bottom == q->bottom && p->pad_if_needed == q->pad_if_needed;
}

const struct leat_op_class leat_op_random_crop = {.type = "RandomCrop",
                                                  .input = LEAT_INPUT_IMAGE,
                                                  .args_bytes = sizeof(struct crop_args),
                                                  .random = true,
                                                  .parse = parse,
                                                  .infer = infer,
                                                  .move = move_pixels,
                                                  .same_draw = same_draw};
