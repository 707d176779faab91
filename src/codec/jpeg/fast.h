/*
 * The decode-fast form of a JPEG: its quantised coefficients in streams that a vector unit unpacks, and its skeleton
 * (coefficients.h), so that the original file comes back byte for byte. docs/format.md specifies the bytes.
 */
#ifndef LEAT_CODEC_JPEG_FAST_H
#define LEAT_CODEC_JPEG_FAST_H

#include "base/cpu.h"
#include "codec/jpeg/source.h"

/* ---- packing ---- */

struct leat_jpeg_packer;                             /* one thread at a time */
struct leat_jpeg_packer *leat_jpeg_packer_new(void); /* NULL when memory is out */
void leat_jpeg_packer_free(struct leat_jpeg_packer *packer);

/* Packs a JPEG, unpacks the result and compares with the original. `orientation` (EXIF, 1 to 8) and `image_kind` (enum
 * leat_image_kind of codec/photo/photo.h) are the caller's knowledge of it; leat_jpeg_fast_original gives them back.
 * *out (of the packer, until the next call) holds the fast form. LEAT_E_UNSUPPORTED: the photo is to be stored as it
 * came; `error` says why. LEAT_E_DECODE: the photo is broken. NOMEM. */
int leat_jpeg_pack(struct leat_jpeg_packer *packer, const void *data, size_t length, unsigned orientation,
                   unsigned image_kind, const uint8_t **out, size_t *out_length, struct leat_error *error);

/* ---- reading; bytes may be hostile ---- */

struct leat_jpeg_fast; /* buffers of one thread */
struct leat_jpeg_fast *leat_jpeg_fast_new(enum leat_isa isa);
void leat_jpeg_fast_free(struct leat_jpeg_fast *fast);

/* Reads the header: *frame and *source live until the next open of `fast`, and `data` must stay. Errors: DECODE (the
 * bytes make no sense). */
int leat_jpeg_fast_open(struct leat_jpeg_fast *fast, const void *data, size_t length,
                        const struct leat_jpeg_frame **frame, struct leat_jpeg_source **source,
                        struct leat_error *error);

/* The facts of the original: bytes, leat_hash64 of them, EXIF orientation (1 to 8), enum leat_image_kind of
 * codec/photo/photo.h. */
struct leat_jpeg_original {
    uint64_t length, checksum;
    uint8_t orientation, image_kind;
};
/* LEAT_E_DECODE: no fast form. */
int leat_jpeg_fast_original(const void *data, size_t length, struct leat_jpeg_original *original,
                            struct leat_error *error);

/* The original file without its entropy-coded bytes: its headers. LEAT_E_DECODE: no fast form. */
int leat_jpeg_fast_headers(const void *data, size_t length, const uint8_t **headers, size_t *headers_length,
                           struct leat_error *error);

/* The frame alone, without buffers. LEAT_E_DECODE: no fast form. */
int leat_jpeg_fast_frame(const void *data, size_t length, struct leat_jpeg_frame *frame, struct leat_error *error);
/* Bytes that opening takes of a thread at most, for a photo of this frame; that restoring takes at most. */
uint64_t leat_jpeg_fast_most_bytes(const struct leat_jpeg_frame *frame);
uint64_t leat_jpeg_restore_most_bytes(const struct leat_jpeg_frame *frame, const struct leat_jpeg_original *original);

/* The original file. *out is ended with leat_free. Errors: CORRUPT (the result differs from the input), NOMEM. Any
 * thread. */
int leat_jpeg_restore(const void *data, size_t length, uint8_t **out, size_t *out_length, struct leat_error *error);

/* Whether the form is that of the file that it gives back: the values that only decoding takes from it (sizes,
 * sampling, tables of quantisation, colour) are those of that file, too. Errors: CORRUPT (it is not), NOMEM. Any
 * thread. */
int leat_jpeg_fast_check(const void *data, size_t length, struct leat_error *error);

#endif
