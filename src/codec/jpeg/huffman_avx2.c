/* The entropy decoder's loops with BMI2, whose shifts leave the flags and take any register, and AVX2, which clears a
 * block in four stores. */
#include "base/cpu.h"

#if defined(__x86_64__)
#define TARGET LEAT_TARGET_AVX2
#include "codec/jpeg/huffman_kernels.h"

LEAT_JPEG_HUFFMAN_KERNELS(leat_jpeg_huffman_avx2);
#endif
