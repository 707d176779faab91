/* The resize across, and the flip: a thread for each pixel of the rows of the box. */
#include "device/kernels/photo_resize.cu.h"

KERNEL_FUNCTION void photo_across(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u32 n = photo->axis[0].n;
    for (u32 i = s.first; i < n * photo->h; i += s.step) {
        const u8 *row = s.scratch + photo->first_at + 4 * (u64)(i / n) * photo->w;
        const u32 pixel = resize_pixel(&photo->axis[0], s.scratch, i % n, row, 4);
        kernel_store(s.scratch + photo->second_at + 4 * (u64)i, 4, &pixel);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_across(struct leat_photo_args a)
{
    photo_across(a);
}
#endif
