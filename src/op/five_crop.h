/* The four corners of an image and its middle, which FiveCrop and TenCrop take. */
#ifndef LEAT_OP_FIVE_CROP_H
#define LEAT_OP_FIVE_CROP_H

#include "op/operator.h"

struct leat_five_crop_args {
    int64_t height, width;
    bool vertical_flip; /* of TenCrop */
};

int leat_five_crop_infer(const void *args, const struct leat_place *place, struct leat_type *type,
                         struct leat_effect *effect, struct leat_error *error);
/* Crop v of 5. DECODE: the image is smaller. */
int leat_five_crop_view(const void *args, unsigned v, uint32_t w, uint32_t h, struct leat_view_box *box,
                        struct leat_error *error);

#endif
