/*
 * One dimension of the inverse DCT of eight samples in plain C, for the processor and for the kernels of a card. The
 * constants have 13 fractional bits: FIX_1_847 is sqrt(2) cos(pi/8) or the like, named by its value as in the
 * literature.
 */
#ifndef LEAT_CODEC_JPEG_IDCT_PASS_H
#define LEAT_CODEC_JPEG_IDCT_PASS_H

#include "base/both.h"

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

/* The right shift of the sums of each pass. */
enum { DOWN1_8 = CONST_BITS - PASS1_BITS, DOWN2_8 = CONST_BITS + PASS1_BITS + 3 };

/* 16 bits may not hold a value of a damaged photo: it wraps or saturates as in libjpeg-turbo's vector code. */
LEAT_BOTH short leat_jpeg_wrap(int x)
{
    return (short)(unsigned short)x;
}
LEAT_BOTH short leat_jpeg_saturate(int x)
{
    return (short)(x < -32768 ? -32768 : x > 32767 ? 32767 : x);
}
LEAT_BOTH unsigned char leat_jpeg_sample(int x)
{
    return (unsigned char)((x < -128 ? -128 : x > 127 ? 127 : x) + 128);
}
LEAT_BOTH short leat_jpeg_dequantise(short k, unsigned short q)
{
    return leat_jpeg_wrap((int)((unsigned)k * q));
}

/* Inputs are of 16 bits. Sums stay below 2^31: the weights that meet in one are 64570 in all, times 2^15. */
LEAT_BOTH void leat_jpeg_pass8(const short in[8], short out[8], int shift)
{
    const int i0 = in[0], i1 = in[1], i2 = in[2], i3 = in[3], i4 = in[4], i5 = in[5], i6 = in[6], i7 = in[7];
    const int even2 = i2 * FIX_0_541 + i6 * (FIX_0_541 - FIX_1_847),
              even3 = i2 * (FIX_0_541 + FIX_0_765) + i6 * FIX_0_541;
    const int even0 = leat_jpeg_wrap(i0 + i4) * (1 << CONST_BITS), even1 = leat_jpeg_wrap(i0 - i4) * (1 << CONST_BITS),
              half = 1 << (shift - 1);
    const int e0 = even0 + even3 + half, e1 = even1 + even2 + half, e2 = even1 - even2 + half,
              e3 = even0 - even3 + half;

    const int sum3 = leat_jpeg_wrap(i7 + i3), sum4 = leat_jpeg_wrap(i5 + i1);
    const int z3 = sum3 * (FIX_1_175 - FIX_1_961) + sum4 * FIX_1_175,
              z4 = sum3 * FIX_1_175 + sum4 * (FIX_1_175 - FIX_0_390);
    const int o0 = i7 * (FIX_0_298 - FIX_0_899) + i1 * -FIX_0_899 + z3,
              o1 = i5 * (FIX_2_053 - FIX_2_562) + i3 * -FIX_2_562 + z4;
    const int o2 = i5 * -FIX_2_562 + i3 * (FIX_3_072 - FIX_2_562) + z3,
              o3 = i7 * -FIX_0_899 + i1 * (FIX_1_501 - FIX_0_899) + z4;

    out[0] = leat_jpeg_saturate((e0 + o3) >> shift), out[7] = leat_jpeg_saturate((e0 - o3) >> shift);
    out[1] = leat_jpeg_saturate((e1 + o2) >> shift), out[6] = leat_jpeg_saturate((e1 - o2) >> shift);
    out[2] = leat_jpeg_saturate((e2 + o1) >> shift), out[5] = leat_jpeg_saturate((e2 - o1) >> shift);
    out[3] = leat_jpeg_saturate((e3 + o0) >> shift), out[4] = leat_jpeg_saturate((e3 - o0) >> shift);
}

#endif
