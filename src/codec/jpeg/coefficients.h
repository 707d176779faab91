/*
 * A JPEG taken apart and put together again: its coefficients, and all bytes that are not entropy-coded (markers,
 * tables, comments, what follows the end), its *skeleton*. The result is the original file byte for byte, or the file
 * is not taken apart.
 */
#ifndef LEAT_CODEC_JPEG_COEFFICIENTS_H
#define LEAT_CODEC_JPEG_COEFFICIENTS_H

#include "codec/jpeg/source.h"

#define LEAT_JPEG_MAX_COEFFICIENT_BYTES (UINT64_C(512) << 20)

/* The blocks of a photo, row by row, natural order; aligned to 64 bytes. All of them; or, if there is a `source`, those
 * of the row of MCUs that was read last: a caller that takes one row after the other finds it in the cache. */
struct leat_jpeg_coefficients {
    struct leat_jpeg_frame frame;
    int16_t *of[LEAT_JPEG_MAX_COMPONENTS]; /* [blocks_h, or v][blocks_w][64] */
    struct leat_jpeg_source *source;       /* or NULL */
    uint8_t *last;                         /* of a source: not looked at */
    void *memory;
    size_t room; /* bytes of memory: kept from photo to photo */
};
/* Makes room for `frame`, for all of it or, if there is a source, for one row of MCUs, and points into it; the old
 * contents are lost. NOMEM; UNSUPPORTED: all of it would be above LEAT_JPEG_MAX_COEFFICIENT_BYTES. */
int leat_jpeg_coefficients_reserve(struct leat_jpeg_coefficients *coefficients, const struct leat_jpeg_frame *frame,
                                   struct leat_jpeg_source *source);
/* The places of the blocks of row `row` of MCUs, *of [v][blocks_w][64]; a source, if there is one, makes them first,
 * for rows from top to bottom. Errors: those of the source. */
int leat_jpeg_coefficients_row(const struct leat_jpeg_coefficients *coefficients, uint32_t row,
                               int16_t *of[LEAT_JPEG_MAX_COMPONENTS], struct leat_error *error);
void leat_jpeg_coefficients_destroy(struct leat_jpeg_coefficients *coefficients);

struct leat_jpeg_apart; /* the state of one thread from photo to photo */
struct leat_jpeg_apart *leat_jpeg_apart_new(void);
void leat_jpeg_apart_free(struct leat_jpeg_apart *apart);
/* Gives the memory of the coefficients back if it is more than `most` bytes. */
void leat_jpeg_apart_trim(struct leat_jpeg_apart *apart, size_t most);

/* Reads a whole photo: *coefficients (kept by `apart` until the next call), and *skeleton of *skeleton_length bytes
 * (the same), which leat_jpeg_together turns back. Baseline, extended, progressive and arithmetic photos of 8 bits and
 * any sampling. LEAT_E_UNSUPPORTED with a reason: a kind that is not taken apart (12 bits, lossless, too large).
 * LEAT_E_DECODE: damage. NOMEM. */
int leat_jpeg_take_apart(struct leat_jpeg_apart *apart, const void *data, size_t length,
                         const struct leat_jpeg_coefficients **coefficients, const uint8_t **skeleton,
                         size_t *skeleton_length, struct leat_error *error);

/* The same, but a photo of one sequential scan that leat decodes itself is not read yet: (*coefficients)->source does
 * that, and is NULL for all others, also if this fails. leat_jpeg_take_apart names the failures that happen while there
 * is a source. */
int leat_jpeg_take_apart_by_rows(struct leat_jpeg_apart *apart, const void *data, size_t length,
                                 const struct leat_jpeg_coefficients **coefficients, const uint8_t **skeleton,
                                 size_t *skeleton_length, struct leat_error *error);

/* The file again, from bytes that may be hostile. *out is ended with leat_free. Errors: CORRUPT (the skeleton makes no
 * sense with these coefficients), NOMEM. The caller compares with its record of the original. */
int leat_jpeg_together(const uint8_t *skeleton, size_t skeleton_length,
                       const struct leat_jpeg_coefficients *coefficients, uint64_t original, uint8_t **out,
                       size_t *out_length, struct leat_error *error);

/* The same while packing: whether the result would be `original`, without making it. If the photo has one sequential
 * scan, coefficients may have a source. LEAT_OK: it would. LEAT_E_UNSUPPORTED: it would not; `error` says how it
 * differs, and the photo is to be stored as it came. NOMEM. */
int leat_jpeg_together_equals(struct leat_jpeg_apart *apart, const uint8_t *skeleton, size_t skeleton_length,
                              const struct leat_jpeg_coefficients *coefficients, const void *original,
                              size_t original_length, struct leat_error *error);

#endif
