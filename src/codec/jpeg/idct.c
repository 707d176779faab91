/* Which inverse DCT runs. */
#include "codec/jpeg/idct.h"

const struct leat_jpeg_idct *leat_jpeg_idct(enum leat_isa isa)
{
#if defined(__x86_64__)
    if (isa == LEAT_ISA_AVX512)
        return &leat_jpeg_idct_avx512;
    if (isa == LEAT_ISA_AVX2)
        return &leat_jpeg_idct_avx2;
#endif
    return &leat_jpeg_idct_portable;
}
