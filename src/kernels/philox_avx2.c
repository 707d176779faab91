/* Blocks of Philox with AVX2. */
#include "kernels/philox.h"

#if defined(__x86_64__)

#define SIMD 256
#include "kernels/philox_kernels.h"

TARGET void leat_philox_avx2(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out)
{
    philox_blocks(key, call, first, blocks, out);
}

#endif
