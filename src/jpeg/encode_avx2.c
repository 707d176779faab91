/* Items to bits with the shifts of BMI2, which need no flags and no fixed register. */
#include "jpeg/encode_internal.h"

#if defined(__x86_64__)

__attribute__((target("avx2,bmi,bmi2,movbe"))) uint32_t leat_jpeg_items_avx2(struct leat_jpeg_bits *bits, const uint32_t *entry,
                                                                             const uint16_t *item, size_t n)
{
    return leat_jpeg_items_to_bits(bits, entry, item, n);
}

#endif
