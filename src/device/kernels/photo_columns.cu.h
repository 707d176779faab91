/*
 * Coefficients, and the first pass of the inverse DCT: a thread for each column of a block. Of the decode-fast form the
 * thread finds those of its eight coefficients that are not 0 by counting: the ones in the mask before a coefficient
 * say its number among the block's, by which the streams have it. So no coefficient goes through memory. Those of a
 * JPEG as it came are in the scratch.
 */
#include "codec/jpeg/idct_pass.h"
#include "device/kernels/photo.cu.h"

/* Number in zigzag order, by natural order. */
KERNEL_TABLE u8 columns_zigzag[64] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63,
};
/* A block's streams: 64 bits from its first coefficient on. */
struct columns_block {
    struct leat_card_block at;
    struct leat_card_row row;
    const u8 *data; /* of the row */
    u64 mask, sign, a, b;
};

/* A magnitude of 4 or more: of coefficient `rank` of the block. */
KERNEL_FUNCTION u32 columns_escape(const struct columns_block *s, u32 rank)
{
    const u32 nibble = s->at.nibble + kernel_ones(s->a & s->b & photo_low(rank));
    const u32 four = photo_byte(s->data + s->row.nibble + nibble / 2) >> 4 * (nibble % 2) & 15;
    if (four < 15)
        return 4 + four;
    const u32 byte = s->at.byte + photo_fifteens(s->data + s->row.nibble, s->at.nibble, nibble - s->at.nibble);
    const u32 eight = photo_byte(s->data + s->row.byte + byte);
    if (eight < 255)
        return eight;
    const u32 word = s->at.word + photo_255s(s->data + s->row.byte, s->at.byte, byte - s->at.byte);
    return (u32)photo_bits(s->data + s->row.word, 16 * word) & 0xffff;
}

/* The coefficient of number k in zigzag order. */
KERNEL_FUNCTION short columns_coefficient(const struct columns_block *s, u32 k)
{
    if (k == 0)
        return s->at.dc;
    if (!(s->mask >> (k - 1) & 1))
        return 0;
    const u32 rank = kernel_ones(s->mask & photo_low(k - 1));
    const u32 kind = (u32)(s->a >> rank & 1) + 2 * (u32)(s->b >> rank & 1);
    const u32 magnitude = kind < 3 ? 1 + kind : columns_escape(s, rank);
    return leat_jpeg_wrap((int)(s->sign >> rank & 1 ? 0 - magnitude : magnitude));
}

KERNEL_FUNCTION void photo_columns(struct leat_photo_args a)
{
    const struct photo_share share = photo_share_of(&a);
    const struct leat_card_photo *photo = share.photo;
    const bool coded = photo->form == LEAT_CARD_CODED;
    for (u32 i = share.first; i < 8 * photo->blocks; i += share.step) {
        u32 block = i / 8;
        const u32 c = i % 8;
        struct columns_block s = {{0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, share.data, 0, 0, 0, 0};
        s.at = ((const struct leat_card_block *)(share.scratch + photo->blocks_at))[block];
        const u8 *const coefficients = share.scratch + photo->coefficients_at + 128 * (u64)block;
        const struct leat_card_plane *plane = photo_plane(photo, &block);
        const u32 x = block % plane->w, y = block / plane->w + plane->y0;
        u32 row = (y / plane->v - photo->mcu_y) * photo->rows_per_mcu + y % plane->v;
        for (const struct leat_card_plane *before = photo->plane; before < plane; before++)
            row += before->v;
        if (!coded) {
            s.row = ((const struct leat_card_row *)share.scratch)[row];
            s.data += s.row.begin;
        }
        if (!coded && s.at.mask_bytes) {
            s.mask = photo_bits(s.data + s.row.mask, 8 * s.at.mask) & photo_low(8 * s.at.mask_bytes);
            s.sign = photo_bits(s.data + s.row.sign, s.at.value);
            s.a = photo_bits(s.data + s.row.a, s.at.value);
            s.b = photo_bits(s.data + s.row.b, s.at.value);
        }
        const bool below = coded ? s.at.mask : (s.mask & PHOTO_BELOW) != 0;
        u64 rows[2] = {0, 0}; /* 16 bits for each; new ones push others down */
        KERNEL_ROLLED
        for (u32 r = 0; r < 8; r++) {
            const u32 place = columns_zigzag[8 * r + c];
            short k;
            if (coded) {
                u32 value;
                kernel_load(coefficients + 2 * place, 2, &value);
                k = (short)(u16)value;
            } else {
                k = columns_coefficient(&s, place);
            }
            rows[0] = rows[0] >> 16 | rows[1] << 48;
            rows[1] = rows[1] >> 16 | (u64)(u16)leat_jpeg_dequantise(k, plane->quant[8 * r + c]) << 48;
        }
        short in[8], out[8];
        KERNEL_UNROLL
        for (u32 r = 0; r < 8; r++)
            in[r] = (short)(u16)(rows[r / 4] >> 16 * (r % 4));
        leat_jpeg_pass8(in, out, DOWN1_8);
        const short flat = leat_jpeg_wrap(in[0] * (1 << PASS1_BITS)); /* wraps; the pass would saturate */
        u8 *to = share.scratch + photo->first_at + 128 * (u64)plane->first;
        to += 2 * ((u64)(8 * (y - plane->y0)) * 8 * plane->w + 8 * x + c);
        KERNEL_UNROLL
        for (u32 r = 0; r < 8; r++) {
            const u32 value = (u16)(below ? out[r] : flat);
            kernel_store(to + 16 * (u64)r * plane->w, 2, &value);
        }
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_columns(struct leat_photo_args a)
{
    photo_columns(a);
}
#endif
