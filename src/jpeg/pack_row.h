/* What packing a row of the decode-fast form has in common for all instruction sets; compiled into each. */
#ifndef LEAT_JPEG_PACK_ROW_H
#define LEAT_JPEG_PACK_ROW_H

#include "base/bytes.h"
#include "jpeg/fast_format.h"

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

/* Where coefficients 4i to 4i + 3 of natural order are in a mask, by which of them are not 0 (four bits). In pack_portable.c. */
extern const uint64_t leat_jpeg_in_mask[16][16];

#endif
