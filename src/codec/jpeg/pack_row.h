/*
 * Packing a row of the decode-fast form, stream after stream. Values of a stream whose place is not known yet wait in a
 * buffer:
 *
 *     blocks -> heads, dc bits, (mask bytes), (values: coefficients other than 0)
 *     values -> planes, (magnitudes above 3)
 *     these  -> nibbles, (bytes), (u16)
 */
#ifndef LEAT_CODEC_JPEG_PACK_ROW_H
#define LEAT_CODEC_JPEG_PACK_ROW_H

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"

/* The three steps, in an instruction set. Each writes some bytes beyond its count. */
struct leat_jpeg_pack_steps {
    /* Heads and DC bits to `head`, *end behind them; masks, values and how many of each. False: a DC difference needs
     * 16 bits. */
    bool (*blocks)(const int16_t *block, uint32_t blocks, uint8_t *head, uint8_t **end, uint8_t *mask,
                   size_t *mask_bytes, int16_t *values, uint32_t *n_values);
    /* The three planes of n values, behind which it may write, to `out`; the magnitudes above 3. Returns the end. */
    uint8_t *(*planes)(int16_t *values, uint32_t n, uint8_t *out, uint16_t *escapes, uint32_t *n_escapes);
    /* Nibbles to `out`; values that they do not hold to `bytes` and `wides`, *byte and *wide behind them. */
    void (*escapes)(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t **byte, uint8_t *wides,
                    uint8_t **wide);
};
extern const struct leat_jpeg_pack_steps leat_jpeg_pack_portable, leat_jpeg_pack_avx2, leat_jpeg_pack_avx512;

/* The stream of DC differences. */
struct leat_dc_writer {
    uint8_t *at; /* 8 bytes from here may be written */
    uint64_t pending;
    unsigned held; /* bits of it, fewer than 8 */
    uint16_t before;
    bool fits; /* no difference has taken 16 bits */
};

/* Returns how many bits the difference takes. */
LEAT_INLINE unsigned leat_put_dc(struct leat_dc_writer *w, int16_t dc)
{
    const int difference = (int16_t)(uint16_t)((uint16_t)dc - w->before);
    const uint32_t size = (uint32_t)(difference < 0 ? -difference : difference);
    const unsigned bits = size ? 32 - (unsigned)__builtin_clz(size) : 0;
    w->before = (uint16_t)dc;
    w->fits &= difference != INT16_MIN;
    w->pending |= ((uint64_t)(difference + (difference >> 31)) & ((UINT64_C(1) << bits) - 1)) << w->held;
    w->held += bits;
    leat_put_u64(w->at, w->pending);
    w->at += w->held / 8;
    w->pending >>= w->held & ~7u;
    w->held &= 7;
    return bits;
}

/* Bytes of a mask. */
LEAT_INLINE unsigned leat_mask_bytes(uint64_t ones)
{
    return ones ? 8 - (unsigned)__builtin_clzll(ones) / 8 : 0;
}

/* ---- the first two steps, in C and with AVX2; AVX-512 compresses their input one by one ---- */

/* The places in a mask of coefficients 4i to 4i + 3 of natural order, by which of them are not 0 (four bits). In
 * pack_portable.c. */
extern const uint64_t leat_jpeg_in_mask[16][16];

/* With mask_of: bit k - 1 is set if coefficient k in zigzag order is not 0. */
LEAT_INLINE bool leat_write_blocks(uint64_t (*mask_of)(const int16_t *block), const int16_t *block, uint32_t blocks,
                                   uint8_t *head, uint8_t **end, uint8_t *mask, size_t *mask_bytes, int16_t *values,
                                   uint32_t *n_values)
{
    struct leat_dc_writer dc = {.at = head + blocks, .fits = true};
    const uint8_t *const mask_begin = mask;
    int16_t *value = values;
    for (uint32_t x = 0; x < blocks; x++, block += 64) {
        const uint64_t ones = mask_of(block);
        for (uint64_t rest = ones; rest; rest &= rest - 1)
            *value++ = block[leat_jpeg_natural[__builtin_ctzll(rest) + 1]];
        const unsigned bytes = leat_mask_bytes(ones);
        leat_put_u64(mask, ones);
        mask += bytes;
        head[x] = (uint8_t)(leat_put_dc(&dc, block[0]) << 4 | bytes);
    }
    *end = dc.at + (dc.held ? 1 : 0);
    *mask_bytes = (size_t)(mask - mask_begin);
    *n_values = (uint32_t)(value - values);
    return dc.fits;
}

/* With planes_of: the bits of the three planes, sign, A and B, of 64 values. */
LEAT_INLINE uint8_t *leat_write_planes(void (*planes_of)(const int16_t *values, uint64_t planes[3]), int16_t *values,
                                       uint32_t n, uint8_t *out, uint16_t *escapes, uint32_t *n_escapes)
{
    const size_t plane = (n + 7) / 8;
    uint16_t *escape = escapes;
    for (unsigned i = 0; i < 64; i++) /* the excess of the last group: bits that are 0 */
        values[n + i] = 1;
    for (uint32_t g = 0; g < n; g += 64) {
        uint64_t planes[3];
        planes_of(values + g, planes);
        for (uint64_t large = planes[1] & planes[2]; large; large &= large - 1) {
            const int v = values[g + (unsigned)__builtin_ctzll(large)];
            *escape++ = (uint16_t)(v < 0 ? -v : v);
        }
        const size_t bytes = n - g < 64 ? plane - g / 8 : 8;
        for (unsigned i = 0; i < 3; i++)
            memcpy(out + i * plane + g / 8, &planes[i], bytes);
    }
    *n_escapes = (uint32_t)(escape - escapes);
    return out + 3 * plane;
}

/* The functions of an instruction set for these steps. */
#define LEAT_JPEG_PACK_STEPS(TARGET)                                                                                   \
    TARGET static bool write_blocks(const int16_t *block, uint32_t blocks, uint8_t *head, uint8_t **end,               \
                                    uint8_t *mask, size_t *mask_bytes, int16_t *values, uint32_t *n_values)            \
    {                                                                                                                  \
        return leat_write_blocks(mask_of, block, blocks, head, end, mask, mask_bytes, values, n_values);               \
    }                                                                                                                  \
    TARGET static uint8_t *write_planes(int16_t *values, uint32_t n, uint8_t *out, uint16_t *escapes,                  \
                                        uint32_t *n_escapes)                                                           \
    {                                                                                                                  \
        return leat_write_planes(planes_of, values, n, out, escapes, n_escapes);                                       \
    }

#endif
