/*
 * Packing a row of the decode-fast form, stream after stream. What belongs to a stream whose place is not known yet
 * waits in a buffer:
 *
 *     blocks -> heads, dc bits, (mask bytes), (values: coefficients other than 0)
 *     values -> planes, (magnitudes above 3)
 *     these  -> nibbles, (bytes), (u16)
 */
#ifndef LEAT_CODEC_JPEG_PACK_ROW_H
#define LEAT_CODEC_JPEG_PACK_ROW_H

#include "base/bytes.h"
#include "codec/jpeg/fast_format.h"

/* The three steps, in an instruction set. Each writes some bytes beyond what it says. */
struct leat_jpeg_pack_steps {
    /* Heads and DC bits to `head`, *end behind them; masks, values and how many of each. False: a DC difference needs
     * 16 bits. */
    bool (*blocks)(const int16_t *block, uint32_t blocks, uint8_t *head, uint8_t **end, uint8_t *mask,
                   size_t *mask_bytes, int16_t *values, uint32_t *n_values);
    /* The three planes of n values, behind which it may write, to `out`; the magnitudes above 3. Returns the end. */
    uint8_t *(*planes)(int16_t *values, uint32_t n, uint8_t *out, uint16_t *escapes, uint32_t *n_escapes);
    /* Nibbles to `out`; what those do not hold to `bytes` and `wides`, *byte and *wide behind them. */
    void (*escapes)(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t **byte, uint8_t *wides,
                    uint8_t **wide);
};
extern const struct leat_jpeg_pack_steps leat_jpeg_pack_portable, leat_jpeg_pack_avx2, leat_jpeg_pack_avx512;

/* What the steps have in common, compiled into each. */
#define LEAT_IN_PACK static inline __attribute__((always_inline))

/* The stream of DC differences. */
struct leat_dc_writer {
    uint8_t *at; /* 8 bytes from here may be written */
    uint64_t pending;
    unsigned held; /* bits of it, fewer than 8 */
    uint16_t before;
    bool fits; /* no difference has taken 16 bits */
};

/* Returns how many bits the difference takes. */
LEAT_IN_PACK unsigned leat_put_dc(struct leat_dc_writer *w, int16_t dc)
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
LEAT_IN_PACK unsigned leat_mask_bytes(uint64_t ones)
{
    return ones ? 8 - (unsigned)__builtin_clzll(ones) / 8 : 0;
}

/* Where coefficients 4i to 4i + 3 of natural order are in a mask, by which of them are not 0 (four bits). In
 * pack_portable.c. */
extern const uint64_t leat_jpeg_in_mask[16][16];

#endif
