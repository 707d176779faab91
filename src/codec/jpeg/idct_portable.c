/*
 * The inverse DCTs in portable C, a block at a time in vectors of 16 bytes, which gcc and clang compile for every
 * machine. Two operations are named for x86-64, whose baseline has them: compilers do not find them behind the general
 * form.
 */
#define LANES 1
#define IDCT leat_jpeg_idct_portable
#define TARGET
#define INLINE static inline __attribute__((always_inline))
#include "codec/jpeg/idct_internal.h"

typedef uint64_t quads __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

#if defined(__clang__)
#define SHUFFLE(type, index, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, index, a, b, ...) __builtin_shuffle(a, b, (index){__VA_ARGS__})
#endif
#define LOW16(a, b) SHUFFLE(words, words, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH16(a, b) SHUFFLE(words, words, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW32(a, b) ((words)SHUFFLE(longs, longs, (longs)(a), (longs)(b), 0, 4, 1, 5))
#define HIGH32(a, b) ((words)SHUFFLE(longs, longs, (longs)(a), (longs)(b), 2, 6, 3, 7))
#define LOW64(a, b) ((words)SHUFFLE(quads, quads, (quads)(a), (quads)(b), 0, 2))
#define HIGH64(a, b) ((words)SHUFFLE(quads, quads, (quads)(a), (quads)(b), 1, 3))

/* Sums lo * first + hi * second of each pair. */
INLINE longs times(words x, int lo, int hi)
{
#if defined(__SSE2__)
    typedef short shorts __attribute__((vector_size(16)));
    short l = (short)lo, h = (short)hi;
    return (longs)__builtin_ia32_pmaddwd128((shorts)x, (shorts){l, h, l, h, l, h, l, h});
#else
    return ((longs)((ulongs)x << 16) >> 16) * lo + ((longs)x >> 16) * hi;
#endif
}

/* 16 values clamped to bytes. */
INLINE words pack(words a, words b)
{
#if defined(__SSE2__)
    typedef short shorts __attribute__((vector_size(16)));
    return (words)__builtin_ia32_packuswb128((shorts)a, (shorts)b);
#else
    a &= a > 0, b &= b > 0;
    a |= a > 255, b |= b > 255;
    return (words)SHUFFLE(bytes, bytes, (bytes)a, (bytes)b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#endif
}

INLINE words upper(longs lo, longs hi)
{
    return (words)((ulongs)lo >> 16 | ((ulongs)hi & 0xffff0000));
}

INLINE bool any_of(words x, int16_t bits)
{
    const quads any = (quads)(x & bits);
    return any[0] | any[1];
}

INLINE void turn(words x[1]) {}

INLINE void low_pairs(const int16_t *k, const uint16_t quant[64], words p[2])
{
    uwords x[4], q[4];
    memcpy(x, k, sizeof x);
    memcpy(q, quant, sizeof q);
    p[0] = LOW16((words)(x[0] * q[0]), (words)(x[2] * q[2]));
    p[1] = LOW16((words)(x[1] * q[1]), (words)(x[3] * q[3]));
}

INLINE void columns_apart(words x, words y, words p[2])
{
    words c01 = LOW64(x, y), c23 = HIGH64(x, y);
    words rows01 = LOW16(c01, c23), rows23 = HIGH16(c01, c23); /* columns (0, 2) of two rows, (1, 3) of them */
    p[0] = LOW64(rows01, rows23), p[1] = HIGH64(rows01, rows23);
}

INLINE void put8(const words w[4], uint8_t *out, size_t stride)
{
    words a = pack(w[0], w[2]), b = pack(w[1], w[3]), left = LOW16(a, b), right = HIGH16(a, b); /* 0 to 3, 4 to 7 */
    quads rows[2] = {(quads)LOW32(left, right), (quads)HIGH32(left, right)};
    LEAT_UNROLL
    for (size_t r = 0; r < 4; r++) {
        uint64_t row = rows[r / 2][r % 2];
        memcpy(out + r * stride, &row, 8);
    }
}

INLINE void put4(words both, uint8_t *out, size_t stride)
{
    ulongs rows = (ulongs)LOW16(both, HIGH64(both, both));
    LEAT_UNROLL
    for (size_t r = 0; r < 4; r++) {
        uint32_t row = rows[r];
        memcpy(out + r * stride, &row, 4);
    }
}

INLINE void put2(longs left, longs right, uint8_t *out, size_t stride)
{
    for (size_t r = 0; r < 2; r++) {
        int32_t two[2] = {left[r], right[r]};
        for (size_t c = 0; c < 2; c++)
            out[r * stride + c] = (uint8_t)(two[c] < 0 ? 0 : two[c] > 255 ? 255 : two[c]);
    }
}

#define put_dc(k, quant, S, out, stride) false

#include "codec/jpeg/idct_kernels.h"
