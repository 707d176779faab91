/*
 * WebP by libwebp, lossy and lossless. libwebp writes a whole image, so all requested pixels lie in memory before the
 * first row: the box and a margin of an even number of pixels around it, because upsampling of lossy photos looks at
 * neighbours and because their chroma lies on even positions.
 *
 * A frame of an animation is the picture on its canvas, so all frames before it are decoded, too.
 *
 * With scan_to_end the whole image is decoded: libwebp stops reading at the bottom of a box.
 */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/decode_internal.h"

#define MARGIN 4u
/* Above this the buffer is given back when the photo ends. */
#define KEEP_BYTES LEAT_DECODE_BYTES

struct leat_backend_decoder {
    const uint8_t *data;
    size_t length;
    uint32_t width, height;
    bool scan_to_end, whole; /* the whole image was decoded without a failure */
    bool opaque;             /* X is to be made 255 */
    bool animated;
    uint32_t frame;
    uint32_t x, y, w; /* of the box in `image`; y counts on with each row */
    size_t stride;
    struct leat_decode_buffer image;
};

static int failed(const struct leat_backend_decoder *p, VP8StatusCode code, struct leat_error *error)
{
    const char *words = "the data are corrupt";
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return leat_fail(error, LEAT_E_NOMEM, "WebP: memory to decode a photo of %u x %u could not be had", p->width,
                         p->height);
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return leat_decode_fail(error, "WebP", (int64_t)p->length, p->length, "the file ends before the photo does");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        words = "it uses a feature that libwebp does not know";
        break;
    default:
        break;
    }
    return leat_decode_fail(error, "WebP", -1, p->length, words);
}

static void webp_destroy(struct leat_backend_decoder *p)
{
    leat_decode_buffer_free(&p->image);
}

static void webp_close(struct leat_backend_decoder *p)
{
    if (p->image.bytes > KEEP_BYTES)
        leat_decode_buffer_free(&p->image);
}

static int webp_open(struct leat_backend_decoder *p, const struct leat_decode_request *request, uint32_t *width,
                     uint32_t *height, struct leat_decode_rows *rows, struct leat_error *error)
{
    p->data = request->data;
    p->length = request->length;
    p->scan_to_end = request->scan_to_end;
    p->whole = false;
    p->width = p->height = 0;
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(p->data, p->length, &features);
    if (code)
        return failed(p, code, error);
    p->opaque = leat_image_wish_of(request)->alpha == LEAT_ALPHA_DROP;
    p->animated = features.has_animation;
    p->frame = leat_image_wish_of(request)->frame;
    if (p->frame && !p->animated)
        return leat_decode_no_frame("WebP", p->frame, 1, error);
    int rc = leat_decode_check_size("WebP", (uint64_t)features.width, (uint64_t)features.height, error);
    if (rc)
        return rc;
    p->width = *width = (uint32_t)features.width;
    p->height = *height = (uint32_t)features.height;
    return LEAT_OK;
}

/* The box with its margin, on even positions. */
static void widen(uint32_t size, uint32_t *at, uint32_t *length)
{
    uint32_t first = *at > MARGIN ? (*at - MARGIN) & ~1u : 0;
    uint32_t end = size - *at - *length > MARGIN ? *at + *length + MARGIN : size;
    *at = first;
    *length = end - first;
}

/* Decodes the requested frame, or with scan_to_end all, up to that one into p->image. */
static int decode_frames(struct leat_backend_decoder *p, struct leat_error *error)
{
    const WebPData data = {p->data, p->length};
    WebPAnimDecoderOptions options;
    WebPAnimInfo info;
    if (!WebPAnimDecoderOptionsInit(&options))
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "the libwebpdemux at hand is not the one that leat was built for: install a matching one");
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    if (!decoder) /* it does not say which: its canvas failed, or the container is corrupt */
        return failed(p, VP8_STATUS_BITSTREAM_ERROR, error);
    int rc = WebPAnimDecoderGetInfo(decoder, &info) ? LEAT_OK : failed(p, VP8_STATUS_BITSTREAM_ERROR, error);
    if (!rc && p->frame >= info.frame_count)
        rc = leat_decode_no_frame("WebP", p->frame, info.frame_count, error);
    if (!rc && (info.canvas_width != p->width || info.canvas_height != p->height))
        rc = failed(p, VP8_STATUS_BITSTREAM_ERROR, error);
    for (uint32_t i = 0; !rc && i < (p->scan_to_end ? info.frame_count : p->frame + 1); i++) {
        uint8_t *canvas;
        int time_ms;
        if (!WebPAnimDecoderGetNext(decoder, &canvas, &time_ms))
            rc = failed(p, VP8_STATUS_BITSTREAM_ERROR, error);
        else if (i == p->frame)
            memcpy(p->image.p, canvas, (size_t)p->width * p->height * 4);
    }
    WebPAnimDecoderDelete(decoder);
    p->whole = !rc && p->scan_to_end;
    return rc;
}

static int webp_begin(struct leat_backend_decoder *p, unsigned denominator, uint32_t x, uint32_t y, uint32_t w,
                      uint32_t h, struct leat_error *error)
{
    uint32_t left = x, top = y, width = w, height = h;
    widen(p->width, &left, &width);
    widen(p->height, &top, &height);
    if (p->scan_to_end || p->animated) {
        left = top = 0;
        width = p->width;
        height = p->height;
    }
    int rc = leat_decode_reserve(&p->image, height, (uint64_t)width * 4, error);
    if (rc)
        return rc;
    p->stride = (size_t)width * 4;
    p->x = x - left;
    p->y = y - top;
    p->w = w;
    if (p->animated)
        return decode_frames(p, error);

    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "the libwebp at hand is not the one that leat was built for: install a matching one");
    config.options.use_cropping = width != p->width || height != p->height;
    config.options.crop_left = (int)left;
    config.options.crop_top = (int)top;
    config.options.crop_width = (int)width;
    config.options.crop_height = (int)height;
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = p->image.p;
    config.output.u.RGBA.stride = (int)p->stride;
    config.output.u.RGBA.size = p->stride * height;
    VP8StatusCode code = WebPDecode(p->data, p->length, &config);
    p->whole = !code && !config.options.use_cropping;
    return code ? failed(p, code, error) : LEAT_OK;
}

static int webp_row(struct leat_backend_decoder *p, const uint8_t **row, struct leat_error *error)
{
    uint8_t *line = p->image.p + p->y++ * p->stride + (size_t)p->x * 4;
    for (size_t i = 0; p->opaque && i < p->w; i++)
        line[4 * i + 3] = 255;
    *row = line;
    return LEAT_OK;
}

static int webp_scan(struct leat_backend_decoder *p, struct leat_error *error)
{
    p->scan_to_end = true;
    return p->whole ? LEAT_OK : webp_begin(p, 1, 0, 0, p->width, p->height, error);
}

/* ---- the header ------------------------------------------------------------------------------ */

static int probe(struct leat_bytes file, struct leat_value_info *info, struct leat_error *error)
{
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(file.p, file.n, &features))
        return leat_decode_fail(error, "WebP", -1, file.n, "the header is corrupt or cut off");
    info->size[0] = (uint32_t)features.width;
    info->size[1] = (uint32_t)features.height;
    info->channels = features.has_alpha ? 4 : 3;
    info->kind = LEAT_IMAGE_WEBP;
    return LEAT_OK;
}

static bool is_animated(struct leat_bytes file)
{
    struct leat_bytes body = leat_bytes_chunk(file, 12, "VP8X", false);
    return body.n && body.p[0] & 2;
}

/* The delivered pixels, and the decoder's if it is lossless or has transparency; for an animation two canvases more. */
static uint64_t bytes(struct leat_bytes file, struct leat_value_info *info)
{
    if (probe(file, info, NULL) || leat_decode_check_size("WebP", info->size[0], info->size[1], NULL))
        return 0;
    return (uint64_t)info->size[0] * LEAT_DECODE_ROW_BYTES +
           (uint64_t)info->size[0] * info->size[1] * (is_animated(file) ? 16 : 8);
}

static struct leat_bytes exif(struct leat_bytes file)
{
    return leat_bytes_chunk(file, 12, "EXIF", false);
}

static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    *found = leat_bytes_chunk(file, 12, "ICCP", false);
    return LEAT_OK;
}

const struct leat_decode_backend leat_decode_webp = {
    .max_denominator = 1,
    .has_frames = true,
    .probe = probe,
    .bytes = bytes,
    .exif = exif,
    .profile = profile,
    .decoder_bytes = sizeof(struct leat_backend_decoder),
    .destroy = webp_destroy,
    .open = webp_open,
    .begin = webp_begin,
    .row = webp_row,
    .scan = webp_scan,
    .close = webp_close,
};
