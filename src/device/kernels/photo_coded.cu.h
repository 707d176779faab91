/* Huffman codes of a JPEG's table (struct leat_card_codes). */
#ifndef LEAT_DEVICE_KERNELS_PHOTO_CODED_CU_H
#define LEAT_DEVICE_KERNELS_PHOTO_CODED_CU_H

#include "device/kernels/photo.cu.h"

/* Of the code that `bits` begin with, from the highest on: its length, at most `longest`, and 32 times its value; 0:
 * there is none. Codes of a length are neighbours, and those of the next begin behind them. A table may be any bytes.
 */
KERNEL_FUNCTION u32 coded_find(const u8 *table, u32 bits, u32 longest)
{
    u32 first = 0, n = 0;
    for (u32 length = 1; length <= longest; length++) {
        const u32 count = photo_byte(table + length - 1), at = (bits >> (32 - length)) - first;
        if (at < count)
            return length | photo_byte(table + 16 + ((n + at) & 255)) << 5;
        n += count;
        first = (first + count) << 1;
    }
    return 0;
}

#endif
