/* Sequential Huffman coding, one coefficient after the other. Most blocks are nearly empty, so zeros are passed four at a time. */
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

/* Any run, any value. */
static void put_coefficient(struct leat_jpeg_bits *b, const struct leat_jpeg_ac_codes *ac, unsigned run, int value, uint32_t *met)
{
    for (; run > 15; run -= 16) {
        *met |= ac->code[0xf0];
        leat_jpeg_bits_put(b, ac->code[0xf0] >> 8, ac->code[0xf0] & 31);
    }
    unsigned size = leat_jpeg_size((unsigned)(value < 0 ? -value : value)), count;
    uint32_t code = size < 16 ? ac->code[run << 4 | size] : LEAT_JPEG_NO_CODE;
    *met |= code;
    uint64_t bits = leat_jpeg_code_and_value(code, value, size, &count);
    leat_jpeg_bits_put(b, bits, count);
}

static void put_block(struct leat_jpeg_sequence *s, const struct leat_jpeg_sequence_block *at, const int16_t block[64],
                      struct leat_jpeg_bits *b)
{
    uint32_t met = 0;
    int difference = block[0] - s->predictor[at->place];
    s->predictor[at->place] = block[0];
    unsigned size = leat_jpeg_size((unsigned)(difference < 0 ? -difference : difference)), count;
    uint32_t code = size < 16 ? at->dc->code[size] : LEAT_JPEG_NO_CODE;
    met |= code;
    uint64_t bits = leat_jpeg_code_and_value(code, difference, size, &count);
    leat_jpeg_bits_put(b, bits, count);

    const struct leat_jpeg_ac_codes *ac = at->ac;
    unsigned next = 1;
    for (uint64_t mask = present(block) & ~UINT64_C(1); mask; mask &= mask - 1) {
        unsigned k = (unsigned)__builtin_ctzll(mask), run = k - next;
        int value = block[leat_jpeg_natural[k]];
        next = k + 1;
        if (run < 16 && value >= -LEAT_JPEG_DIRECT && value < LEAT_JPEG_DIRECT) {
            uint32_t entry = ac->direct[run][value + LEAT_JPEG_DIRECT];
            met |= entry;
            leat_jpeg_bits_put(b, entry >> 8, entry & 31);
        } else {
            put_coefficient(b, ac, run, value, &met);
        }
    }
    if (next < 64) {
        met |= ac->code[0];
        leat_jpeg_bits_put(b, ac->code[0] >> 8, ac->code[0] & 31);
    }
    s->met |= met;
}

uint32_t leat_jpeg_sequence_portable(struct leat_jpeg_sequence *sequence, struct leat_jpeg_bits *bits, uint32_t x, uint32_t end,
                                     const uint8_t *stop)
{
    struct leat_jpeg_bits b = *bits;
    for (; x < end && stop - b.p >= LEAT_JPEG_MCU_BLOCKS * LEAT_JPEG_BLOCK_BYTES; x++)
        for (unsigned i = 0; i < sequence->blocks; i++)
            put_block(sequence, &sequence->block[i], sequence->block[i].at + x * sequence->block[i].step, &b);
    *bits = b;
    return x;
}
