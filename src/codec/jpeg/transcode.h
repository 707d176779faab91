/* The work of libjpeg: the coefficients of any photo that it reads, and the entropy-coded bytes of arithmetic ones. */
#ifndef LEAT_CODEC_JPEG_TRANSCODE_H
#define LEAT_CODEC_JPEG_TRANSCODE_H

#include "codec/jpeg/coefficients.h"
#include "codec/jpeg/encode.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/markers.h"

/* Reads a photo's coefficients into *coefficients, by `huffman` if that knows the photo; errors as
 * leat_jpeg_take_apart. `by_rows`: a photo that `huffman` knows is left to be read from coefficients->source, while
 * `data` stays. */
int leat_jpeg_transcode_read(struct leat_jpeg_huffman *huffman, const void *data, size_t length, bool by_rows,
                             struct leat_jpeg_coefficients *coefficients, struct leat_error *error);

/* Huffman tables that a file without tables means. False: libjpeg could not be asked. */
bool leat_jpeg_transcode_default_symbols(struct leat_jpeg_symbols dc[2], struct leat_jpeg_symbols ac[2]);

/* All scans of a skeleton, whose first `walk` has just met, as libjpeg writes them: a whole JPEG in *out, whose
 * entropy-coded bytes count. Ended with leat_free. At most `limit` bytes of these. Errors: CORRUPT, NOMEM. */
int leat_jpeg_transcode_write(const struct leat_jpeg_walk *walk, const struct leat_jpeg_coefficients *coefficients,
                              size_t limit, uint8_t **out, size_t *out_length, struct leat_error *error);

#endif
