/* FiveCrop: the four corners and the middle of an image, as five images. TenCrop: these, and those of its mirror image.
 */
#include "base/elementary.h"
#include "base/error.h"
#include "op/operator.h"

struct crops_args {
    int64_t height, width;
    bool vertical_flip; /* of TenCrop */
};

static void parse_five(void *into, struct leat_args *json)
{
    struct crops_args *args = into;
    leat_args_size(json, &args->height, &args->width);
}

static void parse_ten(void *into, struct leat_args *json)
{
    parse_five(into, json);
    leat_args_bool(json, "vertical_flip", false, &((struct crops_args *)into)->vertical_flip);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct crops_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    if ((w >= 0 && w < args->width) || (h >= 0 && h < args->height))
        return leat_op_misfit(place, type, "an image that is at least as large as its crops", error);
    leat_type_resize(type, args->height, args->width);
    return LEAT_OK;
}

/* Those from the fifth on are of the mirror image. */
static int view(const void *from, unsigned v, uint32_t w, uint32_t h, struct leat_view_box *box,
                struct leat_error *error)
{
    const struct crops_args *args = from;
    if (w < args->width || h < args->height)
        return leat_fail(error, LEAT_E_DECODE, "a photo of %u x %u is smaller than its crops of %lld x %lld", w, h,
                         (long long)args->width, (long long)args->height);
    const int64_t right = w - args->width, low = h - args->height;
    const unsigned k = v % 5;
    box->x = (uint32_t)(k == 4 ? leat_round_even((double)right / 2.0) : k & 1 ? right : 0);
    box->y = (uint32_t)(k == 4 ? leat_round_even((double)low / 2.0) : k & 2 ? low : 0);
    if (v < 5)
        return LEAT_OK;
    box->flip = !args->vertical_flip;
    box->flip_y = args->vertical_flip;
    if (box->flip)
        box->x = (uint32_t)right - box->x;
    else
        box->y = (uint32_t)low - box->y;
    return LEAT_OK;
}

#define CROPS(name, title, n, parser)                                                                                  \
    const struct leat_op_class leat_op_##name = {.type = title,                                                        \
                                                 .input = LEAT_INPUT_IMAGE,                                            \
                                                 .args_bytes = sizeof(struct crops_args),                              \
                                                 .images_only = true,                                                  \
                                                 .views = n,                                                           \
                                                 .parse = parser,                                                      \
                                                 .infer = infer,                                                       \
                                                 .view = view};
CROPS(five_crop, "FiveCrop", 5, parse_five)
CROPS(ten_crop, "TenCrop", 10, parse_ten)
