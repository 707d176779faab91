/* What kernels of photos have in common: their share of the work, and streams of bits. */
#ifndef LEAT_DEVICE_KERNELS_PHOTO_CU_H
#define LEAT_DEVICE_KERNELS_PHOTO_CU_H

#include "device/kernels/kernel.h"
#include "device/kernels/photo.h"

/* Bits of a mask of coefficients, in zigzag order from the second on, that are of rows 1 to 7. */
#define PHOTO_BELOW 0x7ffffffff3ff9fce

/* The work of a thread: items first, first + step ... of a photo whose pixels the card makes; others have none. */
struct photo_share {
    const struct leat_card_photo *photo;
    u32 number, first, step;
    const u8 *data;
    u8 *scratch;
};
KERNEL_FUNCTION struct photo_share photo_share_of(const struct leat_photo_args *a)
{
    struct photo_share s;
    s.number = blockIdx.x / a->together;
    s.photo = a->photos + s.number;
    s.first = s.photo->form >= LEAT_CARD_FAST ? blockIdx.x % a->together * blockDim.x + threadIdx.x : 0xffffffff;
    s.step = a->together * blockDim.x;
    s.data = a->data + s.photo->data;
    s.scratch = a->scratch + s.photo->scratch;
    return s;
}

/* The plane of block `at` of all of a photo; `at` is then counted in the plane. */
KERNEL_FUNCTION const struct leat_card_plane *photo_plane(const struct leat_card_photo *photo, u32 *at)
{
    u32 c = photo->n_planes - 1;
    while (c && *at < photo->plane[c].first)
        c--;
    *at -= photo->plane[c].first;
    return &photo->plane[c];
}

KERNEL_FUNCTION u32 photo_byte(const u8 *p)
{
    u32 byte;
    kernel_load(p, 1, &byte);
    return byte;
}

KERNEL_FUNCTION u32 photo_word(const u8 *p)
{
    u32 word;
    kernel_load(p, 4, &word);
    return word;
}

KERNEL_FUNCTION u64 photo_low(u32 n) /* n ones, up to 64 */
{
    return n < 64 ? ((u64)1 << n) - 1 : ~(u64)0;
}

/* 64 bits from bit `at` of p on, the lowest first. The words are read that they lie in: up to 12 bytes from byte at / 8
 * on. */
KERNEL_FUNCTION u64 photo_bits(const u8 *p, u32 at)
{
    p += at / 8;
    const u32 odd = (u32)((u64)p & 3), shift = 8 * odd + at % 8;
    p -= odd;
    const u64 low = photo_word(p) | (u64)photo_word(p + 4) << 32;
    return shift ? low >> shift | (u64)photo_word(p + 8) << (64 - shift) : low;
}

/* Ones that two streams have in common in n bits from bit `at` on. */
KERNEL_FUNCTION u32 photo_both(const u8 *a, const u8 *b, u32 at, u32 n)
{
    u32 count = 0;
    for (u32 i = 0; i < n; i += 64)
        count += kernel_ones(photo_bits(a, at + i) & photo_bits(b, at + i) & photo_low(n - i));
    return count;
}

/* Nibbles of 15 among n from nibble `at` on. */
KERNEL_FUNCTION u32 photo_fifteens(const u8 *p, u32 at, u32 n)
{
    u32 count = 0;
    for (u32 i = 0; i < n; i += 16) {
        u64 x = photo_bits(p, 4 * (at + i));
        x &= x >> 1;
        x &= x >> 2;
        count += kernel_ones(x & 0x1111111111111111 & photo_low(4 * (n - i < 16 ? n - i : 16)));
    }
    return count;
}

/* Bytes of 255 among n from byte `at` on. */
KERNEL_FUNCTION u32 photo_255s(const u8 *p, u32 at, u32 n)
{
    u32 count = 0;
    for (u32 i = 0; i < n; i += 8) {
        u64 x = photo_bits(p, 8 * (at + i));
        x &= x >> 1;
        x &= x >> 2;
        x &= x >> 4;
        count += kernel_ones(x & 0x0101010101010101 & photo_low(8 * (n - i < 8 ? n - i : 8)));
    }
    return count;
}

#endif
