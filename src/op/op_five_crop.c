/* FiveCrop: the four corners and the middle of an image, as five images. */
#include "base/elementary.h"
#include "base/error.h"
#include "op/five_crop.h"

static void parse(void *into, struct leat_args *json)
{
    struct leat_five_crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
}

int leat_five_crop_infer(const void *from, const struct leat_place *place, struct leat_type *type,
                         struct leat_effect *effect, struct leat_error *error)
{
    const struct leat_five_crop_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    if ((w >= 0 && w < args->width) || (h >= 0 && h < args->height))
        return leat_op_misfit(place, type, "an image that is at least as large as its crops", error);
    leat_type_resize(type, args->height, args->width);
    return LEAT_OK;
}

int leat_five_crop_view(const void *from, unsigned v, uint32_t w, uint32_t h, struct leat_view_box *box,
                        struct leat_error *error)
{
    const struct leat_five_crop_args *args = from;
    if (w < args->width || h < args->height)
        return leat_fail(error, LEAT_E_DECODE, "a photo of %u x %u is smaller than its crops of %lld x %lld", w, h,
                         (long long)args->width, (long long)args->height);
    const int64_t right = w - args->width, low = h - args->height;
    box->x = (uint32_t)(v == 4 ? leat_round_even((double)right / 2.0) : v & 1 ? right : 0);
    box->y = (uint32_t)(v == 4 ? leat_round_even((double)low / 2.0) : v & 2 ? low : 0);
    return LEAT_OK;
}

const struct leat_op_class leat_op_five_crop = {.type = "FiveCrop",
                                                .input = LEAT_INPUT_IMAGE,
                                                .args_bytes = sizeof(struct leat_five_crop_args),
                                                .images_only = true,
                                                .views = 5,
                                                .parse = parse,
                                                .infer = leat_five_crop_infer,
                                                .view = leat_five_crop_view};
