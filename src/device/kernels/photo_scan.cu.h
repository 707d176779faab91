/*
 * Entropy decoding of JPEGs as they came: a thread for each place at which the row index lets a decoder begin, up to
 * the next one. It reads MCUs as huffman_kernels.h does, one code after the other, and keeps the blocks that are
 * transformed. Bits begin with the highest of a byte, and the coded bytes have neither stuffed zeros nor restart
 * markers: behind the last MCU before a marker, bits go on at the next byte. All bytes may be any, as in photo_rows: no
 * more than an MCU is read behind their end, as zeros.
 */
#include "device/kernels/photo_coded.cu.h"

/* `acc` holds the next n bits from the highest on, and zeros. */
struct scan_bits {
    const u8 *data;  /* at a multiple of 4 */
    u32 word, words; /* that comes next */
    u32 n;
    u64 acc;
};

KERNEL_FUNCTION void scan_refill(struct scan_bits *b)
{
    if (b->n > 32)
        return;
    const u32 w = b->word < b->words ? photo_word(b->data + 4 * (u64)b->word) : 0;
    b->acc |= (u64)(w << 24 | (w & 0xff00) << 8 | (w >> 8 & 0xff00) | w >> 24) << (32 - b->n);
    b->n += 32;
    b->word++;
}

KERNEL_FUNCTION void scan_take(struct scan_bits *b, u32 n)
{
    b->acc <<= n;
    b->n -= n;
}

KERNEL_FUNCTION u64 scan_place(const struct scan_bits *b) /* of the next bit */
{
    return 32 * (u64)b->word - b->n;
}

/* The codes of a plane's tables. */
struct scan_codes {
    const u8 *table, *look;
};
KERNEL_FUNCTION struct scan_codes scan_codes_of(const struct photo_share *s, u32 number)
{
    struct scan_codes c;
    c.table = s->data + s->photo->n_starts * sizeof(struct leat_card_start) + number * sizeof(struct leat_card_codes);
    c.look = s->scratch + s->photo->codes_at + 2 * ((u64)number << LEAT_CARD_LOOK);
    return c;
}

/* Takes a code: *value. At least 16 bits stay in `acc`. False: there is no such code. */
KERNEL_FUNCTION bool scan_code(struct scan_bits *b, const struct scan_codes *codes, u32 *value)
{
    u32 code;
    scan_refill(b);
    kernel_load(codes->look + 2 * (b->acc >> (64 - LEAT_CARD_LOOK)), 2, &code);
    if (!code)
        code = coded_find(codes->table, (u32)(b->acc >> 32), 16);
    scan_take(b, code & 31);
    *value = code >> 5;
    return code;
}

/* Takes the number that `size` bits, 0 to 15, stand for. */
KERNEL_FUNCTION int scan_number(struct scan_bits *b, u32 size)
{
    if (!size)
        return 0;
    const u32 bits = (u32)(b->acc >> (64 - size));
    scan_take(b, size);
    return (int)(bits >> (size - 1) ? bits : bits + 1 - (1u << size));
}

/* The coefficients 1 to 63 of a block; `to` is 0 if they are not kept. *mask has those that are not 0. */
KERNEL_FUNCTION bool scan_ac(struct scan_bits *b, const struct scan_codes *codes, u8 *to, u64 *mask)
{
    u32 k = 1, value;
    *mask = 0;
    while (k < 64) {
        if (!scan_code(b, codes, &value))
            return false;
        const u32 size = value & 15, run = value >> 4;
        if (!size) {
            if (run < 15)
                return true;
            k += 16;
            if (k > 64)
                return false;
            continue;
        }
        k += run;
        if (k > 63)
            return false;
        const u32 number = (u32)scan_number(b, size);
        if (to)
            kernel_store(to + 2 * k, 2, &number);
        *mask |= (u64)1 << (k - 1);
        k++;
    }
    return true;
}

/* A block; *dc is its predictor. */
KERNEL_FUNCTION bool scan_block(struct scan_bits *b, const struct photo_share *s, const struct leat_card_plane *plane,
                                int *dc, u32 block, bool kept)
{
    struct scan_codes codes = scan_codes_of(s, plane->dc);
    u8 *const to = kept ? s->scratch + s->photo->coefficients_at + 128 * (u64)block : 0;
    const u32 zeros[4] = {0, 0, 0, 0};
    u32 size;
    u64 mask;
    for (u32 i = 0; to && i < 128; i += 16)
        kernel_store(to + i, 16, zeros);
    if (!scan_code(b, &codes, &size) || size > 15)
        return false;
    *dc += scan_number(b, size);
    codes = scan_codes_of(s, plane->ac);
    if (*dc < -32768 || *dc > 32767 || !scan_ac(b, &codes, to, &mask))
        return false;
    if (to) {
        const u32 first = (u32)*dc;
        struct leat_card_block at = {0, 0, 0, 0, 0, 0, 0};
        at.mask = (mask & PHOTO_BELOW) != 0;
        kernel_store(to, 2, &first);
        ((struct leat_card_block *)(s->scratch + s->photo->blocks_at))[block] = at;
    }
    return true;
}

/* The state of a thread: predictors are 16 bits each. */
struct scan_state {
    struct scan_bits bits;
    u64 dc;
    u32 left;
};

/* Goes on behind a restart marker, if one is due. */
KERNEL_FUNCTION void scan_restart(struct scan_state *t, u32 interval)
{
    if (interval && !t->left) {
        scan_take(&t->bits, t->bits.n % 8);
        t->dc = 0;
        t->left = interval;
    }
}

KERNEL_FUNCTION bool scan_mcu(struct scan_state *t, const struct photo_share *s, u32 x, u32 y)
{
    const struct leat_card_photo *photo = s->photo;
    scan_restart(t, photo->interval);
    t->left--;
    for (u32 c = 0; c < photo->n_planes; c++) {
        const struct leat_card_plane *plane = &photo->plane[c];
        int dc = (short)(u16)(t->dc >> 16 * c);
        for (u32 i = 0; i < plane->v * plane->across_mcu; i++) {
            const u32 right = x * plane->across_mcu + i % plane->across_mcu - plane->x0,
                      down = y * plane->v + i / plane->across_mcu - plane->y0;
            if (!scan_block(&t->bits, s, plane, &dc, plane->first + down * plane->w + right,
                            right < plane->w && down < plane->h))
                return false;
        }
        t->dc = (t->dc & ~((u64)0xffff << 16 * c)) | (u64)(u16)dc << 16 * c;
    }
    return scan_place(&t->bits) <= 32 * (u64)t->bits.words;
}

KERNEL_FUNCTION void photo_scan(struct leat_photo_args a)
{
    const struct photo_share s = photo_share_of(&a);
    const struct leat_card_photo *photo = s.photo;
    const u32 starts = photo->form == LEAT_CARD_CODED ? photo->n_starts : 0,
              before =
                  (u32)(starts * sizeof(struct leat_card_start) + photo->n_tables * sizeof(struct leat_card_codes));
    for (u32 i = s.first; i < starts; i += s.step) {
        const struct leat_card_start *const start = (const struct leat_card_start *)s.data + i;
        const u32 end = photo->mcu_y + photo->n_rows / photo->rows_per_mcu;
        u32 y = (photo->mcu_y / photo->rows_per_start + i) * photo->rows_per_start;
        const u32 next = end - y < photo->rows_per_start ? end : y + photo->rows_per_start;
        struct scan_state t;
        t.bits.data = s.data + before;
        t.bits.words = (photo->bytes - before - LEAT_CARD_PADDING) / 4 + 1;
        t.bits.word = start->bit / 32;
        t.bits.n = 0;
        t.bits.acc = 0;
        t.left = start->left;
        t.dc = (u64)(u16)start->dc[0] | (u64)(u16)start->dc[1] << 16 | (u64)(u16)start->dc[2] << 32;
        scan_refill(&t.bits);
        scan_take(&t.bits, start->bit % 32);
        bool good = true;
        for (; good && y < next; y++)
            for (u32 x = 0; good && x < (y + 1 < end ? photo->mcus_w : photo->mcu_x1); x++)
                good = scan_mcu(&t, &s, x, y);
        if (good && i + 1 < starts) {
            scan_restart(&t, photo->interval);
            good = scan_place(&t.bits) == start[1].bit;
        }
        if (!good)
            kernel_publish(a.faults + s.number, y);
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_photo_scan(struct leat_photo_args a)
{
    photo_scan(a);
}
#endif
