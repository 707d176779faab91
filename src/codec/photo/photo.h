/* Photos, for packing, opening and verifying. Decoding them is codec/photo/decode.h's. */
#ifndef LEAT_CODEC_PHOTO_PHOTO_H
#define LEAT_CODEC_PHOTO_PHOTO_H

#include "codec/codec.h"

struct leat_photo_info {
    uint32_t width, height;
    uint8_t channels;   /* of the stored image: 1, 2 (grey and alpha), 3 (palettes too) or 4 */
    uint8_t image_kind; /* enum leat_image_kind */
};
/* Reads the header, of which the first bytes of the photo may be enough. LEAT_E_DECODE if the bytes are no JPEG, PNG or
 * WebP or the header is broken. Any thread. */
int leat_photo_probe(const void *data, size_t length, struct leat_photo_info *info, struct leat_error *error);
/* About the most memory that decoding a photo takes, from its header (and from width, height and form in `info`). A
 * decoder keeps at most LEAT_DECODE_BYTES of it when the photo is done. 0 for bytes that are no photo. Any thread. */
uint64_t leat_photo_decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif);
/* The same for a photo in the fast form that is delivered as it came; 0 for any other. */
uint64_t leat_photo_restore_bytes(const void *data, size_t length, const struct leat_value_info *info);
/* Scans to the end (entropy decoding only, where the format allows). LEAT_E_DECODE with the decoder's words and, where
 * known, the byte offset, for anything a decoder would error or warn about. `checker` keeps what can be reused from
 * photo to photo; one thread at a time. */
struct leat_photo_checker;
struct leat_photo_checker *leat_photo_checker_new(void);
void leat_photo_checker_free(struct leat_photo_checker *checker);
int leat_photo_check(struct leat_photo_checker *checker, const void *data, size_t length, struct leat_error *error);
/* The row index (codec/jpeg/rows.h) that the last check has left, NULL if there is none. Valid until the next check. */
const uint8_t *leat_photo_checker_rows(const struct leat_photo_checker *checker, size_t *length);
/* The photo in another form; *out is ended with leat_free. It is read to its end: LEAT_E_DECODE if it is broken.
 * LEAT_E_UNSUPPORTED: it has no such form, and is to be kept as it came. */
int leat_photo_pack(struct leat_photo_checker *checker, enum leat_photos form, const void *data, size_t length,
                    uint8_t **out, size_t *out_length, struct leat_error *error);
/* Decodes, resizes so that the longer side is `max_side` (antialiased bilinear), encodes as JPEG. *out is ended with
 * leat_free. LEAT_OK with *out NULL: the photo is small enough and stays as it is. */
int leat_photo_shrink(const void *data, size_t length, unsigned max_side, unsigned quality, uint8_t **out,
                      size_t *out_length, struct leat_error *error);

#endif
