/*
 * The parts that only codecs of images have: the wanted form of pixels, decoding at a smaller scale, and boxes, whose
 * rows are pulled one by one.
 *
 *     leat_image_open, leat_decoder_scaled_size, leat_decoder_begin, leat_decoder_row .. leat_decoder_end
 */
#ifndef LEAT_CODEC_IMAGE_H
#define LEAT_CODEC_IMAGE_H

#include "codec/codec.h"

/* Values of more pixels than this, or with a longer side, are refused as broken. The side also bounds what one resize
 * may take: of a photo of 1 x 2^28 pixels the weights alone would be 2 GiB. */
#define LEAT_MAX_PIXELS (UINT64_C(1) << 28)
#define LEAT_MAX_SIDE 65535

/* So many bytes after the last element of a row may be read (their values mean nothing). */
#define LEAT_DECODE_PADDING 64

/* The treatment of transparency. */
enum leat_alpha {
    LEAT_ALPHA_DROP = 0, /* colours are those that are stored, however transparent */
    LEAT_ALPHA_KEEP,     /* X of RGBX is the opacity, 255 (65535) where there is none; not with gray */
    LEAT_ALPHA_BLEND     /* blended with a background */
};

/* leat_decode_request.wish of an image. All zero, as without one: RGBX. */
struct leat_image_wish {
    bool gray;             /* 1 sample per pixel, else RGBX: 4 samples per pixel, X = 255 (65535) */
    bool wide;             /* samples of 16 bits in the machine's byte order, of 0 to 65535, else bytes */
    bool ids;              /* with gray: a mask, whose stored numbers are wanted as they are; only PNGs have them */
    uint8_t alpha;         /* enum leat_alpha */
    uint8_t background[3]; /* of LEAT_ALPHA_BLEND: R, G, B */
    uint32_t frame;        /* of an animation or of a file of several pages, from 0 */
    bool exif;             /* deliver the image as its EXIF orientation says */
    bool icc;              /* deliver colours of sRGB, if an ICC profile says what the stored ones are */
    bool inks;             /* CMYK may come as inks: set between photo/decode.c and the formats alone */
};
static inline const struct leat_image_wish *leat_image_wish_of(const struct leat_decode_request *request)
{
    static const struct leat_image_wish none;
    return request->wish ? (const struct leat_image_wish *)request->wish : &none;
}

struct leat_jpeg_frame;
struct leat_jpeg_source;

/* leat_codec.image: the functions below say what each does. */
struct leat_image_codec {
    unsigned (*scaled_size)(const struct leat_decoder *decoder, unsigned denominator, uint32_t *width,
                            uint32_t *height);
    int (*begin)(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                 struct leat_error *error);
    int (*row)(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error);
    /* NULL: its images have none. */
    const struct leat_jpeg_frame *(*blocks)(struct leat_decoder *decoder, struct leat_jpeg_source **source);
};

/* leat_decoder_open, which says width and height (after the EXIF orientation, if that was asked for); 0 after a
 * failure. */
static inline int leat_image_open(struct leat_decoder *decoder, const struct leat_decode_request *request,
                                  uint32_t *width, uint32_t *height, struct leat_error *error)
{
    uint32_t size[2] = {0, 0};
    int rc = leat_decoder_open(decoder, request, size, error);
    *width = size[0];
    *height = size[1];
    return rc;
}

/* The size of the open image at 1/denominator, as begin will have it. A JPEG decodes at 1, 2, 4 and 8: the result is
 * then ceil(size / denominator) and the call returns `denominator`. An image that has only 1 returns 1 and gives the
 * full size. `denominator` must be 1, 2, 4 or 8. */
static inline unsigned leat_decoder_scaled_size(const struct leat_decoder *decoder, unsigned denominator,
                                                uint32_t *width, uint32_t *height)
{
    return decoder->codec->image->scaled_size(decoder, denominator, width, height);
}

/* Begins the rows of the box [x, x + w) x [y, y + h), of the image scaled by 1/denominator (1, or what
 * leat_decoder_scaled_size returned). The box must lie in it and not be empty. May be called once per open. Rows are
 * byte for byte those of a full decode, cropped. Errors: DECODE, NOMEM, INVALID (the box). */
static inline int leat_decoder_begin(struct leat_decoder *decoder, unsigned denominator, uint32_t x, uint32_t y,
                                     uint32_t w, uint32_t h, struct leat_error *error)
{
    return decoder->codec->image->begin(decoder, denominator, x, y, w, h, error);
}

/* The next row of the box: `*row` points to its first pixel, with no particular alignment, and is valid until the
 * next call on this decoder. LEAT_DECODE_PADDING readable bytes follow the last one. To be called at most `h` times;
 * the caller may stop earlier. After a failure only leat_decoder_end may be called. Errors: DECODE, NOMEM. */
static inline int leat_decoder_row(struct leat_decoder *decoder, const uint8_t **row, struct leat_error *error)
{
    return decoder->codec->image->row(decoder, row, error);
}

/* The frame of a JPEG as it came that leat itself decodes (codec/jpeg/huffman.h), if it is delivered neither turned nor
 * in the colours of sRGB: what its pixels follow from, before they become gray or wide. Valid until leat_decoder_end;
 * NULL of any other image. With `source` the blocks themselves, in the place of leat_decoder_begin: then NULL, too, if
 * something about its bytes is unusual, and leat_decoder_begin may follow. After a failure of the source the image has
 * to be opened again. */
static inline const struct leat_jpeg_frame *leat_decoder_blocks(struct leat_decoder *decoder,
                                                                struct leat_jpeg_source **source)
{
    const struct leat_image_codec *image = decoder->codec->image;
    return image->blocks ? image->blocks(decoder, source) : NULL;
}

#endif
