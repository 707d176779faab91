/*
 * Bytes of pixels as other values, by a table for each channel: normalised, as float32, float16 or bfloat16, in planes
 * (NCHW) or with the channels side by side (NHWC). The tables have the values that the processor gives (loading/cut),
 * so that no arithmetic can differ from it.
 *
 * A thread takes a few pixels side by side of one image: it reads and writes whole words.
 */
#include "device/kernels/convert_pixels.h"
#include "device/kernels/kernel.h"

enum { CONVERT_TOGETHER = 4, CONVERT_CHANNELS = 4 }; /* pixels of a thread, channels, at most */

KERNEL_FUNCTION u32 convert_byte(const u32 *words, u32 i)
{
    return words[i / 4] >> 8 * (i % 4) & 0xff;
}

/* `channels`: 1 to 4. `bytes`: 2 or 4, of a value that is made. `planes`: NCHW. `together`: 1, or 4 pixels, if there is
 * a multiple of 4 in an image; `in` and `out` are then at a multiple of 4 and 16. */
KERNEL_FUNCTION void convert_pixels(struct leat_convert_args a, u32 channels, u32 bytes, u32 planes, u32 together)
{
    const u64 threads = (u64)gridDim.x * blockDim.x, all = a.n * a.pixels / together;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += threads) {
        const u64 first = i * together, image = first / a.pixels;
        u32 words[CONVERT_CHANNELS], made[CONVERT_CHANNELS * CONVERT_TOGETHER];
        KERNEL_UNROLL
        for (u32 w = 0; w < channels; w++) {
            if (together == CONVERT_TOGETHER)
                kernel_load(a.in + first * channels + 4 * w, 4, &words[w]);
            else
                kernel_load(a.in + first * channels + w, 1, &words[w]);
        }
        KERNEL_UNROLL
        for (u32 p = 0; p < together; p++) {
            KERNEL_UNROLL
            for (u32 c = 0; c < channels; c++) {
                const u32 value = together == 1 ? words[c] : convert_byte(words, p * channels + c);
                u32 found[4];
                kernel_load(a.table + (u64)(c * 256 + value) * bytes, bytes, found);
                made[planes ? c * together + p : p * channels + c] = found[0];
            }
        }
        /* Values that lie side by side: of a plane, or all; two of 16 bits are one word. */
        const u32 runs = planes ? channels : 1, run = planes ? together : together * channels;
        KERNEL_UNROLL
        for (u32 r = 0; r < runs; r++) {
            u8 *out =
                a.out +
                (planes ? image * a.pixels * channels + r * a.pixels + first % a.pixels : first * channels) * bytes;
            if (together == 1) {
                KERNEL_UNROLL
                for (u32 k = 0; k < run; k++)
                    kernel_store(out + k * bytes, bytes, &made[r * run + k]);
                continue;
            }
            KERNEL_UNROLL
            for (u32 k = 0; k < run; k += 4) {
                u32 *v = &made[r * run + k];
                u32 pair[2] = {v[0] | v[1] << 16, v[2] | v[3] << 16};
                if (bytes == 4)
                    kernel_store(out + k * 4, 16, v);
                else
                    kernel_store(out + k * 2, 8, pair);
            }
        }
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_convert_pixels(struct leat_convert_args a)
{
    convert_pixels(a, LEAT_CHANNELS, LEAT_BYTES, LEAT_PLANES, LEAT_TOGETHER);
}
#endif
