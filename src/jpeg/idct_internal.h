/*
 * What the inverse DCTs share. The constants have 13 fractional bits: FIX_1_847 is sqrt(2) cos(pi/8) or the like, named by its value as
 * in the literature. Every product below is of two 16-bit values.
 *
 * Both passes work on 16-bit samples between which PASS1_BITS fractional bits are kept. A rotation is written as two sums of two
 * products, which is what pmaddwd computes; the original form with fewer products gives the same sums.
 */
#ifndef LEAT_JPEG_IDCT_INTERNAL_H
#define LEAT_JPEG_IDCT_INTERNAL_H

#include "jpeg/idct.h"

/* Exact for all values, and slow. Writes no samples behind the rows. */
extern const struct leat_jpeg_idct leat_jpeg_idct_plain;

/* Before a loop over a few registers: without it gcc keeps them in memory. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum {
    CONST_BITS = 13,
    PASS1_BITS = 2,
    FIX_0_211 = 1730,
    FIX_0_298 = 2446,
    FIX_0_390 = 3196,
    FIX_0_509 = 4176,
    FIX_0_541 = 4433,
    FIX_0_601 = 4926,
    FIX_0_720 = 5906,
    FIX_0_765 = 6270,
    FIX_0_850 = 6967,
    FIX_0_899 = 7373,
    FIX_1_061 = 8697,
    FIX_1_175 = 9633,
    FIX_1_272 = 10426,
    FIX_1_451 = 11893,
    FIX_1_501 = 12299,
    FIX_1_847 = 15137,
    FIX_1_961 = 16069,
    FIX_2_053 = 16819,
    FIX_2_172 = 17799,
    FIX_2_562 = 20995,
    FIX_3_072 = 25172,
    FIX_3_624 = 29692,
};

/* The weights of even inputs: EVEN_0 of 0 and 4, EVEN_2 and EVEN_6 of 2 and 6; and ODD_o_i of odd input i in the odd part of outputs
 * o and 7 - o, as the steps of the algorithm add up. They all fit 16 bits when doubled. */
enum {
    EVEN_0 = 1 << CONST_BITS,
    EVEN_2 = FIX_0_541 + FIX_0_765,
    EVEN_6 = FIX_0_541,
    ODD_0_1 = FIX_1_175 + FIX_1_501 - FIX_0_899 - FIX_0_390,
    ODD_0_3 = FIX_1_175,
    ODD_0_5 = FIX_1_175 - FIX_0_390,
    ODD_0_7 = FIX_1_175 - FIX_0_899,
    ODD_1_1 = FIX_1_175,
    ODD_1_3 = FIX_3_072 - FIX_2_562 + FIX_1_175 - FIX_1_961,
    ODD_1_5 = FIX_1_175 - FIX_2_562,
    ODD_1_7 = FIX_1_175 - FIX_1_961,
    ODD_2_1 = FIX_1_175 - FIX_0_390,
    ODD_2_3 = FIX_1_175 - FIX_2_562,
    ODD_2_5 = FIX_2_053 - FIX_2_562 + FIX_1_175 - FIX_0_390,
    ODD_2_7 = FIX_1_175,
    ODD_3_1 = FIX_1_175 - FIX_0_899,
    ODD_3_3 = FIX_1_175 - FIX_1_961,
    ODD_3_5 = FIX_1_175,
    ODD_3_7 = FIX_0_298 - FIX_0_899 + FIX_1_175 - FIX_1_961,
};

/* How far the sums of each pass are shifted right, for S = 8, 4 and 2. */
enum {
    DOWN1_8 = CONST_BITS - PASS1_BITS,
    DOWN2_8 = CONST_BITS + PASS1_BITS + 3,
    DOWN1_4 = DOWN1_8 + 1,
    DOWN2_4 = DOWN2_8 + 1,
    DOWN1_2 = DOWN1_8 + 2,
    DOWN2_2 = DOWN2_8 + 2,
};

/* For code that computes a pass as sums of products of pairs, all sums doubled, inputs of the first pass times 16: the results then are
 * upper halves of 32 bits, in the second pass with LEFT more bits to drop. Rounding, with 128 added in the second pass so that packing to
 * unsigned bytes clamps. */
enum { ROUND1 = 1 << 15, ROUND2 = (128 << 19) + (1 << 18), LEFT = 3 };

/* Such code is exact for dequantised coefficients in [-MOST1, MOST1) and values between the passes in [-MOST2, MOST2), powers of two. Sums
 * of a column are at most 29.9 times its largest value, so at most 30600 after the first pass. */
enum { MOST1 = 1024, MOST2 = 16384 };

/* The zigzag order's first ten coefficients lie in rows and columns 0 to 3. */
#define LAST_LOW 9

#endif
