/*
 * The header of a photo stored as pixels. Apart from the decoder, because reading a value and checking a file need it
 * too.
 */
#include "codec/photo/raw.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

static const char magic[4] = "\x89RAW";

void leat_raw_photo_put(uint8_t header[LEAT_RAW_HEADER], const struct leat_raw_photo *photo)
{
    memcpy(header, magic, sizeof magic);
    leat_put_u32(header + 4, photo->width);
    leat_put_u32(header + 8, photo->height);
    header[12] = photo->channels;
    header[13] = photo->orientation;
    leat_put_u16(header + 14, 0);
}

bool leat_raw_photo_get(const void *data, uint64_t length, struct leat_raw_photo *photo)
{
    const uint8_t *p = data;
    if (length < LEAT_RAW_HEADER || memcmp(p, magic, sizeof magic) || leat_get_u16(p + 14))
        return false;
    *photo = (struct leat_raw_photo){.width = leat_get_u32(p + 4),
                                     .height = leat_get_u32(p + 8),
                                     .channels = p[12],
                                     .orientation = p[13],
                                     .pixels = p + LEAT_RAW_HEADER,
                                     .bytes = length - LEAT_RAW_HEADER};
    uint64_t bytes;
    return photo->width && photo->height && (photo->channels == 1 || photo->channels == 3) && photo->orientation >= 1 &&
           photo->orientation <= 8 && leat_mul_u64(photo->width, photo->height, &bytes) &&
           leat_mul_u64(bytes, photo->channels, &bytes) && bytes == photo->bytes;
}
