/* Pixels at any places, for AVX-512. */
#if defined(__x86_64__)
#define SIMD 512
#define NAMED(x) leat_##x##_avx512
#include "kernels/sample_kernels.h"
#else
typedef int leat_unused;
#endif
