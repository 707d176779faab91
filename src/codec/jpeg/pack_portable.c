/* The steps of packing a row of the decode-fast form (pack_row.h) in plain C. */
#include "codec/jpeg/pack_row.h"

/* The places in a mask of four coefficients that stand side by side, by which of them are not 0; the arguments are
 * their places in zigzag order. */
#define AT(k, which, bit) ((k) > 0 && (which) >> (bit)&1 ? UINT64_C(1) << ((k) > 0 ? (k)-1 : 0) : 0)
#define OF(a, b, c, d, which) AT(a, which, 0) | AT(b, which, 1) | AT(c, which, 2) | AT(d, which, 3)
#define OF4(a, b, c, d, which)                                                                                         \
    OF(a, b, c, d, which), OF(a, b, c, d, (which) + 1), OF(a, b, c, d, (which) + 2), OF(a, b, c, d, (which) + 3)
#define FOUR(a, b, c, d)                                                                                               \
    {                                                                                                                  \
        OF4(a, b, c, d, 0), OF4(a, b, c, d, 4), OF4(a, b, c, d, 8), OF4(a, b, c, d, 12)                                \
    }
const uint64_t leat_jpeg_in_mask[16][16] = {
    FOUR(0, 1, 5, 6),     FOUR(14, 15, 27, 28), FOUR(2, 4, 7, 13),    FOUR(16, 26, 29, 42),
    FOUR(3, 8, 12, 17),   FOUR(25, 30, 41, 43), FOUR(9, 11, 18, 24),  FOUR(31, 40, 44, 53),
    FOUR(10, 19, 23, 32), FOUR(39, 45, 52, 54), FOUR(20, 22, 33, 38), FOUR(46, 51, 55, 60),
    FOUR(21, 34, 37, 47), FOUR(50, 56, 59, 61), FOUR(35, 36, 48, 49), FOUR(57, 58, 62, 63),
};

static inline uint64_t mask_of(const int16_t *block)
{
    const uint64_t high = UINT64_C(0x8000800080008000);
    uint64_t ones = 0;
    for (unsigned i = 0; i < 16; i++) {
        const uint64_t four = leat_get_u64(block + 4 * i), not_0 = (((four & ~high) + ~high) | four) & high;
        ones |= leat_jpeg_in_mask[i][not_0 * UINT64_C(0x0000200040008001) >>
                                     60]; /* bits 15, 31, 47, 63 to 60, 61, 62, 63 */
    }
    return ones;
}

typedef uint16_t lanes __attribute__((vector_size(16)));

/* The bits of eight lanes, which are all ones or all zeros, side by side. */
static inline uint64_t gather(lanes v)
{
    uint64_t half[2];
    memcpy(half, &v, 16);
    /* bits 0, 17, 34, 51 to 48, 49, 50, 51; those above are 0 */
    const uint64_t low = half[0] & UINT64_C(0x0008000400020001), high = half[1] & UINT64_C(0x0008000400020001);
    return (low * UINT64_C(0x0001000100010001) >> 48) | (high * UINT64_C(0x0001000100010001) >> 48 << 4);
}

static inline void planes_of(const int16_t *values, uint64_t planes[3])
{
    uint64_t sign = 0, a = 0, b = 0;
    for (unsigned i = 0; i < 64; i += 8) {
        lanes v;
        memcpy(&v, values + i, 16);
        const lanes negative = (lanes)((v >> 15) * 0xffff), magnitude = (v ^ negative) - negative, less = magnitude - 1;
        const lanes above_2 = (lanes)(less > 1), above_3 = (lanes)(less > 2);
        sign |= gather(negative) << i;
        a |= gather((lanes)(less == 1) | above_3) << i;
        b |= gather(above_2) << i;
    }
    planes[0] = sign, planes[1] = a, planes[2] = b;
}

LEAT_JPEG_PACK_STEPS()

static void write_escapes(uint16_t *escapes, uint32_t n, uint8_t *out, uint8_t *bytes, uint8_t **byte_end,
                          uint8_t *wides, uint8_t **wide_end)
{
    uint8_t *byte = bytes, *wide = wides;
    escapes[n] = LEAT_FAST_NIBBLE_BASE; /* the half of a byte that an odd number leaves is 0 */
    for (uint32_t i = 0; i < n; i += 2) {
        unsigned nibble[2];
        for (unsigned j = 0; j < 2; j++) {
            const unsigned v = escapes[i + j];
            nibble[j] = v - LEAT_FAST_NIBBLE_BASE;
            if (nibble[j] >= LEAT_FAST_NIBBLE_ESCAPE) {
                nibble[j] = LEAT_FAST_NIBBLE_ESCAPE;
                *byte++ = (uint8_t)(v < LEAT_FAST_BYTE_ESCAPE ? v : LEAT_FAST_BYTE_ESCAPE);
                leat_put_u16(wide, (uint16_t)v);
                wide += v < LEAT_FAST_BYTE_ESCAPE ? 0 : 2;
            }
        }
        *out++ = (uint8_t)(nibble[0] | nibble[1] << 4);
    }
    *byte_end = byte;
    *wide_end = wide;
}

const struct leat_jpeg_pack_steps leat_jpeg_pack_portable = {write_blocks, write_planes, write_escapes};
