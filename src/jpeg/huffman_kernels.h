/*
 * The loops of the entropy decoder, included by one file for each instruction set. What bounds them is the chain from one
 * look into the table to the next: shift, load, shift. A look mostly passes two coefficients (huffman_tables.c), and two
 * streams side by side give the core two chains.
 *
 * A block is left by one branch, which the core guesses wrong most times: `k`, the coefficient that comes next, is 64 or
 * more when the block has ended, when a code is too long for the look, or when a look went too far; what it was is sorted
 * out behind it.
 */
#include "jpeg/huffman_stream.h"

#define LOOK LEAT_JPEG_AC_LOOK
#define INLINE static inline __attribute__((always_inline))

/* Natural order, and 0 for all behind 63: what is written there is overwritten by the DC, which is written last. */
static const uint8_t natural[LEAT_JPEG_ALONE + 64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* Afterwards there are 56 bits or more. */
INLINE void refill(struct leat_jpeg_bits *b)
{
    uint64_t v;
    memcpy(&v, b->p, 8);
    b->acc |= __builtin_bswap64(v) >> (b->n & 63);
    b->p += ~b->n >> 3 & 7;
    b->n |= 56;
}

INLINE void take(struct leat_jpeg_bits *b, uint64_t n)
{
    b->acc <<= n & 63;
    b->n -= n;
}

/* The value that the first `size` bits of t stand for. */
INLINE int32_t extend(uint64_t t, unsigned size)
{
    const uint32_t v = (uint32_t)(t >> 1 >> (63 - size)), negative = (uint32_t)((int64_t)t >> 63) + 1;
    return (int32_t)(v - (((1u << size) - 1) & (0 - negative)));
}

INLINE bool read_dc(struct leat_jpeg_bits *b, const struct leat_jpeg_dc_table *table, int32_t *dc, uint32_t *wrong)
{
    leat_jpeg_code code = table->look[b->acc >> (64 - LEAT_JPEG_DC_LOOK)];
    if (__builtin_expect(!code, 0) && !(code = leat_jpeg_code_of(&table->codes, b->acc)))
        return false;
    const unsigned length = leat_jpeg_code_length(code), size = leat_jpeg_code_size(code);
    *dc = (int32_t)((uint32_t)*dc + (uint32_t)extend(b->acc << length, size));
    *wrong |= ((uint32_t)*dc + 32768) >> 16;
    take(b, length + size);
    return true;
}

/* One look. */
INLINE uint64_t step(struct leat_jpeg_bits *b, const struct leat_jpeg_ac_look *e, uint64_t k, int16_t *block)
{
    if (block) {
        block[natural[k + e->at1]] = e->value1;
        block[natural[k + e->at2]] = e->value2;
    }
    take(b, e->bits);
    return k + e->move;
}

/* One code by itself; returns the next k, ALONE for what cannot be. */
static inline uint64_t one_code(struct leat_jpeg_bits *b, const struct leat_jpeg_ac_table *table, uint64_t k, int16_t *block)
{
    refill(b);
    leat_jpeg_code code = table->code[b->acc >> (64 - LOOK)];
    if (!code && !(code = leat_jpeg_code_of(&table->codes, b->acc)))
        return LEAT_JPEG_ALONE;
    const unsigned length = leat_jpeg_code_length(code), size = leat_jpeg_code_size(code), run = leat_jpeg_code_run(code);
    const int32_t value = extend(b->acc << length, size);
    take(b, length + size);
    if (!size)
        return run < 15 ? k + LEAT_JPEG_END : k + 16 <= 64 ? k + 16 : LEAT_JPEG_ALONE;
    if (k + run > 63)
        return LEAT_JPEG_ALONE;
    if (block)
        block[natural[k + run]] = (int16_t)value;
    return k + run + 1;
}

/* The rest of a block, for which `k` is of those from 64 on; `begin` is before its first AC. Returns the next k: 64, or with END. */
static uint64_t finish(struct leat_jpeg_bits *bits, struct leat_jpeg_bits begin, const struct leat_jpeg_ac_table *table, uint64_t k,
                       int16_t *block)
{
    struct leat_jpeg_bits b = *bits;
    if (k > LEAT_JPEG_ALONE) {
        k -= LEAT_JPEG_ALONE;
        do {
            k = one_code(&b, table, k, block);
            while (k < 64) {
                refill(&b);
                k = step(&b, &table->look[b.acc >> (64 - LOOK)], k, block);
            }
            k -= k > LEAT_JPEG_ALONE ? LEAT_JPEG_ALONE : 0;
        } while (k < 64);
    }
    if (k != 64 && k - LEAT_JPEG_END - 1 > 62) { /* a look took more than the last coefficient, or there is damage */
        b = begin;
        for (k = 1; k < 64;)
            k = one_code(&b, table, k, block);
    }
    *bits = b;
    return k;
}

INLINE bool is_end(uint64_t k)
{
    return k - LEAT_JPEG_END - 1 <= 62;
}

/* The AC coefficients of a block (NULL: read over), its DC having been read from 56 bits. The place of the last one, or below 0. */
INLINE int read_ac(struct leat_jpeg_bits *bits, const struct leat_jpeg_ac_table *table, int16_t *block)
{
    struct leat_jpeg_bits b = *bits;
    const struct leat_jpeg_bits begin = b;
    uint64_t k = 1;
    for (;;) {
#define STEP()                                                                                                                             \
    k = step(&b, &table->look[b.acc >> (64 - LOOK)], k, block);                                                                            \
    if (k >= 64)                                                                                                                           \
    break
        STEP();
        STEP();
        refill(&b);
        STEP();
        STEP();
        STEP();
#undef STEP
    }
    if (__builtin_expect(!is_end(k) && k != 64, 0)) {
        struct leat_jpeg_bits copy = b;
        k = finish(&copy, begin, table, k, block);
        b = copy;
    }
    *bits = b;
    return is_end(k) ? (int)k - (int)LEAT_JPEG_END - 1 : k == 64 ? 63 : -1;
}

/* ---- one stream ----------------------------------------------------------------------------------------------------- */

/* Whether the next MCU may be read. */
INLINE bool may_read(struct leat_jpeg_stream *s, struct leat_jpeg_bits *b)
{
    if (__builtin_expect(b->p > s->limit, 0)) {
        s->bits = *b;
        const bool more = leat_jpeg_stream_more(s);
        *b = s->bits;
        return more;
    }
    return true;
}

INLINE bool skip_mcus(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n)
{
    struct leat_jpeg_bits b = s->bits;
    while (n--) {
        if (!may_read(s, &b))
            return false;
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            refill(&b);
            if (!read_dc(&b, mcu->block[i].dc, &s->dc[mcu->block[i].component], &s->wrong) || read_ac(&b, mcu->block[i].ac, NULL) < 0)
                return false;
        }
    }
    s->bits = b;
    return true;
}

INLINE bool read_mcus(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n, struct leat_jpeg_places *to, bool ac)
{
    struct leat_jpeg_bits b = s->bits;
    while (n--) {
        if (!may_read(s, &b))
            return false;
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            int16_t *const block = __builtin_assume_aligned(to->block[i].coefficients, 64);
            int32_t *const dc = &s->dc[mcu->block[i].component];
            memset(block, 0, 128);
            refill(&b);
            if (!read_dc(&b, mcu->block[i].dc, dc, &s->wrong))
                return false;
            const int last = read_ac(&b, mcu->block[i].ac, ac ? block : NULL);
            if (last < 0)
                return false;
            block[0] = (int16_t)*dc;
            *to->block[i].last = (uint8_t)(ac ? last : 0);
            to->block[i].coefficients += 64 * to->block[i].step;
            to->block[i].last += to->block[i].last_step;
        }
    }
    s->bits = b;
    return true;
}

/* ---- two streams ---------------------------------------------------------------------------------------------------- */

/* A block of each, with the same tables: looks by turns, until both have ended; the one that has ended earlier looks at an entry that
 * takes nothing. So a pair of blocks costs one wrong guess. */
INLINE bool read_ac_two(struct leat_jpeg_bits *bits_a, struct leat_jpeg_bits *bits_b, const struct leat_jpeg_ac_table *table,
                        int16_t *block_a, int16_t *block_b, int last[2])
{
    struct leat_jpeg_bits a = *bits_a, b = *bits_b;
    const struct leat_jpeg_bits begin_a = a, begin_b = b;
    uint64_t ka = 1, kb = 1;
    const struct leat_jpeg_ac_look *look = table->look;
#define STEP()                                                                                                                             \
    ka = step(&a, &look[ka < 64 ? a.acc >> (64 - LOOK) : 1u << LOOK], ka, block_a);                                                        \
    kb = step(&b, &look[kb < 64 ? b.acc >> (64 - LOOK) : 1u << LOOK], kb, block_b)
    for (;;) {
        STEP();
        STEP();
        if (ka >= 64 && kb >= 64)
            break;
        refill(&a);
        refill(&b);
        STEP();
        STEP();
        if (ka >= 64 && kb >= 64)
            break;
    }
#undef STEP
    if (__builtin_expect(!is_end(ka) && ka != 64, 0)) {
        struct leat_jpeg_bits copy = a;
        ka = finish(&copy, begin_a, table, ka, block_a);
        a = copy;
    }
    if (__builtin_expect(!is_end(kb) && kb != 64, 0)) {
        struct leat_jpeg_bits copy = b;
        kb = finish(&copy, begin_b, table, kb, block_b);
        b = copy;
    }
    *bits_a = a;
    *bits_b = b;
    last[0] = is_end(ka) ? (int)ka - (int)LEAT_JPEG_END - 1 : 63;
    last[1] = is_end(kb) ? (int)kb - (int)LEAT_JPEG_END - 1 : 63;
    return (is_end(ka) || ka == 64) && (is_end(kb) || kb == 64);
}

INLINE bool skip_mcus_two(struct leat_jpeg_stream *sa, struct leat_jpeg_stream *sb, const struct leat_jpeg_mcu *mcu, uint32_t n)
{
    struct leat_jpeg_bits a = sa->bits, b = sb->bits;
    while (n--) {
        if (!may_read(sa, &a) || !may_read(sb, &b))
            return false;
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            int last[2];
            refill(&a);
            refill(&b);
            if (!read_dc(&a, mcu->block[i].dc, &sa->dc[mcu->block[i].component], &sa->wrong) ||
                !read_dc(&b, mcu->block[i].dc, &sb->dc[mcu->block[i].component], &sb->wrong) ||
                !read_ac_two(&a, &b, mcu->block[i].ac, NULL, NULL, last))
                return false;
        }
    }
    sa->bits = a;
    sb->bits = b;
    return true;
}

INLINE bool read_mcus_two(struct leat_jpeg_stream *sa, struct leat_jpeg_stream *sb, const struct leat_jpeg_mcu *mcu, uint32_t n,
                          struct leat_jpeg_places *to_a, struct leat_jpeg_places *to_b)
{
    struct leat_jpeg_bits a = sa->bits, b = sb->bits;
    while (n--) {
        if (!may_read(sa, &a) || !may_read(sb, &b))
            return false;
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            int16_t *const block_a = __builtin_assume_aligned(to_a->block[i].coefficients, 64);
            int16_t *const block_b = __builtin_assume_aligned(to_b->block[i].coefficients, 64);
            int32_t *const dc_a = &sa->dc[mcu->block[i].component], *const dc_b = &sb->dc[mcu->block[i].component];
            int last[2];
            memset(block_a, 0, 128);
            memset(block_b, 0, 128);
            refill(&a);
            refill(&b);
            if (!read_dc(&a, mcu->block[i].dc, dc_a, &sa->wrong) || !read_dc(&b, mcu->block[i].dc, dc_b, &sb->wrong) ||
                !read_ac_two(&a, &b, mcu->block[i].ac, block_a, block_b, last))
                return false;
            block_a[0] = (int16_t)*dc_a;
            block_b[0] = (int16_t)*dc_b;
            *to_a->block[i].last = (uint8_t)last[0];
            *to_b->block[i].last = (uint8_t)last[1];
            to_a->block[i].coefficients += 64 * to_a->block[i].step;
            to_b->block[i].coefficients += 64 * to_b->block[i].step;
            to_a->block[i].last += to_a->block[i].last_step;
            to_b->block[i].last += to_b->block[i].last_step;
        }
    }
    sa->bits = a;
    sb->bits = b;
    return true;
}

/* What a file of an instruction set defines; the loops are inlined, so that they are compiled with its `attributes`. */
#define LEAT_JPEG_HUFFMAN_KERNELS(name, attributes)                                                                                        \
    attributes static bool skip(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n)                                   \
    {                                                                                                                                      \
        return skip_mcus(s, mcu, n);                                                                                                       \
    }                                                                                                                                      \
    attributes static bool skip_two(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b, const struct leat_jpeg_mcu *mcu, uint32_t n)   \
    {                                                                                                                                      \
        return skip_mcus_two(a, b, mcu, n);                                                                                                \
    }                                                                                                                                      \
    attributes static bool read(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n, struct leat_jpeg_places *to,      \
                                bool ac)                                                                                                   \
    {                                                                                                                                      \
        return ac ? read_mcus(s, mcu, n, to, true) : read_mcus(s, mcu, n, to, false);                                                      \
    }                                                                                                                                      \
    attributes static bool read_two(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b, const struct leat_jpeg_mcu *mcu, uint32_t n,   \
                                    struct leat_jpeg_places *to_a, struct leat_jpeg_places *to_b)                                          \
    {                                                                                                                                      \
        return read_mcus_two(a, b, mcu, n, to_a, to_b);                                                                                    \
    }                                                                                                                                      \
    const struct leat_jpeg_huffman_kernels name = {skip, skip_two, read, read_two}
