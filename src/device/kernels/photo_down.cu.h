/* The resize down, and the flip, to the result: a thread for each pixel. Pixels that the processor has made are
 * copied. */
#include "device/kernels/photo_resize.cu.h"

KERNEL_FUNCTION void photo_down(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u32 n = photo->axis[0].n, first = blockIdx.x % a.together * blockDim.x + threadIdx.x;
    const u32 items = photo->form == LEAT_CARD_NONE ? 0 : n * photo->axis[1].n;
    for (u32 i = first; i < items; i += s.step) {
        const u8 *column = s.scratch + photo->second_at + 4 * (u64)(i % n);
        u32 pixel = 0;
        if (photo->form >= LEAT_CARD_FAST)
            pixel = resize_pixel(&photo->axis[1], s.scratch, i / n, column, 4 * (u64)n);
        KERNEL_UNROLL
        for (u32 c = 0; c < 3; c++) {
            u32 value = pixel >> 8 * c & 255;
            if (photo->form < LEAT_CARD_FAST)
                kernel_load(s.data + 3 * (u64)i + c, 1, &value);
            kernel_store(a.out + photo->out + 3 * (u64)i + c, 1, &value);
        }
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_down(struct leat_photo_args a)
{
    photo_down(a);
}
#endif
