/*
 * The streams of rows of blocks (docs/format.md), a thread for each row:
 *
 *     heads | dc bits | mask bytes | signs | class bits A | class bits B | nibbles | bytes | words
 *
 * The length of each follows from those before, so all are counted up to the row's end, which must be where they end.
 * Then blocks are counted one by one, so that a later thread can begin at any of them. All bytes may be any: a batch
 * that is given up is copied from memory that others have by then, and decoded all the same.
 */
#include "device/kernels/photo.cu.h"

/* Locates the streams of a row. False: they are not together as long as the row. */
KERNEL_FUNCTION bool rows_locate(const u8 *row, u32 length, u32 blocks, struct leat_card_row *at)
{
    const u64 nibbles = 0x0f0f0f0f0f0f0f0f, ones = 0x0101010101010101;
    u64 bad = 0;
    u32 dc = 0, masks = 0;
    if (length < blocks)
        return false;
    for (u32 i = 0; i < blocks; i += 8) {
        const u64 x = photo_bits(row, 8 * i) & photo_low(8 * (blocks - i < 8 ? blocks - i : 8));
        bad |= ((x & nibbles) + 7 * ones) & 16 * ones; /* more than 8 bytes of mask */
        masks += (u32)((x & nibbles) * ones >> 56);
        dc += (u32)((x >> 4 & nibbles) * ones >> 56);
    }
    at->mask = blocks + (dc + 7) / 8;
    at->sign = at->mask + masks;
    if (bad || length < at->sign)
        return false;
    const u32 n = photo_both(row + at->mask, row + at->mask, 0, 8 * masks), plane = (n + 7) / 8;
    at->a = at->sign + plane;
    at->b = at->a + plane;
    at->nibble = at->b + plane;
    if (length < at->nibble)
        return false;
    const u32 escapes = photo_both(row + at->a, row + at->b, 0, n);
    at->byte = at->nibble + (escapes + 1) / 2;
    if (length < at->byte)
        return false;
    const u32 bytes = photo_fifteens(row + at->nibble, 0, escapes);
    at->word = at->byte + bytes;
    return length >= at->word && length - at->word == 2 * photo_255s(row + at->byte, 0, bytes);
}

/* The places of blocks of a row, to `to` if they are transformed. False: one has a coefficient 64. */
KERNEL_FUNCTION bool rows_count(const u8 *row, const struct leat_card_row *at, const struct leat_card_plane *plane,
                                struct leat_card_block *to)
{
    struct leat_card_block next = {0, 0, 0, 0, 0, 0, 0};
    u32 dc_bit = 0, dc = 0;
    u64 beyond = 0;
    const u32 first = plane->x0 - plane->left;
    for (u32 x = 0; x < plane->check1; x++) {
        const u32 head = photo_byte(row + x), bits = head >> 4, ones = (1u << bits) - 1,
                  code = (u32)photo_bits(row + plane->blocks_w, dc_bit) & ones;
        dc += code - (code > ones >> 1 ? 0 : ones);
        dc_bit += bits;
        next.dc = (short)(u16)dc;
        next.mask_bytes = (u16)(head & 15);
        const u64 mask = photo_bits(row + at->mask, 8 * next.mask) & photo_low(8 * next.mask_bytes);
        if (x >= plane->check0)
            beyond |= mask;
        if (to && x >= first && x - first < plane->w)
            to[x - first] = next;
        const u32 n = kernel_ones(mask), escapes = photo_both(row + at->a, row + at->b, next.value, n),
                  bytes = photo_fifteens(row + at->nibble, next.nibble, escapes);
        next.word += photo_255s(row + at->byte, next.byte, bytes);
        next.byte += bytes;
        next.nibble += escapes;
        next.value += n;
        next.mask += next.mask_bytes;
    }
    return !(beyond >> 63);
}

KERNEL_FUNCTION void photo_rows(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u32 rows = photo->form == LEAT_CARD_FAST ? photo->n_rows : 0;
    for (u32 i = s.first; i < rows; i += s.step) {
        u32 c = 0, v = i % photo->rows_per_mcu;
        while (v >= photo->plane[c].v)
            v -= photo->plane[c++].v;
        const struct leat_card_plane *plane = &photo->plane[c];
        const u32 y = (photo->mcu_y + i / photo->rows_per_mcu) * plane->v + v, down = y - plane->y0;
        const bool made = y >= plane->y0 && down < plane->h;
        struct leat_card_block *blocks = (struct leat_card_block *)(s.scratch + photo->blocks_at);
        blocks = made ? blocks + plane->first + down * plane->w : 0;

        const u32 begin = i ? photo_word(s.data + 4 * (i - 1)) : 0, end = photo_word(s.data + 4 * i),
                  ends = 4 * photo->n_rows;
        const bool inside = begin <= end && end <= photo->bytes - LEAT_CARD_PADDING - ends;
        struct leat_card_row at = {0, 0, 0, 0, 0, 0, 0, inside ? ends + begin : ends};
        const u8 *row = s.data + at.begin;
        const bool fits = inside && rows_locate(row, end - begin, plane->blocks_w, &at);
        if (!fits || !rows_count(row, &at, plane, blocks))
            kernel_publish(a.faults + s.number, 1 + photo->mcu_y * photo->rows_per_mcu + i);
        const struct leat_card_block none = {0, 0, 0, 0, 0, 0, 0};
        for (u32 x = 0; !fits && made && x < plane->w; x++)
            blocks[x] = none;
        ((struct leat_card_row *)s.scratch)[i] = at;
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_rows(struct leat_photo_args a)
{
    photo_rows(a);
}
#endif
