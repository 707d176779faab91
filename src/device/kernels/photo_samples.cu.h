/* The second pass of the inverse DCT: a thread for each row of eight samples. Rows of a plane are whole in memory,
 * before and behind. */
#include "codec/jpeg/idct_pass.h"
#include "device/kernels/photo.cu.h"

KERNEL_FUNCTION void photo_samples(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    for (u32 i = s.first; i < 8 * s.photo->blocks; i += s.step) {
        u32 parts[4];
        short in[8], out[8];
        kernel_load(s.scratch + s.photo->first_at + 16 * (u64)i, 16, parts);
        KERNEL_UNROLL
        for (u32 k = 0; k < 8; k++)
            in[k] = leat_jpeg_wrap((int)(parts[k / 2] >> 16 * (k % 2)));
        leat_jpeg_pass8(in, out, DOWN2_8);
        parts[0] = parts[1] = 0;
        KERNEL_UNROLL
        for (u32 k = 0; k < 8; k++)
            parts[k / 4] |= (u32)leat_jpeg_sample(out[k]) << 8 * (k % 4);
        kernel_store(s.scratch + s.photo->second_at + 8 * (u64)i, 8, parts);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_samples(struct leat_photo_args a)
{
    photo_samples(a);
}
#endif
