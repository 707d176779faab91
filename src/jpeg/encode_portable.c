/* Blocks to items, one coefficient after the other. Most are 0, so they are passed four at a time. */
#include "jpeg/encode_internal.h"

/* Where the k-th coefficient of a row-by-row block stands in zigzag order. */
static const uint8_t zigzag_of[64] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30, 41, 43, 9,  11, 18, 24, 31, 40, 44, 53,
    10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38, 46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63,
};

/* Bit k: the k-th coefficient in zigzag order is not 0. */
static uint64_t present(const int16_t block[64])
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < 64; i += 4) {
        uint64_t four;
        memcpy(&four, block + i, 8);
        if (!four)
            continue;
        for (unsigned k = i; k < i + 4; k++)
            mask |= (uint64_t)(block[k] != 0) << zigzag_of[k];
    }
    return mask;
}

uint32_t leat_jpeg_itemise_portable(struct leat_jpeg_sequence *s, uint32_t x, uint32_t end)
{
    uint16_t *item = s->item;
    for (; x < end && item < s->stop && s->escape < s->escape_stop; x++)
        for (unsigned i = 0; i < s->blocks; i++) {
            const int16_t *block = s->block[i].at + x * s->block[i].step;
            item = leat_jpeg_item_dc(s, item, &s->block[i], block[0]);
            item = leat_jpeg_items_ac(s, item, &s->block[i], block, present(block) & ~UINT64_C(1));
        }
    s->item = item;
    return x;
}

uint32_t leat_jpeg_items_portable(struct leat_jpeg_bits *bits, const uint32_t *entry, const uint16_t *item, size_t n)
{
    return leat_jpeg_items_to_bits(bits, entry, item, n);
}
