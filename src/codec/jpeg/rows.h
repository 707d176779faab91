/*
 * The row index of a baseline JPEG: where the rows of MCUs begin in the entropy-coded bytes, and the state of a decoder
 * there. It is kept beside a photo that stays as it came, so that decoding a crop begins at its first row and ends with
 * its last. docs/format.md says how it is packed.
 */
#ifndef LEAT_CODEC_JPEG_ROWS_H
#define LEAT_CODEC_JPEG_ROWS_H

#include "codec/jpeg/frame.h"

/* The state of an entropy decoder before the first MCU of a row. */
struct leat_jpeg_row_start {
    uint64_t bit; /* of the entropy-coded bytes: 8 * byte + bit of that byte, the highest being 0; stuffed zeros are
                     bytes too */
    int16_t dc[LEAT_JPEG_MAX_COMPONENTS]; /* predictors */
    uint32_t restart;                     /* MCUs until the next restart marker; 0 if there are none */
};

struct leat_jpeg_rows {
    struct leat_jpeg_row_start *row; /* [n], of rows 0, every, 2 * every ... */
    uint32_t n, every, room;
    uint8_t *packed; /* the last result of leat_jpeg_rows_pack; `packed_room` bytes */
    size_t packed_room;
};
/* Makes room for n rows. False: memory is out. */
bool leat_jpeg_rows_reserve(struct leat_jpeg_rows *rows, uint32_t n);
void leat_jpeg_rows_destroy(struct leat_jpeg_rows *rows);

/* The packed index, at most 1 % of the photo's `photo_bytes` (rows are left out for that): its length, 0 if it would be
 * of no use. *packed is memory of `rows`, until the next call. Begins with a checksum of its own, so a damaged one is
 * no index. NOMEM. */
int leat_jpeg_rows_pack(struct leat_jpeg_rows *rows, const struct leat_jpeg_frame *frame, uint64_t photo_bytes,
                        uint8_t **packed, size_t *length);
/* Whether the checksum of a packed index holds. Any thread; allocates nothing. */
bool leat_jpeg_rows_whole(const uint8_t *packed, size_t length);
/* False: no index, or not of this frame, or its places do not lie in `scan_bytes`. */
bool leat_jpeg_rows_unpack(struct leat_jpeg_rows *rows, const struct leat_jpeg_frame *frame, const uint8_t *packed,
                           size_t length, uint64_t scan_bytes);

#endif
