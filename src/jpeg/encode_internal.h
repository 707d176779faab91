/* What encode.c shares with the inner loops of each instruction set. */
#ifndef LEAT_JPEG_ENCODE_INTERNAL_H
#define LEAT_JPEG_ENCODE_INTERNAL_H

#include <string.h>

#include "jpeg/encode.h"

/* An entry of a table of codes: bits << 8 | how many they are (at most 24); LEAT_JPEG_NO_CODE where the table has none. */
#define LEAT_JPEG_NO_CODE 0x80u

/* Values in [-LEAT_JPEG_DIRECT, LEAT_JPEG_DIRECT) behind runs below 16 have code and value in one entry. */
#define LEAT_JPEG_DIRECT 64

struct leat_jpeg_dc_codes {
    struct leat_jpeg_symbols source;
    uint32_t code[16]; /* of each size */
};
struct leat_jpeg_ac_codes {
    struct leat_jpeg_symbols source;
    uint32_t code[256]; /* of each run << 4 | size */
    uint32_t direct[16][2 * LEAT_JPEG_DIRECT];
};

/* Bits that wait: the next to go out is the highest of acc; below the n bits it is 0. Whole bytes are written to p, 8 at a time, without
 * the zeros that stuffing puts behind 0xff: the sink does that. */
struct leat_jpeg_bits {
    uint64_t acc;
    unsigned n;
    uint8_t *p;
};
/* At most 56 bits, together with those that wait; then flush. */
static inline void leat_jpeg_bits_add(struct leat_jpeg_bits *b, uint64_t value, unsigned count)
{
    b->n += count;
    b->acc |= value << ((64 - b->n) & 63);
}
static inline void leat_jpeg_bits_flush(struct leat_jpeg_bits *b)
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
static inline void leat_jpeg_bits_put(struct leat_jpeg_bits *b, uint64_t value, unsigned count)
{
    leat_jpeg_bits_add(b, value, count);
    leat_jpeg_bits_flush(b);
}

/* The size of a value: how many bits its magnitude has. */
static inline unsigned leat_jpeg_size(unsigned magnitude)
{
    return magnitude ? 32u - (unsigned)__builtin_clz(magnitude) : 0;
}
/* A code and the value that follows it. */
static inline uint64_t leat_jpeg_code_and_value(uint32_t code, int value, unsigned size, unsigned *count)
{
    *count = (code & 31) + size;
    uint32_t low = (uint32_t)(value - (value < 0)) & ((1u << size) - 1);
    return (uint64_t)(code >> 8) << size | low;
}

#define LEAT_JPEG_MCU_BLOCKS 10
#define LEAT_JPEG_BLOCK_BYTES 264 /* no block takes more: 64 codes of 16 bits with values of 16, and 8 for a flush */

/* A sequential scan: an MCU has `blocks` blocks. */
struct leat_jpeg_sequence {
    unsigned blocks;
    struct leat_jpeg_sequence_block {
        const int16_t *at; /* in the first MCU of the row */
        size_t step;       /* coefficients from MCU to MCU */
        unsigned place;    /* whose predictor */
        const struct leat_jpeg_dc_codes *dc;
        const struct leat_jpeg_ac_codes *ac;
    } block[LEAT_JPEG_MCU_BLOCKS];
    int predictor[LEAT_JPEG_MAX_COMPONENTS];
    uint32_t met; /* all entries or'ed: has LEAT_JPEG_NO_CODE where one was missing */
};

/* Writes MCUs [x, end) of a row while fewer than MCU_BLOCKS * BLOCK_BYTES are left before `stop`; returns the first that is not written. */
typedef uint32_t (*leat_jpeg_sequence_fn)(struct leat_jpeg_sequence *sequence, struct leat_jpeg_bits *bits, uint32_t x, uint32_t end,
                                          const uint8_t *stop);

uint32_t leat_jpeg_sequence_portable(struct leat_jpeg_sequence *sequence, struct leat_jpeg_bits *bits, uint32_t x, uint32_t end,
                                     const uint8_t *stop);

/* The progressive scan that `walk` has met, all of it: encode_progressive.c. */
int leat_jpeg_encode_progressive(struct leat_jpeg_encoder *encoder, const struct leat_jpeg_walk *walk,
                                 const struct leat_jpeg_coefficients *coefficients);

/* ---- of encode.c, for the scans' own files ---- */

#define LEAT_JPEG_ENCODER_BYTES (64 * 1024)

struct leat_jpeg_encoder {
    leat_jpeg_sequence_fn sequence;
    struct leat_jpeg_bits bits;
    struct leat_jpeg_sink *sink;
    bool ones;
    unsigned restarts; /* markers written in this scan */
    int failed;        /* the first failure of the scan */
    struct leat_jpeg_dc_codes dc[4];
    struct leat_jpeg_ac_codes ac[4];
    uint8_t buffer[LEAT_JPEG_ENCODER_BYTES + 8];
};

/* Hands the whole bytes to the sink. */
void leat_jpeg_encoder_drain(struct leat_jpeg_encoder *encoder);
/* Fills the last byte, and hands all to the sink. */
void leat_jpeg_encoder_end(struct leat_jpeg_encoder *encoder);
/* The same, and a restart marker. */
void leat_jpeg_encoder_restart(struct leat_jpeg_encoder *encoder);

/* How many units a scan has across and down: MCUs, or, where it has one component, the blocks of the component itself. */
void leat_jpeg_scan_units(const struct leat_jpeg_scan *scan, const struct leat_jpeg_frame *frame, uint32_t *across, uint32_t *down);

#endif
