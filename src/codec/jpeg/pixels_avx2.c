/* Upsampling and colours with AVX2, 32 pixels at a time. */
#if defined(__x86_64__)
#define SIMD 256
#define PIXELS leat_jpeg_pixels_avx2
#include "codec/jpeg/pixels_kernels.h"
#endif
