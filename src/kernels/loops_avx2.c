/* Loops that are written once for all widths, for AVX2: blocks of Philox, and pixels at any places. */
#if defined(__x86_64__)
#define SIMD 256
#define NAMED(x) leat_##x##_avx2
#include "kernels/philox_kernels.h"
#include "kernels/sample_kernels.h"
#else
typedef int leat_unused;
#endif
