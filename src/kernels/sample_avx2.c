/* Pixels at any places, for AVX2. */
#if defined(__x86_64__)
#define SIMD 256
#define NAMED(x) leat_##x##_avx2
#include "kernels/sample_kernels.h"
#else
typedef int leat_unused;
#endif
