/*
 * The inverse DCTs in plain C, one value after the other: for blocks whose values are too large for the fast ones, and
 * for sizes that the fast ones leave out.
 *
 * Wherever 16 bits may not hold a value, the code says whether it wraps or saturates: coefficients of damaged or
 * hostile photos get there, and libjpeg-turbo's vector code is the measure.
 */
#include "codec/jpeg/idct_internal.h"

/* Rows of a block, or the columns of one: a[r][c] is read and written by loops over c. */
typedef int16_t square[8][8];

/* One dimension of 8 columns; rows from `rows` on are zero. */
static inline __attribute__((always_inline)) void pass8(square in, square out, int rows, int shift)
{
    for (int c = 0; c < 8; c++) {
        int16_t x[8] = {0}, y[8];
        for (int r = 0; r < rows; r++)
            x[r] = in[r][c];
        leat_jpeg_pass8(x, y, shift);
        for (int r = 0; r < 8; r++)
            out[r][c] = y[r];
    }
}

static inline void transpose(square in, square out)
{
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++)
            out[c][r] = in[r][c];
}

/* Whether rows 1 to 7 (of those the bits of `rows` name) are all 0 before dequantisation. Then the vector code that is
 * the measure skips the first pass: values are shifted left and wrap while the pass would saturate. */
static inline bool flat(const int16_t *k, unsigned rows)
{
    uint64_t any = 0;
    for (unsigned r = 1; r < 8; r++)
        if (rows >> r & 1) {
            uint64_t half[2];
            memcpy(half, k + 8 * r, sizeof half);
            any |= half[0] | half[1];
        }
    return !any;
}

static inline __attribute__((always_inline)) void block8(const int16_t *k, const uint16_t *quant, uint8_t *out,
                                                         size_t stride, int rows)
{
    square a, b;
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < 8; c++)
            a[i][c] = leat_jpeg_dequantise(k[8 * i + c], quant[8 * i + c]);
    if (flat(k, rows > 4 ? 0xfe : 0x0e)) {
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++)
                b[r][c] = leat_jpeg_wrap(a[0][c] * (1 << PASS1_BITS));
    } else
        pass8(a, b, rows, DOWN1_8);
    transpose(b, a);
    pass8(a, b, rows, DOWN2_8);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++)
            out[(size_t)r * stride + (size_t)c] = leat_jpeg_sample(b[c][r]);
}

static void samples8(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 8) {
        if (!last[i]) {
            int16_t dc = leat_jpeg_wrap(leat_jpeg_dequantise(coefficients[0], quant[0]) * (1 << PASS1_BITS));
            uint8_t value = leat_jpeg_sample((dc + 16) >> 5);
            for (size_t r = 0; r < 8; r++)
                memset(out + r * stride, value, 8);
        } else if (last[i] <= LAST_LOW)
            block8(coefficients, quant, out, stride, 4);
        else
            block8(coefficients, quant, out, stride, 8);
    }
}

/* 4 samples of 8; row 4 does not count. Sums may leave 32 bits and wrap. */
static inline __attribute__((always_inline)) void pass4(square in, int16_t out[4][8], int shift)
{
    for (int c = 0; c < 8; c++) {
        uint32_t i0 = (uint32_t)in[0][c], i1 = (uint32_t)in[1][c], i2 = (uint32_t)in[2][c], i3 = (uint32_t)in[3][c];
        uint32_t i5 = (uint32_t)in[5][c], i6 = (uint32_t)in[6][c], i7 = (uint32_t)in[7][c];
        uint32_t even0 = i0 << (CONST_BITS + 1), even2 = i2 * FIX_1_847 - i6 * FIX_0_765, half = 1u << (shift - 1);
        uint32_t e0 = even0 + even2 + half, e1 = even0 - even2 + half;
        uint32_t o1 = i1 * FIX_1_061 - i3 * FIX_2_172 + i5 * FIX_1_451 - i7 * FIX_0_211;
        uint32_t o0 = i1 * FIX_2_562 + i3 * FIX_0_899 - i5 * FIX_0_601 - i7 * FIX_0_509;
        out[0][c] = leat_jpeg_saturate((int32_t)(e0 + o0) >> shift),
        out[3][c] = leat_jpeg_saturate((int32_t)(e0 - o0) >> shift);
        out[1][c] = leat_jpeg_saturate((int32_t)(e1 + o1) >> shift),
        out[2][c] = leat_jpeg_saturate((int32_t)(e1 - o1) >> shift);
    }
}

static void samples4(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 4) {
        if (!last[i]) {
            int16_t dc = leat_jpeg_wrap(leat_jpeg_dequantise(coefficients[0], quant[0]) * (1 << PASS1_BITS));
            uint8_t value = leat_jpeg_sample((dc + 16) >> 5);
            for (size_t r = 0; r < 4; r++)
                memset(out + r * stride, value, 4);
            continue;
        }
        square a = {0};
        int16_t b[4][8];
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++)
                a[r][c] = leat_jpeg_dequantise(coefficients[8 * r + c], quant[8 * r + c]);
        if (flat(coefficients, 0xee)) {
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 8; c++)
                    b[r][c] = leat_jpeg_wrap(a[0][c] * (1 << PASS1_BITS));
        } else
            pass4(a, b, DOWN1_4);
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 8; c++)
                a[c][r] = b[r][c];
        pass4(a, b, DOWN2_4);
        for (size_t r = 0; r < 4; r++)
            for (size_t c = 0; c < 4; c++)
                out[r * stride + c] = leat_jpeg_sample(b[c][r]);
    }
}

/* The four weights of 2 samples of 8: for rows 1, 3, 5 and 7. */
static inline uint32_t odd2(int32_t i1, int32_t i3, int32_t i5, int32_t i7)
{
    return (uint32_t)i1 * FIX_3_624 - (uint32_t)i3 * FIX_1_272 + (uint32_t)i5 * FIX_0_850 - (uint32_t)i7 * FIX_0_720;
}

static void samples2(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64], uint8_t *out,
                     size_t stride)
{
    for (size_t i = 0; i < n; i++, coefficients += 64, out += 2) {
        int32_t a[2][8];
        for (int c = 0; c < 8; c++) {
            int16_t x[8];
            for (int r = 0; r < 8; r++)
                x[r] = leat_jpeg_dequantise(coefficients[8 * r + c], quant[8 * r + c]);
            uint32_t even = ((uint32_t)x[0] << (CONST_BITS + 2)) + (1u << (DOWN1_2 - 1)),
                     odd = odd2(x[1], x[3], x[5], x[7]);
            a[0][c] = (int32_t)(even + odd) >> DOWN1_2, a[1][c] = (int32_t)(even - odd) >> DOWN1_2;
        }
        for (size_t r = 0; r < 2; r++) { /* column 0 is not packed to 16 bits, the others are */
            uint32_t even = ((uint32_t)a[r][0] << (CONST_BITS + 2)) + (1u << (DOWN2_2 - 1));
            uint32_t odd = odd2(leat_jpeg_saturate(a[r][1]), leat_jpeg_saturate(a[r][3]), leat_jpeg_saturate(a[r][5]),
                                leat_jpeg_saturate(a[r][7]));
            out[r * stride] = leat_jpeg_sample((int32_t)(even + odd) >> DOWN2_2);
            out[r * stride + 1] = leat_jpeg_sample((int32_t)(even - odd) >> DOWN2_2);
        }
    }
}

/* The mean of a block. Here the measure is C code: the product has 32 bits, the factor is signed, and the result is
 * taken modulo 1024 before it is clamped. */
void leat_jpeg_idct_samples1(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                             uint8_t *out, size_t stride)
{
    int32_t q = (int16_t)quant[0];
    for (size_t i = 0; i < n; i++) {
        uint32_t mean = (uint32_t)((coefficients[64 * i] * q + 4) >> 3);
        out[i] = leat_jpeg_sample((int32_t)(mean << 22) >> 22);
    }
}

const struct leat_jpeg_idct leat_jpeg_idct_plain = {samples8, samples4, samples2, leat_jpeg_idct_samples1};
