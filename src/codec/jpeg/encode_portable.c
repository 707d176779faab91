/* Blocks to items, one coefficient after the other. The coefficients that are not 0 are found for a row of eight at
 * once. */
#include "codec/jpeg/encode_internal.h"

/* Bit k: the k-th coefficient of a row is not 0. */
static unsigned row_present(const int16_t row[8])
{
    unsigned mask = 0;
    for (unsigned k = 0; k < 8; k++)
        mask |= (unsigned)(row[k] != 0) << k;
    return mask;
}

static inline uint64_t block_present(const int16_t *block)
{
    uint64_t mask = 0;
    for (unsigned row = 0; row < 8; row++) {
        uint64_t half[2];
        memcpy(half, block + 8 * row, 16);
        if (half[0] | half[1])
            mask |= (uint64_t)row_present(block + 8 * row) << (8 * row);
    }
    return mask;
}

uint32_t leat_jpeg_itemise_portable(struct leat_jpeg_sequence *s, uint32_t x, uint32_t end)
{
    return leat_jpeg_itemise(block_present, s, x, end);
}

uint32_t leat_jpeg_items_portable(struct leat_jpeg_bit_writer *bits, const uint32_t *entry, const uint16_t *item,
                                  size_t n)
{
    return leat_jpeg_items_to_bits(bits, entry, item, n);
}
