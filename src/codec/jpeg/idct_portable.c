/*
 * The inverse DCTs in portable C, a block at a time in vectors of 16 bytes, which gcc and clang compile for every
 * machine: the arithmetic of idct_avx512.c, with the same bounds within which it is exact, and plain C beyond them.
 *
 * Two operations are named for x86-64, whose baseline has them: compilers do not find them behind the general form.
 */
#include "codec/jpeg/idct_internal.h"

#include <stdbool.h>
#include <string.h>

typedef int16_t words __attribute__((vector_size(16)));
typedef uint16_t uwords __attribute__((vector_size(16)));
typedef int32_t longs __attribute__((vector_size(16)));
typedef uint32_t ulongs __attribute__((vector_size(16)));
typedef uint64_t quads __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))
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

/* Of each pair lo * first + hi * second. */
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
INLINE bytes pack(words a, words b)
{
#if defined(__SSE2__)
    typedef short shorts __attribute__((vector_size(16)));
    return (bytes)__builtin_ia32_packuswb128((shorts)a, (shorts)b);
#else
    a &= a > 0, b &= b > 0;
    a |= a > 255, b |= b > 255;
    return SHUFFLE(bytes, bytes, (bytes)a, (bytes)b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#endif
}

INLINE words load(const void *p)
{
    words x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE void butterfly(const longs e[4], const longs o[4], longs out[8])
{
    UNROLL
    for (int i = 0; i < 4; i++)
        out[i] = e[i] + o[i], out[7 - i] = e[i] - o[i];
}

/* One dimension of 4 columns whose rows come as p[i] = (i, i + 4). */
INLINE void pass(const words p[4], int round, longs out[8])
{
    longs sum = times(p[0], EVEN_0, EVEN_0) + round, difference = times(p[0], EVEN_0, -EVEN_0) + round;
    longs outer = times(p[2], EVEN_0_2, EVEN_0_6), inner = times(p[2], EVEN_1_2, EVEN_1_6);
    longs e[4] = {sum + outer, difference + inner, difference - inner, sum - outer};
    longs o[4] = {
        times(p[1], ODD_0_1, ODD_0_5) + times(p[3], ODD_0_3, ODD_0_7),
        times(p[1], ODD_1_1, ODD_1_5) + times(p[3], ODD_1_3, ODD_1_7),
        times(p[1], ODD_2_1, ODD_2_5) + times(p[3], ODD_2_3, ODD_2_7),
        times(p[1], ODD_3_1, ODD_3_5) + times(p[3], ODD_3_3, ODD_3_7),
    };
    butterfly(e, o, out);
}

/* The same where rows 4 to 7 are zero: p02 = (0, 2), p13 = (1, 3). */
INLINE void pass_low(words p02, words p13, int round, longs out[8])
{
    longs e[4] = {times(p02, EVEN_0, EVEN_0_2) + round, times(p02, EVEN_0, EVEN_1_2) + round,
                  times(p02, EVEN_0, -EVEN_1_2) + round, times(p02, EVEN_0, -EVEN_0_2) + round};
    longs o[4] = {times(p13, ODD_0_1, ODD_0_3), times(p13, ODD_1_1, ODD_1_3), times(p13, ODD_2_1, ODD_2_3),
                  times(p13, ODD_3_1, ODD_3_3)};
    butterfly(e, o, out);
}

/* The upper halves: of lo in the lower half. */
INLINE words upper(longs lo, longs hi)
{
    return (words)((ulongs)lo >> 16 | ((ulongs)hi & 0xffff0000));
}

/* Whether one of x[0] to x[n - 1] is outside [-most, most). */
INLINE bool beyond(const words *x, int n, int most)
{
    uwords any = {0};
    UNROLL
    for (int i = 0; i < n; i++)
        any |= (uwords)x[i] + (uint16_t)most;
    quads bits = (quads)(any & (uint16_t) ~(2 * most - 1));
    return bits[0] | bits[1];
}

/* Four rows out of o[c], which has a row in each 32 bits. */
INLINE void store(const longs o[8], uint8_t *out, size_t stride)
{
    words w[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        w[i] = upper(o[2 * i], o[2 * i + 1]) >> LEFT;
    words a = (words)pack(w[0], w[2]), b = (words)pack(w[1], w[3]); /* 0 1 of 4 rows, 4 5; 2 3, 6 7 */
    words left = LOW16(a, b), right = HIGH16(a, b);                 /* 0 to 3 of 4 rows; 4 to 7 */
    quads rows[2] = {(quads)LOW32(left, right), (quads)HIGH32(left, right)};
    UNROLL
    for (size_t r = 0; r < 4; r++) {
        uint64_t row = rows[r / 2][r % 2];
        memcpy(out + r * stride, &row, 8);
    }
}

/* x[i], 32-bit element j becomes p[j], element i. */
INLINE void transpose(const words x[4], words p[4])
{
    words a = LOW32(x[0], x[1]), b = LOW32(x[2], x[3]), c = HIGH32(x[0], x[1]), d = HIGH32(x[2], x[3]);
    p[0] = LOW64(a, b), p[1] = HIGH64(a, b), p[2] = LOW64(c, d), p[3] = HIGH64(c, d);
}

/* A block as pairs of rows of dequantised coefficients times 16: p[i] = (i, i + 4) of columns 0 to 3, p[4 + i] of the
 * others. False where values are too large. */
INLINE bool dequantise(const int16_t *k, const uint16_t quant[64], words p[8])
{
    words x[8];
    UNROLL
    for (int r = 0; r < 8; r++)
        x[r] = (words)((uwords)load(k + 8 * r) * (uwords)load(quant + 8 * r));
    if (__builtin_expect(beyond(x, 8, MOST1), 0))
        return false;
    UNROLL
    for (int r = 0; r < 8; r++)
        x[r] = (words)((uwords)x[r] << 4);
    UNROLL
    for (int i = 0; i < 4; i++)
        p[i] = LOW16(x[i], x[i + 4]), p[i + 4] = HIGH16(x[i], x[i + 4]);
    return true;
}

/* A block; false, and nothing is written, where values are too large. */
static bool block(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8], x[8];
    longs a[8], b[8];
    if (!dequantise(k, quant, p))
        return false;
    pass(p, ROUND1, a);
    pass(p + 4, ROUND1, b);
    UNROLL
    for (int r = 0; r < 8; r++)
        x[r] = upper(a[r], b[r]); /* columns (i, i + 4) */
    if (__builtin_expect(beyond(x, 8, MOST2), 0))
        return false;
    UNROLL
    for (size_t r = 0; r < 8; r += 4) {
        transpose(x + r, p);
        pass(p, ROUND2, b);
        store(b, out + r * stride, stride);
    }
    return true;
}

/* A block that holds nothing outside rows and columns 0 to 3. */
static bool block_low(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words x[4];
    longs a[8];
    UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = (words)((uwords)load(k + 8 * r) * (uwords)load(quant + 8 * r));
    if (__builtin_expect(beyond(x, 4, MOST1), 0))
        return false;
    UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = (words)((uwords)x[r] << 4);
    pass_low(LOW16(x[0], x[2]), LOW16(x[1], x[3]), ROUND1, a);
    UNROLL
    for (int i = 0; i < 4; i++)
        x[i] = upper(a[2 * i], a[2 * i + 1]); /* (row 2 i, row 2 i + 1) of columns 0 to 3 */
    if (__builtin_expect(beyond(x, 4, MOST2), 0))
        return false;
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        words c01 = LOW64(x[2 * i], x[2 * i + 1]), c23 = HIGH64(x[2 * i], x[2 * i + 1]);
        words rows01 = LOW16(c01, c23), rows23 = HIGH16(c01, c23); /* columns (0, 2) of two rows, (1, 3) of them */
        pass_low(LOW64(rows01, rows23), HIGH64(rows01, rows23), ROUND2, a);
        store(a, out + 4 * i * stride, stride);
    }
    return true;
}

static void samples8(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 8) {
        bool done = false;
        if (last[i])
            done = last[i] <= LAST_LOW ? block_low(coefficients, quant, out, stride)
                                       : block(coefficients, quant, out, stride);
        if (__builtin_expect(!done, 0))
            leat_jpeg_idct_plain.samples8(coefficients, last + i, 1, quant, out, stride);
    }
}

/* ---- 4 samples of 8 ---- */

INLINE void pass4(const words p[4], int round, longs out[4])
{
    longs sum = times(p[0], EVEN_0, 0) + round, e = times(p[2], EVEN4_2, EVEN4_6);
    longs o0 = times(p[1], ODD4_0_1, ODD4_0_5) + times(p[3], ODD4_0_3, ODD4_0_7);
    longs o1 = times(p[1], ODD4_1_1, ODD4_1_5) + times(p[3], ODD4_1_3, ODD4_1_7);
    out[0] = sum + e + o0, out[3] = sum + e - o0;
    out[1] = sum - e + o1, out[2] = sum - e - o1;
}

static bool block4(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8], x[4];
    longs a[4], b[4];
    if (!dequantise(k, quant, p))
        return false;
    pass4(p, ROUND1, a);
    pass4(p + 4, ROUND1, b);
    UNROLL
    for (int r = 0; r < 4; r++)
        x[r] = upper(a[r], b[r]);
    transpose(x, p);
    pass4(p, ROUND2, a);
    words both = (words)pack(upper(a[0], a[1]) >> LEFT, upper(a[2], a[3]) >> LEFT); /* 0 1 of 4 rows, 2 3 of 4 rows */
    ulongs rows = (ulongs)LOW16(both, HIGH64(both, both));
    UNROLL
    for (size_t r = 0; r < 4; r++) {
        uint32_t row = rows[r];
        memcpy(out + r * stride, &row, 4);
    }
    return true;
}

static void samples4(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 4)
        if (!last[i] || !block4(coefficients, quant, out, stride))
            leat_jpeg_idct_plain.samples4(coefficients, last + i, 1, quant, out, stride);
}

/* ---- 2 samples of 8 ---- */

INLINE longs odd2(words p1, words p3)
{
    return times(p1, ODD2_1, ODD2_5) + times(p3, ODD2_3, ODD2_7);
}

INLINE longs even2(words p0, int round)
{
    longs half = times(p0, EVEN_0, 0);
    return half + half + round;
}

static bool block2(const int16_t *k, const uint16_t quant[64], uint8_t *out, size_t stride)
{
    words p[8];
    if (!dequantise(k, quant, p))
        return false;
    longs e = even2(p[0], ROUND1_2), f = even2(p[4], ROUND1_2), o = odd2(p[1], p[3]), q = odd2(p[5], p[7]);
    words row0 = upper(e + o, f + q) >> 1, row1 = upper(e - o, f - q) >> 1;
    words p01 = LOW32(row0, row1), p23 = HIGH32(row0, row1); /* two rows of (0, 4), of (1, 5); (3, 7) */
    longs even = even2(p01, ROUND2_2), odd = odd2(HIGH64(p01, p01), HIGH64(p23, p23));
    longs left = (even + odd) >> DOWN2_2, right = (even - odd) >> DOWN2_2;
    for (size_t r = 0; r < 2; r++) {
        int32_t two[2] = {left[r], right[r]};
        for (size_t c = 0; c < 2; c++)
            out[r * stride + c] = (uint8_t)(two[c] < 0 ? 0 : two[c] > 255 ? 255 : two[c]);
    }
    return true;
}

static void samples2(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 2)
        if (!block2(coefficients, quant, out, stride))
            leat_jpeg_idct_plain.samples2(coefficients, last + i, 1, quant, out, stride);
}

const struct leat_jpeg_idct leat_jpeg_idct_portable = {samples8, samples4, samples2, leat_jpeg_idct_samples1};
