/*
 * Makes a large photo smaller when it is packed: rows from the decoder, through the resize of the operators, to
 * libjpeg-turbo's encoder, with only the rows in memory that the filter needs. No step is faster at the price of
 * quality: the decode is full, chroma is halved as encoders do by default, Huffman tables are made for the photo.
 *
 * Grey stays grey, all else becomes YCbCr. The stored orientation stays as it is: an EXIF orientation is carried over,
 * in a segment with nothing else. So is an ICC profile, which is for colours as they are stored; a photo in CMYK has
 * none afterwards.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "codec/jpeg/libjpeg.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/icc.h"
#include "kernels/kernels.h"
#include "kernels/resample.h"

struct shrinker {
    struct leat_decoder *decoder;
    struct jpeg_compress_struct cinfo;
    struct leat_jpeg_trouble trouble;
    struct leat_jpeg_output output;
    bool created;

    uint32_t width, height, out_w, out_h;
    unsigned pixel; /* bytes: 1 or 4 */
    unsigned orientation;
    struct leat_bytes profile; /* of the colours; n 0: none */
    struct leat_decode_buffer profile_room;
    struct leat_axis across, down;
    uint8_t *ring;        /* down.taps rows that went through the axis across, and one that went through both */
    const uint8_t **taps; /* of the row that is being made */
    size_t slot;          /* bytes of one row in the ring */
};

/* ---- encoding -------------------------------------------------------------------------------- */

/* Memory is all that the encoder can lack: its input is ours. */
static int encoder_failed(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "memory to encode a photo could not be had");
}

static void write_orientation(struct shrinker *s)
{
    uint8_t app1[] = {'E', 'x',  'i', 'f', 0,
                      0,   'I',  'I', '*', 0,
                      8,   0,    0,   0,   1,
                      0,   0x12, 1,   3,   0,
                      1,   0,    0,   0,   (uint8_t)s->orientation,
                      0,   0,    0,   0,   0,
                      0,   0};
    jpeg_write_marker(&s->cinfo, JPEG_APP0 + 1, app1, sizeof app1);
}

static int begin_encoding(struct shrinker *s, unsigned quality, struct leat_error *error)
{
    j_compress_ptr cinfo = &s->cinfo;
    cinfo->err = leat_jpeg_trouble_begin(&s->trouble, true);
    if (setjmp(s->trouble.jump))
        return encoder_failed(error);
    jpeg_create_compress(cinfo);
    s->created = true;
    leat_jpeg_output_begin(&s->output, cinfo, SIZE_MAX);
    cinfo->image_width = s->out_w;
    cinfo->image_height = s->out_h;
    cinfo->input_components = (int)s->pixel;
    cinfo->in_color_space = s->pixel == 1 ? JCS_GRAYSCALE : JCS_EXT_RGBX;
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, (int)quality, TRUE);
    cinfo->optimize_coding = TRUE;
    jpeg_start_compress(cinfo, TRUE);
    if (s->orientation > 1)
        write_orientation(s);
    if (s->profile.n)
        jpeg_write_icc_profile(cinfo, s->profile.p, (unsigned)s->profile.n);
    return LEAT_OK;
}

static int encode_row(struct shrinker *s, uint8_t *pixels, struct leat_error *error)
{
    if (setjmp(s->trouble.jump))
        return encoder_failed(error);
    JSAMPROW row = pixels;
    jpeg_write_scanlines(&s->cinfo, &row, 1);
    return LEAT_OK;
}

static int finish_encoding(struct shrinker *s, size_t *length, struct leat_error *error)
{
    if (setjmp(s->trouble.jump))
        return encoder_failed(error);
    jpeg_finish_compress(&s->cinfo);
    *length = s->output.length;
    return LEAT_OK;
}

/* ---- resizing -------------------------------------------------------------------------------- */

static int prepare(struct shrinker *s, const struct leat_kernels *kernels, struct leat_error *error)
{
    uint64_t ring;
    int rc = leat_axis_compute(&s->across, s->width, 0, s->width, s->out_w, LEAT_FILTER_ANTIALIAS);
    if (!rc)
        rc = leat_axis_compute(&s->down, s->height, 0, s->height, s->out_h, LEAT_FILTER_ANTIALIAS);
    if (!rc && kernels->prepare)
        rc = kernels->prepare(&s->across, 0, s->out_w, s->pixel, s->pixel);
    s->slot = (size_t)s->out_w * s->pixel + LEAT_ROW_PADDING;
    if (!rc && leat_mul_u64(s->slot, (uint64_t)s->down.taps + 1, &ring) && ring <= SIZE_MAX) {
        s->ring = leat_new_array(1, (size_t)ring);
        s->taps = leat_new_array(s->down.taps, sizeof *s->taps);
    }
    return s->ring && s->taps ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "memory to resize a photo could not be had");
}

/* Row `y` of the result, out of rows [down.first, down.end) of the ring. */
static uint8_t *make_row(struct shrinker *s, const struct leat_kernels *kernels, uint32_t y)
{
    uint32_t first = s->down.first[y], end = s->down.end[y];
    uint8_t *result = s->ring + s->down.taps * s->slot;
    for (uint32_t t = 0; t < s->down.taps; t++) /* rows of weight 0 point at one that is there */
        s->taps[t] = s->ring + ((first + t < end ? first + t : first) % s->down.taps) * s->slot;
    kernels->vertical(s->taps, s->down.weights + (size_t)y * s->down.taps, s->down.taps, result,
                      (size_t)s->out_w * s->pixel);
    return result;
}

static int resize_and_encode(struct shrinker *s, const struct leat_kernels *kernels, struct leat_error *error)
{
    uint32_t read = 0;
    for (uint32_t y = 0; y < s->out_h; y++) {
        for (; read < s->down.end[y]; read++) {
            const uint8_t *row;
            int rc = leat_decoder_row(s->decoder, &row, error);
            if (rc)
                return rc;
            kernels->horizontal(&s->across, 0, s->out_w, s->pixel, s->pixel, row,
                                s->ring + (read % s->down.taps) * s->slot);
        }
        int rc = encode_row(s, make_row(s, kernels, y), error);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

/* The profile that the colours stay in, of the open photo. One that is broken is left out, and so is any of inks, which
 * become RGB. NOMEM. */
static int find_profile(struct shrinker *s, struct leat_bytes file, struct leat_error *error)
{
    enum { MOST = 255 * 65519 }; /* in so many segments */
    const struct leat_photo_format *format = leat_photo_format_of(LEAT_FORM_ORIGINAL, file.p, file.n, error);
    if (!format || !format->backend->profile || leat_photo_is_cmyk(s->decoder))
        return LEAT_OK;
    struct leat_bytes profile;
    int rc = format->backend->profile(file, 0, &s->profile_room, &profile, error);
    const enum leat_icc_space space = rc ? LEAT_ICC_OTHER : leat_icc_space(profile);
    if ((space == LEAT_ICC_RGB || (space == LEAT_ICC_GRAY && s->pixel == 1)) && profile.n <= MOST)
        s->profile = profile;
    return rc == LEAT_E_NOMEM ? rc : LEAT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int shrink(struct shrinker *s, unsigned max_side, unsigned quality, size_t *length, struct leat_error *error)
{
    const struct leat_kernels *kernels = leat_kernels(leat_cpu_isa());
    uint32_t longer = s->width > s->height ? s->width : s->height;
    s->out_w = (uint32_t)lround((double)s->width * max_side / longer);
    s->out_h = (uint32_t)lround((double)s->height * max_side / longer);
    s->out_w = s->out_w ? s->out_w : 1;
    s->out_h = s->out_h ? s->out_h : 1;
    int rc = leat_decoder_begin(s->decoder, 1, 0, 0, s->width, s->height, error);
    if (!rc)
        rc = prepare(s, kernels, error);
    if (!rc)
        rc = begin_encoding(s, quality, error);
    if (!rc)
        rc = resize_and_encode(s, kernels, error);
    return rc ? rc : finish_encoding(s, length, error);
}

static void shrinker_free(struct shrinker *s)
{
    if (s->created)
        jpeg_destroy_compress(&s->cinfo);
    leat_decoder_free(s->decoder);
    leat_decode_buffer_free(&s->profile_room);
    leat_axis_destroy(&s->across);
    leat_axis_destroy(&s->down);
    leat_free(s->ring);
    leat_free(s->taps);
    leat_free(s->output.bytes);
    leat_free(s);
}

int leat_photo_shrink(const void *data, size_t length, unsigned max_side, unsigned quality, bool lenient, uint8_t **out,
                      size_t *out_length, struct leat_error *error)
{
    *out = NULL;
    *out_length = 0;
    struct leat_value_info info;
    int rc = leat_photo_probe(data, length, &info, error);
    if (rc)
        return rc;
    if (max_side < 1 || max_side > JPEG_MAX_DIMENSION || quality > 100)
        return leat_fail(error, LEAT_E_INVALID, "max_side is 1 to %ld and quality 1 to 100, not %u and %u",
                         JPEG_MAX_DIMENSION, max_side, quality);
    if (info.size[0] <= max_side && info.size[1] <= max_side)
        return LEAT_OK;
    struct shrinker *s = leat_new(struct shrinker);
    if (!s || !(s->decoder = leat_decoder_new(&leat_codec_photo))) {
        leat_free(s);
        return leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
    }
    const struct leat_image_wish wish = {.gray = info.channels < 3};
    const struct leat_decode_request request = {
        .data = data, .length = length, .wish = &wish, .lenient = lenient, .scan_to_end = true};
    s->pixel = wish.gray ? 1 : 4;
    s->orientation = leat_photo_orientation(data, length);
    rc = leat_image_open(s->decoder, &request, &s->width, &s->height, error);
    if (!rc) {
        rc = find_profile(s, (struct leat_bytes){data, length}, error);
        rc = rc ? rc : shrink(s, max_side, quality ? quality : 90, out_length, error);
        int end = leat_decoder_end(s->decoder, rc ? NULL : error);
        rc = rc ? rc : end;
    }
    if (!rc) {
        *out = s->output.bytes;
        s->output.bytes = NULL;
    }
    shrinker_free(s);
    return rc;
}
