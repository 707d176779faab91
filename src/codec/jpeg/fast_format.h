/*
 * The bytes of the decode-fast form, taken apart (docs/format.md specifies them), and the functions that unpack and
 * pack a row of blocks for each instruction set.
 *
 *     header | components | tables | ends of the rows | rows | skeleton | 64 zeros
 *
 * The zeros let a vector unit load beyond the last row without leaving the payload.
 */
#ifndef LEAT_CODEC_JPEG_FAST_FORMAT_H
#define LEAT_CODEC_JPEG_FAST_FORMAT_H

#include "codec/jpeg/coefficients.h"
#include "codec/jpeg/fast.h"

#define LEAT_FAST_MAGIC "LEATjpg1"
enum {
    LEAT_FAST_HEADER = 44,
    LEAT_FAST_COMPONENT = 4,
    LEAT_FAST_TABLE = 128,
    LEAT_FAST_TAIL = 64,
    LEAT_FAST_MAX_DC_BITS = 15,
};

/* Magnitudes that two bits hold, that four bits more hold, and that a byte more holds. */
enum {
    LEAT_FAST_CLASS_ESCAPE = 3,
    LEAT_FAST_NIBBLE_BASE = 4,
    LEAT_FAST_NIBBLE_ESCAPE = 15,
    LEAT_FAST_BYTE_ESCAPE = 255
};

/* A payload whose sizes fit each other. The rows are still anything. Pointers into the payload. */
struct leat_jpeg_fast_parts {
    struct leat_jpeg_original original;
    struct leat_jpeg_frame frame;
    uint32_t rows_per_mcu; /* rows of blocks in a row of MCUs: the sum of v */
    uint32_t n_rows;
    const uint8_t *ends; /* u32 [n_rows] */
    const uint8_t *rows;
    uint32_t rows_bytes;
    const uint8_t *skeleton;
    size_t skeleton_length;
};
/* LEAT_E_DECODE: no fast form, or one whose sizes contradict each other. */
int leat_jpeg_fast_parse(const void *data, size_t length, struct leat_jpeg_fast_parts *parts, struct leat_error *error);

/* Buffers for unpacking a row of up to `blocks` blocks. Each has 256 elements more than rows that hostile bytes
 * describe can fill, so that loops take whole vectors. Aligned to 64 bytes. */
struct leat_jpeg_fast_scratch {
    uint16_t *escapes; /* [64 * blocks + 256]: magnitudes above 3 */
    int16_t *values;   /* [64 * blocks + 256]: coefficients other than 0 */
    int16_t *dc;       /* [blocks + 256] */
    uint8_t *last;     /* [blocks + 256] */
    uint32_t blocks;
    void *memory;
};
bool leat_jpeg_fast_scratch_reserve(struct leat_jpeg_fast_scratch *scratch, uint32_t blocks);
void leat_jpeg_fast_scratch_destroy(struct leat_jpeg_fast_scratch *scratch);

/* Unpacks columns [x0, x1) of a row of `blocks` blocks that has `length` bytes, behind which 64 more are readable:
 * coefficients [x1 - x0][64] in natural order to `out` (aligned to 64 bytes), `last` as in source.h. With `dc_only` all
 * but the first coefficient of each block is 0. False: the bytes make no sense; `out` then holds anything. */
typedef bool leat_jpeg_unpack_row_fn(const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1,
                                     bool dc_only, const struct leat_jpeg_fast_scratch *scratch, int16_t *out,
                                     uint8_t *last);
extern leat_jpeg_unpack_row_fn leat_jpeg_unpack_row_portable, leat_jpeg_unpack_row_avx2, leat_jpeg_unpack_row_avx512;
static inline leat_jpeg_unpack_row_fn *leat_jpeg_unpack_row(enum leat_isa isa)
{
    return LEAT_OF_ISA(isa, leat_jpeg_unpack_row);
}
/* Whether that makes sense of the columns, without dc_only. */
typedef bool leat_jpeg_check_row_fn(const uint8_t *row, size_t length, uint32_t blocks, uint32_t x0, uint32_t x1);
extern leat_jpeg_check_row_fn leat_jpeg_check_row_portable, leat_jpeg_check_row_avx2, leat_jpeg_check_row_avx512;
static inline leat_jpeg_check_row_fn *leat_jpeg_check_row(enum leat_isa isa)
{
    return LEAT_OF_ISA(isa, leat_jpeg_check_row);
}

/* All blocks of a payload, as leat_jpeg_coefficients holds them. DECODE, NOMEM. */
int leat_jpeg_fast_read_all(struct leat_jpeg_fast *fast, int16_t *const of[LEAT_JPEG_MAX_COMPONENTS],
                            struct leat_error *error);

/* ---- packing ---- */

/* A row of b blocks takes at most, in bytes: heads b, dc 2b, masks 8b, planes 3 * 63b/8, nibbles 63b/2, bytes 63b, u16
 * 126b. Some of the rest may be written beyond them. */
#define LEAT_FAST_ROW_ROOM(b) (256 * (size_t)(b) + 512)

/* Packs a row of blocks to `out`, which has LEAT_FAST_ROW_ROOM. `values` [64 * blocks + 256] and `work`, twice
 * LEAT_FAST_ROW_ROOM, are free for its use; coefficients and both are aligned to 16 bytes. Returns the bytes written;
 * 0: a DC difference does not fit. */
size_t leat_jpeg_pack_row(enum leat_isa isa, const int16_t *coefficients, uint32_t blocks, int16_t *values,
                          uint8_t *work, uint8_t *out);

/* Buffers for packing. */
struct leat_jpeg_fast_writer {
    enum leat_isa isa;
    uint8_t *out;
    size_t length, room;
    int16_t *values; /* [64 * blocks + 256] */
    uint8_t *work;   /* the streams of a row while they grow; see pack_row.h */
    uint32_t blocks;
};
void leat_jpeg_fast_writer_destroy(struct leat_jpeg_fast_writer *writer);
/* Room for so many bytes behind writer->length. False: no memory. */
bool leat_jpeg_fast_writer_reserve(struct leat_jpeg_fast_writer *writer, size_t more);
/* Packs a row of blocks, aligned to 16 bytes, behind writer->length. UNSUPPORTED: a DC difference does not fit; NOMEM.
 */
int leat_jpeg_fast_write_row(struct leat_jpeg_fast_writer *writer, const int16_t *coefficients, uint32_t blocks,
                             struct leat_error *error);
/* Makes the payload writer->out of writer->length bytes. UNSUPPORTED: a photo that the form cannot hold. NOMEM; errors
 * of a source of the coefficients. */
int leat_jpeg_fast_write(struct leat_jpeg_fast_writer *writer, const struct leat_jpeg_coefficients *coefficients,
                         const uint8_t *skeleton, size_t skeleton_length, const struct leat_jpeg_original *original,
                         struct leat_error *error);

#endif
