/*
 * The loops of the entropy decoder, included by one file for each instruction set. The bound is the chain from one look
 * into the table to the next: shift, load, shift. A look mostly passes two coefficients (huffman_tables.c), and two
 * streams side by side give the core two chains.
 *
 * A block is left by one branch, which the core guesses wrong most times: `k`, the coefficient that comes next, is 64
 * or more when the block has ended, when a code is too long for the look, or when a look went too far; the code behind
 * it finds out which. The next block waits for its DC, which is read before the rest of this one is done.
 *
 * A file that includes this defines TARGET, the attribute of all functions.
 */
#include "codec/jpeg/huffman_stream.h"

#define LOOK LEAT_JPEG_AC_LOOK
#define INLINE TARGET static inline __attribute__((always_inline))

/* Natural order, and 0 for all behind 63: values written there are overwritten by the DC, which is written last. */
static const uint8_t natural[256] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* Afterwards there are 56 bits or more. */
INLINE void refill(struct leat_jpeg_bit_reader *b)
{
    uint64_t v;
    memcpy(&v, b->p, 8);
    b->acc |= __builtin_bswap64(v) >> (b->n & 63);
    b->p += ~b->n >> 3 & 7;
    b->n |= 56;
}

INLINE void take(struct leat_jpeg_bit_reader *b, uint64_t n)
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

/* The difference that comes next. */
INLINE bool read_dc(struct leat_jpeg_bit_reader *b, const struct leat_jpeg_dc_table *table, int32_t *difference)
{
    refill(b);
    const union leat_jpeg_dc_look *e = &table->look[b->acc >> (64 - LEAT_JPEG_DC_LOOK)];
    const uint64_t acc = b->acc, all = e->all;
    b->acc <<= all & 63;
    b->n -= all;
    *difference = e->value + (int32_t)((uint32_t)(acc >> (-all & 63)) & ((1u << e->more) - 1));
    if (__builtin_expect(!all, 0)) {
        const leat_jpeg_code code = leat_jpeg_code_of(&table->codes, 1, acc);
        const unsigned length = leat_jpeg_code_length(code), size = leat_jpeg_code_size(code);
        *difference = extend(acc << length, size);
        take(b, length + size);
        return code;
    }
    return true;
}

/* Adds it to its predictor. */
INLINE int16_t add_dc(int32_t *dc, int32_t difference, uint32_t *wrong)
{
    *dc = (int32_t)((uint32_t)*dc + (uint32_t)difference);
    *wrong |= (uint32_t)*dc + 32768; /* not 0 in the high half: beyond 16 bits */
    return (int16_t)*dc;
}

/* In vectors; for memset, compilers take a loop of the microcode. */
INLINE void clear(int16_t *block)
{
    typedef uint64_t lanes __attribute__((vector_size(32), may_alias));
    lanes *const p = __builtin_assume_aligned(block, 64);
    p[0] = p[1] = p[2] = p[3] = (lanes){0};
}

/* The code below reads the fields of an entry from memory: the core loads more in a cycle than it shifts, and compilers
 * would shift them out of an earlier load. */
INLINE const union leat_jpeg_ac_look *again(const union leat_jpeg_ac_look *e)
{
    __asm__("" : "+r"(e));
    return e;
}

/* Writes the result of a look at `acc` behind `at` in natural order. */
INLINE void write(const union leat_jpeg_ac_look *e, uint64_t acc, const uint8_t *at, int16_t *block)
{
    const uint32_t more = (uint32_t)(acc >> (-e->bits & 63)) & ((1u << e->more) - 1);
    const uint64_t at1 = at[e->at1], at2 = at[e->at2];
    const int32_t value1 = e->value1, value2 = e->value2;
    block[at1] = (int16_t)(value1 + (int32_t)more);
    block[at2] = (int16_t)value2;
}

/* One look. `all` has the bits to take lowest, where shifts look for them. */
INLINE uint64_t step(struct leat_jpeg_bit_reader *b, const union leat_jpeg_ac_look *e, uint64_t k, int16_t *block,
                     bool keep)
{
    const uint64_t all = e->all, acc = b->acc;
    b->acc <<= all & 63;
    b->n -= all;
    e = again(e);
    if (keep)
        write(e, acc, natural + k, block);
    return k + e->move;
}

/* Whether k is that of a block that has ended before its last coefficient. */
INLINE bool is_end(uint64_t k)
{
    return k - LEAT_JPEG_END - 1 <= 62;
}

/* The last coefficient of a block that has ended; below 0: it has not. */
INLINE int last_of(uint64_t k)
{
    if (__builtin_expect(is_end(k), 1))
        return (int)k - (int)LEAT_JPEG_END - 1;
    return k == 64 ? 63 : -1;
}

/* One code by itself; the next k is ALONE for an impossible one. */
INLINE uint64_t one_code(struct leat_jpeg_bit_reader *b, const struct leat_jpeg_ac_table *table, uint64_t k,
                         int16_t *block, bool keep)
{
    refill(b);
    leat_jpeg_code code = table->code[b->acc >> (64 - LOOK)];
    if (!code)
        code = leat_jpeg_code_of(&table->codes, LOOK + 1, b->acc);
    const unsigned length = leat_jpeg_code_length(code), size = leat_jpeg_code_size(code),
                   run = leat_jpeg_code_run(code);
    const int32_t value = extend(b->acc << length, size);
    take(b, length + size);
    if (!size)
        return !code ? LEAT_JPEG_ALONE : run < 15 ? k + LEAT_JPEG_END : k + 16 <= 64 ? k + 16 : LEAT_JPEG_ALONE;
    if (k + run > 63)
        return LEAT_JPEG_ALONE;
    if (keep)
        block[natural[k + run]] = (int16_t)value;
    return k + run + 1;
}

/* Bits and the coefficient that comes next. */
struct place {
    struct leat_jpeg_bit_reader bits;
    uint64_t k;
};

/* Reads to the end of a block, in which a look has taken more than the last coefficient, from a place before that
 * look. */
TARGET static struct place read_again(struct place at, const struct leat_jpeg_ac_table *table, int16_t *block,
                                      bool keep)
{
    while (at.k < 64) {
        refill(&at.bits);
        struct place next = at;
        next.k = step(&next.bits, &table->look[at.bits.acc >> (64 - LOOK)], at.k, block, keep);
        if (next.k > 64 && !is_end(next.k))
            at.k = one_code(&at.bits, table, at.k, block, keep);
        else
            at = next;
    }
    return at;
}

/* The AC coefficients of a block (not to `keep`: read over), its DC having been read from 56 bits. The place of the
 * last one, or below 0. */
INLINE int read_ac(struct leat_jpeg_bit_reader *bits, const struct leat_jpeg_ac_table *table, int16_t *block, bool keep)
{
    struct leat_jpeg_bit_reader b = *bits;
    const union leat_jpeg_ac_look *const look = again(table->look);
    uint64_t k = 1;
    struct place before = {b, k};
    for (;;) {
        for (;;) {
#define STEP()                                                                                                         \
    k = step(&b, &look[b.acc >> (64 - LOOK)], k, block, keep);                                                         \
    if (k >= 64)                                                                                                       \
    break
            STEP();
            refill(&b);
            before = (struct place){b, k};
            STEP();
            STEP();
            STEP();
            refill(&b);
            before = (struct place){b, k};
            STEP();
            STEP();
#undef STEP
        }
        if (__builtin_expect(is_end(k) || k == 64, 1))
            break;
        if (k > LEAT_JPEG_ALONE) {
            k = one_code(&b, table, k - LEAT_JPEG_ALONE, block, keep);
        } else {
            const struct place at = read_again(before, table, block, keep);
            b = at.bits;
            k = at.k;
        }
        if (k >= 64)
            break;
        refill(&b);
    }
    *bits = b;
    return last_of(k);
}

/* ---- one stream ------------------------------------------------------------------------------ */

/* Whether the next MCU may be read. */
INLINE bool may_read(struct leat_jpeg_stream *s, struct leat_jpeg_bit_reader *b)
{
    if (__builtin_expect(b->p > s->limit, 0)) {
        s->bits = *b;
        const bool more = leat_jpeg_stream_more(s);
        *b = s->bits;
        return more;
    }
    return true;
}

/* Without `keep`, blocks are read over; without `ac`, blocks of nothing but a DC are made. */
INLINE bool read_mcus(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n,
                      struct leat_jpeg_places *to, bool keep, bool ac)
{
    struct leat_jpeg_bit_reader b = s->bits;
    uint32_t wrong = 0;
    int32_t difference, next = 0;
    if (!may_read(s, &b) || !read_dc(&b, mcu->block[0].dc, &difference))
        return false;
    for (;;) {
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            int16_t *const block = keep ? to->block[i].coefficients : NULL;
            if (keep)
                clear(block);
            const int last = read_ac(&b, mcu->block[i].ac, block, keep && ac);
            if (last < 0)
                return false;
            if (i + 1 < mcu->n_blocks && !read_dc(&b, mcu->block[i + 1].dc, &next))
                return false;
            const int16_t dc = add_dc(&s->dc[mcu->block[i].component], difference, &wrong);
            difference = next;
            if (keep) {
                block[0] = dc;
                *to->block[i].last = (uint8_t)(ac ? last : 0);
                to->block[i].coefficients += 64 * to->block[i].step;
                to->block[i].last += to->block[i].last_step;
            }
        }
        if (!--n)
            break;
        if (!may_read(s, &b) || !read_dc(&b, mcu->block[0].dc, &difference))
            return false;
    }
    s->bits = b;
    return wrong < 1u << 16;
}

/* ---- two streams ----------------------------------------------------------------------------- */

/* A look of one stream; `k` is 64 less than the coefficient that comes next. Once a block has ended nothing is taken
 * any more. Values written behind a block's end go to the place of the DC. */
INLINE int64_t step_two(struct leat_jpeg_bit_reader *b, const union leat_jpeg_ac_look *look, int64_t k, int16_t *block,
                        bool keep)
{
    const uint64_t acc = b->acc;
    const union leat_jpeg_ac_look *e = &look[acc >> (64 - LOOK)];
    const uint64_t all = e->all & (uint64_t)(k >> 63);
    b->acc <<= all & 63;
    b->n -= all;
    if (keep)
        write(again(e), acc, natural + 64 + k, block);
    return k + (int64_t)(all >> 56);
}

/* A code that was ALONE. */
INLINE int64_t one_code_two(struct leat_jpeg_bit_reader *b, const struct leat_jpeg_ac_table *table, int64_t k,
                            int16_t *block, bool keep)
{
    return (int64_t)one_code(b, table, (uint64_t)k + 64 - LEAT_JPEG_ALONE, block, keep) - 64;
}

/* A block of each, with the same tables: looks by turns until both have ended, so a pair of blocks costs one wrong
 * guess. */
INLINE bool read_ac_two(struct leat_jpeg_bit_reader *bits_a, struct leat_jpeg_bit_reader *bits_b,
                        const struct leat_jpeg_ac_table *table, int16_t *block_a, int16_t *block_b, bool keep,
                        int last[2])
{
    struct leat_jpeg_bit_reader a = *bits_a, b = *bits_b;
    const struct leat_jpeg_bit_reader begin_a = a, begin_b = b;
    const union leat_jpeg_ac_look *const look = again(table->look);
    int64_t ka = 1 - 64, kb = 1 - 64;
#define STEP()                                                                                                         \
    ka = step_two(&a, look, ka, block_a, keep);                                                                        \
    kb = step_two(&b, look, kb, block_b, keep)
    STEP();
    do {
        refill(&a);
        refill(&b);
        STEP();
        STEP();
        STEP();
        if (__builtin_expect(ka + 64 > (int64_t)LEAT_JPEG_ALONE, 0))
            ka = one_code_two(&a, table, ka, block_a, keep);
        if (__builtin_expect(kb + 64 > (int64_t)LEAT_JPEG_ALONE, 0))
            kb = one_code_two(&b, table, kb, block_b, keep);
    } while ((ka | kb) < 0);
#undef STEP
    uint64_t end_a = (uint64_t)ka + 64, end_b = (uint64_t)kb + 64;
    if (__builtin_expect(!is_end(end_a) && ka && end_a != LEAT_JPEG_ALONE, 0)) {
        const struct place at = read_again((struct place){begin_a, 1}, table, block_a, keep);
        a = at.bits;
        end_a = at.k;
    }
    if (__builtin_expect(!is_end(end_b) && kb && end_b != LEAT_JPEG_ALONE, 0)) {
        const struct place at = read_again((struct place){begin_b, 1}, table, block_b, keep);
        b = at.bits;
        end_b = at.k;
    }
    *bits_a = a;
    *bits_b = b;
    last[0] = last_of(end_a);
    last[1] = last_of(end_b);
    return last[0] >= 0 && last[1] >= 0;
}

/* Without `keep`, blocks are read over. */
INLINE bool read_mcus_two(struct leat_jpeg_stream *sa, struct leat_jpeg_stream *sb, const struct leat_jpeg_mcu *mcu,
                          uint32_t n, struct leat_jpeg_places *to_a, struct leat_jpeg_places *to_b, bool keep)
{
    struct leat_jpeg_bit_reader a = sa->bits, b = sb->bits;
    uint32_t wrong = 0;
    int32_t difference_a, difference_b, next_a = 0, next_b = 0;
    if (!may_read(sa, &a) || !may_read(sb, &b) || !read_dc(&a, mcu->block[0].dc, &difference_a) ||
        !read_dc(&b, mcu->block[0].dc, &difference_b))
        return false;
    for (;;) {
        for (unsigned i = 0; i < mcu->n_blocks; i++) {
            int16_t *const block_a = keep ? to_a->block[i].coefficients : NULL, *const block_b =
                                                                                    keep ? to_b->block[i].coefficients
                                                                                         : NULL;
            int last[2];
            if (keep) {
                clear(block_a);
                clear(block_b);
            }
            if (!read_ac_two(&a, &b, mcu->block[i].ac, block_a, block_b, keep, last))
                return false;
            if (i + 1 < mcu->n_blocks &&
                (!read_dc(&a, mcu->block[i + 1].dc, &next_a) || !read_dc(&b, mcu->block[i + 1].dc, &next_b)))
                return false;
            const int16_t dc_a = add_dc(&sa->dc[mcu->block[i].component], difference_a, &wrong);
            const int16_t dc_b = add_dc(&sb->dc[mcu->block[i].component], difference_b, &wrong);
            difference_a = next_a;
            difference_b = next_b;
            if (keep) {
                block_a[0] = dc_a;
                block_b[0] = dc_b;
                *to_a->block[i].last = (uint8_t)last[0];
                *to_b->block[i].last = (uint8_t)last[1];
                to_a->block[i].coefficients += 64 * to_a->block[i].step;
                to_b->block[i].coefficients += 64 * to_b->block[i].step;
                to_a->block[i].last += to_a->block[i].last_step;
                to_b->block[i].last += to_b->block[i].last_step;
            }
        }
        if (!--n)
            break;
        if (!may_read(sa, &a) || !may_read(sb, &b) || !read_dc(&a, mcu->block[0].dc, &difference_a) ||
            !read_dc(&b, mcu->block[0].dc, &difference_b))
            return false;
    }
    sa->bits = a;
    sb->bits = b;
    return wrong < 1u << 16;
}

/* The definitions of a file of an instruction set. */
#define LEAT_JPEG_HUFFMAN_KERNELS(name)                                                                                \
    TARGET static bool skip(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n)                   \
    {                                                                                                                  \
        return read_mcus(s, mcu, n, NULL, false, false);                                                               \
    }                                                                                                                  \
    TARGET static bool skip_two(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b,                                \
                                const struct leat_jpeg_mcu *mcu, uint32_t n)                                           \
    {                                                                                                                  \
        return read_mcus_two(a, b, mcu, n, NULL, NULL, false);                                                         \
    }                                                                                                                  \
    TARGET static bool read(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n,                   \
                            struct leat_jpeg_places *to, bool ac)                                                      \
    {                                                                                                                  \
        return ac ? read_mcus(s, mcu, n, to, true, true) : read_mcus(s, mcu, n, to, true, false);                      \
    }                                                                                                                  \
    TARGET static bool read_two(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b,                                \
                                const struct leat_jpeg_mcu *mcu, uint32_t n, struct leat_jpeg_places *to_a,            \
                                struct leat_jpeg_places *to_b)                                                         \
    {                                                                                                                  \
        return read_mcus_two(a, b, mcu, n, to_a, to_b, true);                                                          \
    }                                                                                                                  \
    const struct leat_jpeg_huffman_kernels name = {skip, skip_two, read, read_two}
