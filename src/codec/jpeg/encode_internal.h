/* The common part of encode.c and the inner loops of each instruction set. */
#ifndef LEAT_CODEC_JPEG_ENCODE_INTERNAL_H
#define LEAT_CODEC_JPEG_ENCODE_INTERNAL_H

#include <string.h>

#include "codec/jpeg/encode.h"

/*
 * A scan is coded in two steps: blocks become *items*, and items become bits. An item is a place in one table of
 * entries
 *
 *     AC table 0 | ... | AC table 3 | DC table 0 | ... | DC table 3 | escapes
 *
 * where code and value of all usual coefficients stand ready: for a run below 16 and a value in [-255, 255], and for a
 * difference of DC in the same range. Other ones put entries of their own among the escapes. So both steps go on
 * without a look at the contents of a block, and the second has no branches.
 *
 * An entry is bits << 8 | their number, at most 24; LEAT_JPEG_NO_CODE if the Huffman table has no such code.
 */
#define LEAT_JPEG_NO_CODE 0x40u
#define LEAT_JPEG_AC_ENTRIES                                                                                           \
    8192u /* run * 512 + value + 256; value 0 of run 0 is the end of a block, of run 15 sixteen zeros */
#define LEAT_JPEG_DC_ENTRIES 512u /* difference + 256 */
#define LEAT_JPEG_ESCAPES 4096u
#define LEAT_JPEG_FIRST_DC (4 * LEAT_JPEG_AC_ENTRIES)
#define LEAT_JPEG_FIRST_ESCAPE (LEAT_JPEG_FIRST_DC + 4 * LEAT_JPEG_DC_ENTRIES)
#define LEAT_JPEG_ENTRIES (LEAT_JPEG_FIRST_ESCAPE + LEAT_JPEG_ESCAPES)

#define LEAT_JPEG_ITEMS 4096
/* No block has more: two for each coefficient, three for a run; a vector of them may be written behind the last. */
#define LEAT_JPEG_BLOCK_ITEMS 134
#define LEAT_JPEG_MCU_ITEMS (LEAT_JPEG_MCU_BLOCKS * LEAT_JPEG_BLOCK_ITEMS + 64)

/* Codes of symbols, as entries. */
struct leat_jpeg_codes {
    struct leat_jpeg_symbols source;
    uint32_t of[256];
};

/* Bits that wait: the next to go out is the highest of acc; below the n bits it is 0. Whole bytes are written to p, 8
 * at a time, without the zeros that stuffing puts behind 0xff: the sink does that. */
struct leat_jpeg_bit_writer {
    uint64_t acc;
    unsigned n;
    uint8_t *p;
};
/* At most 56 bits, together with those that wait; then flush. */
static inline void leat_jpeg_bits_add(struct leat_jpeg_bit_writer *b, uint64_t value, unsigned count)
{
    b->n += count;
    b->acc |= value << ((64 - b->n) & 63);
}
static inline void leat_jpeg_bits_flush(struct leat_jpeg_bit_writer *b)
{
    uint64_t bytes = b->acc;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(b->p, &bytes, 8);
    b->p += b->n >> 3;
    b->acc <<= b->n & 56;
    b->n &= 7;
}
static inline void leat_jpeg_bits_put(struct leat_jpeg_bit_writer *b, uint64_t value, unsigned count)
{
    leat_jpeg_bits_add(b, value, count);
    leat_jpeg_bits_flush(b);
}

/* The size of a value: the number of bits of its magnitude. */
static inline unsigned leat_jpeg_size(unsigned magnitude)
{
    return magnitude ? 32u - (unsigned)__builtin_clz(magnitude) : 0;
}
/* The bits of a value that follow its code. */
static inline uint32_t leat_jpeg_value_bits(int value, unsigned size)
{
    return (uint32_t)(value - (value < 0)) & ((1u << size) - 1);
}

/* [row][bits of its eight coefficients]: the same bits in zigzag order. */
typedef uint64_t leat_jpeg_zigzag_bits[256];

/* `present`: bit k, the k-th coefficient in natural order is not 0. The same in zigzag order, without DC. */
static inline uint64_t leat_jpeg_zigzag_mask(const leat_jpeg_zigzag_bits *bits, uint64_t present)
{
    uint64_t mask = 0;
    for (unsigned row = 0; row < 8; row++)
        mask |= bits[row][present >> (8 * row) & 255];
    return mask & ~UINT64_C(1);
}

/* The blocks of one row of a sequential scan, and the items that come of them. */
struct leat_jpeg_sequence {
    unsigned blocks; /* of an MCU */
    struct leat_jpeg_sequence_block {
        const int16_t *at; /* in the first MCU of the row */
        size_t step;       /* coefficients from MCU to MCU */
        unsigned place;    /* whose predictor */
        uint16_t dc, ac;   /* first entries of the tables */
        const uint32_t *dc_code, *ac_code;
    } block[LEAT_JPEG_MCU_BLOCKS];
    int predictor[LEAT_JPEG_MAX_COMPONENTS];
    const leat_jpeg_zigzag_bits *zigzag_bits;
    uint16_t *item, *stop;        /* the next item; no MCU begins behind `stop` */
    uint32_t *entry;              /* the table */
    uint32_t escape, escape_stop; /* the next escape; no MCU begins behind `escape_stop` */
};

/* A code of its own, and a value, as two items. Returns the place of the next. */
static inline uint16_t *leat_jpeg_item_escape(struct leat_jpeg_sequence *s, uint16_t *item, uint32_t code, int value,
                                              unsigned size)
{
    s->entry[s->escape] = code;
    *item++ = (uint16_t)s->escape++;
    s->entry[s->escape] = leat_jpeg_value_bits(value, size & 15) << 8 | (size & 15);
    *item++ = (uint16_t)s->escape++;
    return item;
}

static __attribute__((noinline, unused)) uint16_t *leat_jpeg_item_large_dc(struct leat_jpeg_sequence *s, uint16_t *item,
                                                                           const uint32_t *codes, int difference)
{
    unsigned size = leat_jpeg_size((unsigned)(difference < 0 ? -difference : difference));
    return leat_jpeg_item_escape(s, item, size < 16 ? codes[size] : LEAT_JPEG_NO_CODE, difference, size);
}

/* The item, or two, of a difference of DC. */
static inline uint16_t *leat_jpeg_item_dc(struct leat_jpeg_sequence *s, uint16_t *item,
                                          const struct leat_jpeg_sequence_block *at, int value)
{
    int difference = value - s->predictor[at->place];
    s->predictor[at->place] = value;
    if (__builtin_expect((unsigned)(difference + 255) > 510, 0))
        return leat_jpeg_item_large_dc(s, item, at->dc_code, difference);
    *item = (uint16_t)(at->dc + difference + 256);
    return item + 1;
}

/* The items of the other coefficients, whose mask in zigzag order is `mask`; of any runs and values. */
LEAT_INLINE uint16_t *leat_jpeg_items_ac(struct leat_jpeg_sequence *s, uint16_t *item,
                                         const struct leat_jpeg_sequence_block *at, const int16_t block[64],
                                         uint64_t mask)
{
    unsigned next = 1;
    for (; mask; mask &= mask - 1) {
        unsigned k = (unsigned)__builtin_ctzll(mask), run = k - next;
        int value = block[leat_jpeg_natural[k]];
        next = k + 1;
        for (; run > 15; run -= 16)
            *item++ = (uint16_t)(at->ac + 15 * 512 + 256);
        if (__builtin_expect((unsigned)(value + 255) <= 510, 1)) {
            *item++ = (uint16_t)(at->ac + run * 512 + (unsigned)(value + 256));
            continue;
        }
        unsigned size = leat_jpeg_size((unsigned)(value < 0 ? -value : value));
        item =
            leat_jpeg_item_escape(s, item, size < 16 ? at->ac_code[run << 4 | size] : LEAT_JPEG_NO_CODE, value, size);
    }
    if (next < 64)
        *item++ = (uint16_t)(at->ac + 256);
    return item;
}

/* Appends the items of MCUs [x, end) of the row while there is room; returns the first that is not among them. */
typedef uint32_t leat_jpeg_itemise_fn(struct leat_jpeg_sequence *sequence, uint32_t x, uint32_t end);
/* Items to bits. Returns all entries or'ed, two by two added: has LEAT_JPEG_NO_CODE or twice that if one has no
 * code. */
typedef uint32_t leat_jpeg_items_fn(struct leat_jpeg_bit_writer *bits, const uint32_t *entry, const uint16_t *item,
                                    size_t n);

/* The first with `present`: bit k is set if the k-th coefficient of a block in natural order is not 0. */
LEAT_INLINE uint32_t leat_jpeg_itemise(uint64_t (*present)(const int16_t *block), struct leat_jpeg_sequence *s,
                                       uint32_t x, uint32_t end)
{
    uint16_t *item = s->item;
    for (; x < end && item < s->stop && s->escape < s->escape_stop; x++)
        for (unsigned i = 0; i < s->blocks; i++) {
            const int16_t *block = s->block[i].at + x * s->block[i].step;
            item = leat_jpeg_item_dc(s, item, &s->block[i], block[0]);
            item =
                leat_jpeg_items_ac(s, item, &s->block[i], block, leat_jpeg_zigzag_mask(s->zigzag_bits, present(block)));
        }
    s->item = item;
    return x;
}

/* Four items are joined before they go to those that wait, if they have at most 56 bits, as nearly all have. */
LEAT_INLINE uint32_t leat_jpeg_items_to_bits(struct leat_jpeg_bit_writer *bits, const uint32_t *entry,
                                             const uint16_t *item, size_t n)
{
    struct leat_jpeg_bit_writer b = *bits;
    uint64_t met = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64_t e0 = entry[item[i]], e1 = entry[item[i + 1]], e2 = entry[item[i + 2]], e3 = entry[item[i + 3]];
        uint64_t first = (e0 >> 8) << (e1 & 63) | e1 >> 8, second = (e2 >> 8) << (e3 & 63) | e3 >> 8;
        uint64_t n_first = e0 + e1, n_second = e2 + e3;
        met |= n_first | n_second;
        n_first &= 63;
        n_second &= 63;
        if (__builtin_expect(n_first + n_second <= 56, 1)) {
            leat_jpeg_bits_put(&b, first << n_second | second, (unsigned)(n_first + n_second));
        } else {
            leat_jpeg_bits_put(&b, first, (unsigned)n_first);
            leat_jpeg_bits_put(&b, second, (unsigned)n_second);
        }
    }
    for (; i < n; i++) {
        uint32_t last = entry[item[i]];
        met |= last;
        leat_jpeg_bits_put(&b, last >> 8, last & 63);
    }
    *bits = b;
    return (uint32_t)met;
}

extern leat_jpeg_itemise_fn leat_jpeg_itemise_portable, leat_jpeg_itemise_avx2, leat_jpeg_itemise_avx512;
extern leat_jpeg_items_fn leat_jpeg_items_portable, leat_jpeg_items_avx2;

/* The progressive scan that `walk` has met, all of it: encode_progressive.c. */
int leat_jpeg_encode_progressive(struct leat_jpeg_encoder *encoder, const struct leat_jpeg_walk *walk,
                                 const struct leat_jpeg_coefficients *coefficients);

/* ---- of encode.c, for the scans' own files ---- */

#define LEAT_JPEG_ENCODER_BYTES 16384 /* LEAT_JPEG_ITEMS of 24 bits, and more */

struct leat_jpeg_encoder {
    leat_jpeg_itemise_fn *itemise;
    leat_jpeg_items_fn *items_to_bits;
    struct leat_jpeg_bit_writer bits;
    struct leat_jpeg_sink *sink;
    bool ones;
    unsigned restarts; /* markers written in this scan */
    int failed;        /* the first failure of the scan */
    struct leat_jpeg_codes dc[4], ac[4];
    leat_jpeg_zigzag_bits zigzag_bits[8];
    uint32_t entry[LEAT_JPEG_ENTRIES];
    uint16_t item[LEAT_JPEG_ITEMS];
    uint8_t buffer[LEAT_JPEG_ENCODER_BYTES + 8];
};

/* Hands the whole bytes to the sink. */
void leat_jpeg_encoder_drain(struct leat_jpeg_encoder *encoder);
/* Fills the last byte, and hands all to the sink. */
void leat_jpeg_encoder_end(struct leat_jpeg_encoder *encoder);
/* The same, and a restart marker. */
void leat_jpeg_encoder_restart(struct leat_jpeg_encoder *encoder);

/* The numbers of units of a scan across and down: MCUs, or, if it has one component, the blocks of the component
 * itself. */
void leat_jpeg_scan_units(const struct leat_jpeg_scan *scan, const struct leat_jpeg_frame *frame, uint32_t *across,
                          uint32_t *down);

#endif
