/* The entropy decoder's loops in portable C. */
#define TARGET
#include "codec/jpeg/huffman_kernels.h"

LEAT_JPEG_HUFFMAN_KERNELS(leat_jpeg_huffman_portable);
