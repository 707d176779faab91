/* TenCrop: five crops of an image, and those of its mirror image. */
#include "op/five_crop.h"

static void parse(void *into, struct leat_args *json)
{
    struct leat_five_crop_args *args = into;
    leat_args_size(json, &args->height, &args->width);
    leat_args_bool(json, "vertical_flip", false, &args->vertical_flip);
}

static int view(const void *from, unsigned v, uint32_t w, uint32_t h, struct leat_view_box *box,
                struct leat_error *error)
{
    const struct leat_five_crop_args *args = from;
    int rc = leat_five_crop_view(from, v % 5, w, h, box, error);
    if (rc || v < 5)
        return rc;
    box->flip = !args->vertical_flip;
    box->flip_y = args->vertical_flip;
    if (box->flip)
        box->x = w - (uint32_t)args->width - box->x;
    else
        box->y = h - (uint32_t)args->height - box->y;
    return rc;
}

const struct leat_op_class leat_op_ten_crop = {.type = "TenCrop",
                                               .input = LEAT_INPUT_IMAGE,
                                               .args_bytes = sizeof(struct leat_five_crop_args),
                                               .images_only = true,
                                               .views = 10,
                                               .parse = parse,
                                               .infer = leat_five_crop_infer,
                                               .view = view};
