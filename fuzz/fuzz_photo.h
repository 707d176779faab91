/*
 * The common part of the fuzz targets of the photo decoders: the bytes are decoded in several ways, and the invariants
 * for any bytes are checked, not only that nothing crashes:
 *
 *     a box equals that part of all of the image
 *     a photo that scans clean decodes clean, in every box
 *     the same of lenient decoding, which fails for no box of a photo that it scans, and warns of none that is clean
 */
#ifndef LEAT_FUZZ_PHOTO_H
#define LEAT_FUZZ_PHOTO_H

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "codec/photo/photo.h"

/* Larger ones say nothing new and take long. */
#define FUZZ_MAX_PIXELS (1u << 18)
/* Of a pixel. */
#define FUZZ_MOST_BYTES 8

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __builtin_trap();                                                                                          \
    } while (0)

static inline size_t fuzz_pixel(const struct leat_decode_request *request)
{
    const struct leat_image_wish *wish = leat_image_wish_of(request);
    return (wish->gray ? 1u : 4u) * (wish->wide ? 2 : 1);
}

/* 0 and the pixels of the box at `out`, or the code of the first failure. */
static inline int fuzz_decode(struct leat_decoder *d, const struct leat_decode_request *request, unsigned denominator,
                              const uint32_t box[4], uint8_t *out)
{
    struct leat_error error;
    uint32_t w, h;
    int rc = leat_image_open(d, request, &w, &h, &error);
    if (rc)
        return rc;
    size_t stride = box[2] * fuzz_pixel(request);
    rc = leat_decoder_begin(d, denominator, box[0], box[1], box[2], box[3], &error);
    for (uint32_t i = 0; !rc && i < box[3]; i++) {
        const uint8_t *row;
        rc = leat_decoder_row(d, &row, &error);
        if (!rc)
            memcpy(out + i * stride, row, stride);
    }
    int end = leat_decoder_end(d, &error);
    FUZZ_ASSERT(rc != LEAT_E_INVALID && end != LEAT_E_INVALID);
    return rc ? rc : end;
}

/* The invariants of the whole photo (FUZZ_MOST_BYTES * FUZZ_MAX_PIXELS at `all`) and of a box of it. */
static inline void fuzz_box(struct leat_decoder *d, struct leat_decode_request *request, unsigned denominator,
                            uint32_t w, uint32_t h, const uint32_t box[4], bool whole, bool scan, uint8_t *all,
                            uint8_t *part)
{
    const uint32_t full[4] = {0, 0, w, h};
    request->scan_to_end = true;
    bool decodes = fuzz_decode(d, request, denominator, full, all) == LEAT_OK;
    FUZZ_ASSERT(decodes == whole);
    request->scan_to_end = scan;
    bool box_decodes = fuzz_decode(d, request, denominator, box, part) == LEAT_OK;
    if (scan || decodes)
        FUZZ_ASSERT(box_decodes == decodes);
    size_t pixel = fuzz_pixel(request);
    for (uint32_t i = 0; decodes && i < box[3]; i++)
        FUZZ_ASSERT(
            !memcmp(part + i * box[2] * pixel, all + ((size_t)(box[1] + i) * w + box[0]) * pixel, box[2] * pixel));
}

/* `pages`: the frames are pages, of which nothing follows from one for another; the one asked for is only decoded. */
static inline int fuzz_photo(const uint8_t *data, size_t length, bool pages)
{
    static struct leat_decoder *d;
    static struct leat_decoder *checker;
    static uint8_t *all, *part;
    struct leat_error error;
    if (!d) {
        d = leat_decoder_new(&leat_codec_photo);
        checker = leat_decoder_new(&leat_codec_photo);
        all = malloc(FUZZ_MOST_BYTES * FUZZ_MAX_PIXELS);
        part = malloc(FUZZ_MOST_BYTES * FUZZ_MAX_PIXELS);
    }
    struct leat_value_info info;
    (void)leat_codec_photo.probe(data, length, &info, &error);

    uint64_t draw = leat_hash64(data, length);
    struct leat_image_wish wish = {.gray = draw & 1, .exif = draw & 2};
    struct leat_decode_request request = {.data = data, .length = length, .wish = &wish};
    wish.wide = draw & 64;
    wish.alpha = draw & 128 ? LEAT_ALPHA_BLEND : wish.gray ? LEAT_ALPHA_DROP : LEAT_ALPHA_KEEP;
    unsigned denominator = 1u << (draw >> 2 & 3);
    uint32_t w, h;
    wish.frame = draw >> 56 & 3;
    if (leat_image_open(d, &request, &w, &h, &error))
        wish.frame = 0;
    else
        (void)leat_decoder_end(d, &error);
    if (leat_image_open(d, &request, &w, &h, &error))
        return 0;
    if (pages) {
        if (wish.frame && (uint64_t)w * h <= FUZZ_MAX_PIXELS)
            (void)leat_decoder_begin(d, 1, 0, 0, w, h, &error);
        (void)leat_decoder_end(d, &error);
        wish.frame = 0;
        if (leat_image_open(d, &request, &w, &h, &error))
            return 0;
    }
    denominator = leat_decoder_scaled_size(d, denominator, &w, &h);
    uint32_t full_w, full_h;
    leat_decoder_scaled_size(d, 1, &full_w, &full_h);
    FUZZ_ASSERT(leat_decoder_end(d, &error) == LEAT_OK);
    if ((uint64_t)full_w * full_h > FUZZ_MAX_PIXELS)
        return 0;

    bool whole = leat_decoder_check(checker, data, length, false, &error) == LEAT_OK;
    uint32_t x = (uint32_t)(draw >> 8) % w, y = (uint32_t)(draw >> 16) % h;
    const uint32_t box[4] = {x, y, 1 + (uint32_t)(draw >> 32) % (w - x), 1 + (uint32_t)(draw >> 48) % (h - y)};
    fuzz_box(d, &request, denominator, w, h, box, whole, draw & 16, all, part);
    request.lenient = true;
    wish.icc = draw & 256; /* a broken profile is passed */
    bool passes = leat_decoder_check(checker, data, length, true, &error) == LEAT_OK;
    FUZZ_ASSERT(!whole || (passes && !leat_decoder_warnings(checker)));
    fuzz_box(d, &request, denominator, w, h, box, passes, draw & 32, all, part);
    return 0;
}

#endif
