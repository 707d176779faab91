/* The bits of a scan, from a buffer that holds its bytes without stuffed zeros, and the state of a decoder between
 * MCUs. */
#ifndef LEAT_CODEC_JPEG_HUFFMAN_STREAM_H
#define LEAT_CODEC_JPEG_HUFFMAN_STREAM_H

#include <string.h>

#include "codec/jpeg/frame.h"
#include "codec/jpeg/huffman_tables.h"

/* An MCU takes at most LEAT_JPEG_MCU_BLOCKS * 64 codes of 16 bits with values of 15: 2480 bytes. */
#define LEAT_JPEG_MCU_BYTES 4096
#define LEAT_JPEG_STREAM_BYTES 12288

/* `acc` holds the next bits from the highest on: n (its low 6 bits count) of them surely; below these stand the first
 * bits of *p, or zeros. */
struct leat_jpeg_bit_reader {
    const uint8_t *p;
    uint64_t acc, n;
};

struct leat_jpeg_stream {
    struct leat_jpeg_bit_reader bits;
    const uint8_t *limit; /* before an MCU with bits.p beyond it, leat_jpeg_stream_more is to be called */
    uint8_t *end;         /* of the bytes in the buffer */
    bool last;            /* `in` is at a marker or at in_end: no byte follows `end` before the next restart */
    const uint8_t *in, *in_end;
    int32_t dc[LEAT_JPEG_MAX_COMPONENTS]; /* predictors */
    const uint8_t *mark;                  /* a place in the scan and its bit in the buffer: see leat_jpeg_stream_bit */
    int64_t mark_byte;                    /* may lie before the buffer */
    uint8_t buffer[LEAT_JPEG_STREAM_BYTES + LEAT_JPEG_MCU_BYTES];
};

/* Begins at a bit of a byte of the scan. */
void leat_jpeg_stream_begin(struct leat_jpeg_stream *s, const uint8_t *in, const uint8_t *in_end, unsigned bit);
/* Brings more bytes. False: there are none, so the MCU at which this was called lies behind the end. */
bool leat_jpeg_stream_more(struct leat_jpeg_stream *s);
/* Whether all that was read lay before the end. */
bool leat_jpeg_stream_within(const struct leat_jpeg_stream *s);
/* Steps over this marker, if only padding lies before it. */
bool leat_jpeg_stream_marker(struct leat_jpeg_stream *s, uint8_t marker);
/* The place of the next bit: *bit (0: the highest) of the byte returned. */
const uint8_t *leat_jpeg_stream_bit(struct leat_jpeg_stream *s, unsigned *bit);

/* The coding of the blocks of an MCU, in their order. */
struct leat_jpeg_mcu {
    unsigned n_blocks;
    struct {
        const struct leat_jpeg_dc_table *dc;
        const struct leat_jpeg_ac_table *ac;
        unsigned component;
    } block[LEAT_JPEG_MCU_BLOCKS];
};
/* The destination of the blocks of the next MCU, and the distance in blocks to those of the MCU after it. */
struct leat_jpeg_places {
    struct {
        int16_t *coefficients;
        uint8_t *last;
        unsigned step, last_step; /* last_step is 0 if `last` is not wanted and each is written to the same place */
    } block[LEAT_JPEG_MCU_BLOCKS];
};

/* The loops. Each reads n MCUs between which no restart marker lies, and returns false if it could not. */
struct leat_jpeg_huffman_kernels {
    bool (*skip)(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n);
    bool (*skip_two)(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b, const struct leat_jpeg_mcu *mcu,
                     uint32_t n);
    /* Without `ac`, blocks of nothing but a DC are made. */
    bool (*read)(struct leat_jpeg_stream *s, const struct leat_jpeg_mcu *mcu, uint32_t n,
                 struct leat_jpeg_places *places, bool ac);
    /* The same of two streams, side by side. */
    bool (*read_two)(struct leat_jpeg_stream *a, struct leat_jpeg_stream *b, const struct leat_jpeg_mcu *mcu,
                     uint32_t n, struct leat_jpeg_places *to_a, struct leat_jpeg_places *to_b);
};
extern const struct leat_jpeg_huffman_kernels leat_jpeg_huffman_portable, leat_jpeg_huffman_avx2;

#endif
