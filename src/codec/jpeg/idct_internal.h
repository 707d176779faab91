/*
 * The common part of the inverse DCTs. Every product below is of two 16-bit values.
 *
 * Both passes work on 16-bit samples between which PASS1_BITS fractional bits are kept. A rotation is written as two
 * sums of two products, as pmaddwd computes them; the original form with fewer products gives the same sums.
 */
#ifndef LEAT_CODEC_JPEG_IDCT_INTERNAL_H
#define LEAT_CODEC_JPEG_IDCT_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/jpeg/idct.h"
#include "codec/jpeg/idct_pass.h"

/* Exact for all values, and slow. Writes no samples behind the rows. */
extern const struct leat_jpeg_idct leat_jpeg_idct_plain;

/* One sample of a block is little work: this is every instruction set's. */
void leat_jpeg_idct_samples1(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                             uint8_t *out, size_t stride);

/*
 * Weights for code that computes a pass from its definition, as sums of products of pairs: EVEN_o_i of even input i in
 * outputs o and 7 - o (inputs 0 and 4 have EVEN_0, up to the sign), and ODD_o_i of odd input i, as the steps of the
 * algorithm add up. All are doubled, and the inputs of the first pass are multiplied by 16: the results then are the
 * upper halves of 32 bits, in the second pass with LEFT more bits to drop. Rounding adds 128 in the second pass, so
 * that packing to unsigned bytes clamps.
 */
enum {
    EVEN_0 = 2 << CONST_BITS,
    EVEN_0_2 = 2 * (FIX_0_541 + FIX_0_765),
    EVEN_0_6 = 2 * FIX_0_541,
    EVEN_1_2 = 2 * FIX_0_541,
    EVEN_1_6 = 2 * (FIX_0_541 - FIX_1_847),
    ODD_0_1 = 2 * (FIX_1_175 + FIX_1_501 - FIX_0_899 - FIX_0_390),
    ODD_0_3 = 2 * FIX_1_175,
    ODD_0_5 = 2 * (FIX_1_175 - FIX_0_390),
    ODD_0_7 = 2 * (FIX_1_175 - FIX_0_899),
    ODD_1_1 = 2 * FIX_1_175,
    ODD_1_3 = 2 * (FIX_3_072 - FIX_2_562 + FIX_1_175 - FIX_1_961),
    ODD_1_5 = 2 * (FIX_1_175 - FIX_2_562),
    ODD_1_7 = 2 * (FIX_1_175 - FIX_1_961),
    ODD_2_1 = 2 * (FIX_1_175 - FIX_0_390),
    ODD_2_3 = 2 * (FIX_1_175 - FIX_2_562),
    ODD_2_5 = 2 * (FIX_2_053 - FIX_2_562 + FIX_1_175 - FIX_0_390),
    ODD_2_7 = 2 * FIX_1_175,
    ODD_3_1 = 2 * (FIX_1_175 - FIX_0_899),
    ODD_3_3 = 2 * (FIX_1_175 - FIX_1_961),
    ODD_3_5 = 2 * FIX_1_175,
    ODD_3_7 = 2 * (FIX_0_298 - FIX_0_899 + FIX_1_175 - FIX_1_961),
    ROUND1 = 1 << 15,
    ROUND2 = (128 << 19) + (1 << 18),
    LEFT = 3
};

/* The same for 4 samples, with one more bit dropped in each pass: the weights as they are, else all alike. Input 0 has
 * EVEN_0. */
enum {
    EVEN4_2 = FIX_1_847,
    EVEN4_6 = -FIX_0_765,
    ODD4_0_1 = FIX_2_562,
    ODD4_0_3 = FIX_0_899,
    ODD4_0_5 = -FIX_0_601,
    ODD4_0_7 = -FIX_0_509,
    ODD4_1_1 = FIX_1_061,
    ODD4_1_3 = -FIX_2_172,
    ODD4_1_5 = FIX_1_451,
    ODD4_1_7 = -FIX_0_211,
};

/* And for 2 samples: input 0 has EVEN_0 twice, and the first pass leaves a bit to drop. */
enum {
    ODD2_1 = FIX_3_624,
    ODD2_3 = -FIX_1_272,
    ODD2_5 = FIX_0_850,
    ODD2_7 = -FIX_0_720,
    ROUND1_2 = 1 << 16,
    ROUND2_2 = (128 << 20) + (1 << 19),
};

/*
 * Such code is exact for dequantised coefficients in [-MOST1, MOST1) and, for 8 samples, values between the passes in
 * [-MOST2, MOST2), powers of two. The weights of a sum are 29.9 in all, times the weight of an output, so values after
 * the first pass are at most 30600 (18.4 and 18900 for 4 samples, 10.5 and 10800 for 2); no sum of 32 bits overflows.
 */
enum { MOST1 = 1024, MOST2 = 16384 };

/* The right shift of the sums of each pass, for S = 4 and 2. */
enum {
    DOWN1_4 = DOWN1_8 + 1,
    DOWN2_4 = DOWN2_8 + 1,
    DOWN1_2 = DOWN1_8 + 2,
    DOWN2_2 = DOWN2_8 + 2,
};

/* The zigzag order's first ten coefficients lie in rows and columns 0 to 3. */
#define LAST_LOW 9

#ifdef LANES /* the registers of a file that includes idct_kernels.h */
typedef int16_t words __attribute__((vector_size(16 * LANES)));
typedef uint16_t uwords __attribute__((vector_size(16 * LANES)));
typedef int32_t longs __attribute__((vector_size(16 * LANES)));
typedef uint32_t ulongs __attribute__((vector_size(16 * LANES)));
#endif

#endif
