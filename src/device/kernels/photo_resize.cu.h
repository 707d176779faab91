/* One direction of a resize: the weighted sum of a run of pixels. For photo_across.cu.h and photo_down.cu.h. */
#ifndef LEAT_DEVICE_KERNELS_PHOTO_RESIZE_CU_H
#define LEAT_DEVICE_KERNELS_PHOTO_RESIZE_CU_H

#include "device/kernels/photo.cu.h"
#include "kernels/weights.h"

KERNEL_FUNCTION u32 resize_clip(int sum)
{
    const int v = sum >> LEAT_WEIGHT_BITS; /* weights may be below 0, and add up to slightly more than 1 */
    return (u32)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Pixel i of the result in this direction; pixel 0 of the box lies at `pixels`, the next `step` bytes behind it. */
KERNEL_FUNCTION u32 resize_pixel(const struct leat_card_axis *axis, const u8 *scratch, u32 i, const u8 *pixels,
                                 u64 step)
{
    const u8 *at = scratch + axis->weights_at;
    const u32 first = photo_word(at + 4 * (u64)i), n = photo_word(at + 4 * ((u64)axis->n + i));
    const u8 *weights = at + 4 * ((u64)axis->n * 2 + (u64)i * axis->taps);
    int r = 1 << (LEAT_WEIGHT_BITS - 1), g = r, b = r;
    pixels += first * step;
    for (u32 k = 0; k < n; k++) {
        const int weight = (int)photo_word(weights + 4 * (u64)k);
        const u32 pixel = photo_word(pixels + k * step);
        r += (int)(pixel & 255) * weight;
        g += (int)(pixel >> 8 & 255) * weight;
        b += (int)(pixel >> 16 & 255) * weight;
    }
    return resize_clip(r) | resize_clip(g) << 8 | resize_clip(b) << 16 | 0xff000000;
}

#endif
