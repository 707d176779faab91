/* CenterCrop, RandomCrop and RandomHorizontalFlip: boxes, padding and mirrors as torchvision.transforms.v2 has them. */
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/elementary.h"
#include "op/operator.h"
#include "op/program.h"

static void parse_size(struct leat_args *json, int64_t *height, int64_t *width)
{
    int64_t size[2] = {1, 1};
    unsigned n = leat_args_ints(json, "size", 1, 2, 1, LEAT_MAX_SIDE, size);
    if (!n)
        leat_args_wrong(json, "size", "given");
    *height = size[0];
    *width = n == 2 ? size[1] : size[0];
}

/* ---- CenterCrop ---- */

struct center_args {
    int64_t height, width;
};

static void center_parse(void *into, struct leat_args *json)
{
    struct center_args *args = into;
    parse_size(json, &args->height, &args->width);
}

static int center_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                        struct leat_error *error)
{
    const struct center_args *args = from;
    int rc = leat_op_needs_image(place, type, error);
    if (rc)
        return rc;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    effect->pads = w < args->width || h < args->height; /* also where the size is open (-1) */
    leat_type_resize(type, args->height, args->width);
    return LEAT_OK;
}

/* Where a centred crop of `crop` begins; before 0: so much is padded. */
static int64_t center(int64_t side, int64_t crop)
{
    return side < crop ? -((crop - side) / 2) : leat_round_even((double)(side - crop) / 2.0);
}

static int center_draw(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move, struct leat_error *error)
{
    const struct center_args *args = from;
    move->x = center(w, args->width);
    move->y = center(h, args->height);
    move->w = args->width;
    move->h = args->height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    return LEAT_OK;
}

const struct leat_op_class leat_op_center_crop = {
    .type = "CenterCrop", .args_bytes = sizeof(struct center_args), .parse = center_parse, .infer = center_infer, .draw = center_draw};

/* ---- RandomCrop ---- */

struct random_args {
    int64_t height, width;
    int64_t left, top, right, bottom; /* padding */
    bool pad_if_needed;
    enum leat_padding padding;
    unsigned n_fill; /* 0: 0; 1: the same for all channels */
    double fill[LEAT_MAX_CHANNELS];
};

static void random_parse(void *into, struct leat_args *json)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", NULL}; /* as enum leat_padding */
    struct random_args *args = into;
    parse_size(json, &args->height, &args->width);
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

static int random_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                        struct leat_error *error)
{
    const struct random_args *args = from;
    int rc = leat_op_needs_image(place, type, error);
    if (rc)
        return rc;
    int64_t w = leat_type_width(type), h = leat_type_height(type), channels = leat_type_channels(type);
    bool small = (w >= 0 && w + args->left + args->right < args->width) || (h >= 0 && h + args->top + args->bottom < args->height);
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
static bool random_axis(uint64_t key, uint64_t counter, int64_t side, int64_t before, int64_t after, int64_t crop, bool pad, int64_t *begin)
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

static int random_draw(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move, struct leat_error *error)
{
    const struct random_args *args = from;
    if (!random_axis(key, 0, h, args->top, args->bottom, args->height, args->pad_if_needed, &move->y) ||
        !random_axis(key, 1, w, args->left, args->right, args->width, args->pad_if_needed, &move->x))
        return leat_fail(error, LEAT_E_DECODE,
                         "RandomCrop of %lld x %lld does not fit in a photo of %u x %u. Put Resize before it, or set pad_if_needed.",
                         (long long)args->width, (long long)args->height, w, h);
    move->w = args->width;
    move->h = args->height;
    move->out_w = (uint32_t)args->width;
    move->out_h = (uint32_t)args->height;
    return LEAT_OK;
}

const struct leat_op_class leat_op_random_crop = {.type = "RandomCrop",
                                                  .args_bytes = sizeof(struct random_args),
                                                  .random = true,
                                                  .parse = random_parse,
                                                  .infer = random_infer,
                                                  .draw = random_draw};

/* ---- RandomHorizontalFlip ---- */

struct flip_args {
    double p;
};

static void flip_parse(void *into, struct leat_args *json)
{
    struct flip_args *args = into;
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
}

static int flip_infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                      struct leat_error *error)
{
    effect->flips = true;
    return leat_op_needs_image(place, type, error);
}

static int flip_draw(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move, struct leat_error *error)
{
    const struct flip_args *args = from;
    move->flip = leat_draw_unit(key, 0) < args->p;
    return LEAT_OK;
}

const struct leat_op_class leat_op_random_horizontal_flip = {.type = "RandomHorizontalFlip",
                                                             .args_bytes = sizeof(struct flip_args),
                                                             .random = true,
                                                             .parse = flip_parse,
                                                             .infer = flip_infer,
                                                             .draw = flip_draw};
