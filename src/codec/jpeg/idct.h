/*
 * The inverse DCT: libjpeg's accurate integer one (Loeffler, Ligtenberg and Moschytz: "Practical fast 1-D DCT
 * algorithms with 11 multiplications", ICASSP 1989), and its reduced ones for 1/2, 1/4 and 1/8. The samples are those
 * of libjpeg-turbo's vector code for x86-64 byte for byte, on every processor, also if coefficients are so large that
 * 16 bits do not hold them: sums wrap and packing saturates as there. (On others libjpeg-turbo has different samples
 * there.)
 */
#ifndef LEAT_CODEC_JPEG_IDCT_H
#define LEAT_CODEC_JPEG_IDCT_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

/* n blocks that stand side by side, coefficients [n][64] in natural order and `last` [n] as in source.h, become rows of
 * n * S samples, row r at out + r * stride; S is 8, 4, 2 or 1. Up to 64 samples behind each row may be written. */
typedef void (*leat_jpeg_idct_fn)(const int16_t *coefficients, const uint8_t *last, size_t n, const uint16_t quant[64],
                                  uint8_t *out, size_t stride);

struct leat_jpeg_idct {
    leat_jpeg_idct_fn samples8, samples4, samples2, samples1;
};

/* The coefficients that count for each S, bit k for natural order k. */
#define LEAT_JPEG_NEEDED8 (~UINT64_C(0))
#define LEAT_JPEG_NEEDED4                                                                                              \
    UINT64_C(0xffffff00ffffffef)                       /* all but row 4; column 4 only says whether rows 1 to 7 are 0  \
                                                        */
#define LEAT_JPEG_NEEDED2 UINT64_C(0xab00ab00ab00abab) /* rows and columns 0, 1, 3, 5, 7 */
#define LEAT_JPEG_NEEDED1 UINT64_C(1)

extern const struct leat_jpeg_idct leat_jpeg_idct_portable, leat_jpeg_idct_avx2, leat_jpeg_idct_avx512;
/* The functions of an instruction set; of a lower one if this build has no such. */
static inline const struct leat_jpeg_idct *leat_jpeg_idct(enum leat_isa isa)
{
    return LEAT_OF_ISA(isa, &leat_jpeg_idct);
}

#endif
