/*
 * Entropy-coded bytes from coefficients, by the Huffman tables that the file has, as every encoder writes them: a run
 * of sixteen zeros only before a coefficient, an end of block only if the block does not end in a coefficient, and in
 * progressive scans the longest runs of ended blocks.
 */
#ifndef LEAT_CODEC_JPEG_ENCODE_H
#define LEAT_CODEC_JPEG_ENCODE_H

#include "base/cpu.h"
#include "codec/jpeg/coefficients.h"
#include "codec/jpeg/markers.h"

/* The destination of bytes: `out`, which grows up to `limit`; or, if `expected` is set, none: they are compared with
 * its `limit` bytes. */
struct leat_jpeg_sink {
    uint8_t *out; /* ended with leat_free by the maker of the sink */
    const uint8_t *expected;
    size_t length, room, limit;
    const char *trouble; /* why the last call failed */
};
/* LEAT_OK, LEAT_E_NOMEM, or LEAT_E_CORRUPT: more bytes than `limit`, or others than expected. */
int leat_jpeg_sink_put(struct leat_jpeg_sink *sink, const uint8_t *bytes, size_t n);

struct leat_jpeg_encoder; /* tables and buffers kept from scan to scan; one thread at a time */
struct leat_jpeg_encoder *leat_jpeg_encoder_new(enum leat_isa isa);
void leat_jpeg_encoder_free(struct leat_jpeg_encoder *encoder);

/* Writes the scan that `walk` has met, Huffman-coded, sequential or progressive. With `ones`, bytes are filled up with
 * ones, else with zeros. Errors: those of the sink; CORRUPT if the tables have no code that the coefficients need. */
int leat_jpeg_encode_scan(struct leat_jpeg_encoder *encoder, const struct leat_jpeg_walk *walk,
                          const struct leat_jpeg_coefficients *coefficients, bool ones, struct leat_jpeg_sink *sink);

#endif
