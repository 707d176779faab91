/* Upsampling and colours with AVX-512, 64 pixels at a time. */
#if defined(__x86_64__)
#define SIMD 512
#define PIXELS leat_jpeg_pixels_avx512
#include "codec/jpeg/pixels_kernels.h"
#endif
