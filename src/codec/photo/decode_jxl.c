/*
 * JPEG XL by libjxl, in the container and as it is, images and animations. Frames are whole canvases (libjxl blends
 * them). The orientation of the header is reported as the EXIF orientation that does the same; an EXIF block in the
 * file only repeats it and is ignored.
 */
#include <string.h>

#include "base/error.h"
#include "codec/photo/decode_whole.h"
#include "codec/photo/icc.h"

#define NAME "JPEG XL"
/* For a sample: libjxl computes in floats; frames of an animation refer to others. Measured with 12 million pixels of 3
 * channels: 5. */
#define SAMPLE_BYTES 8u

#ifdef LEAT_HAVE_JXL
#include <jxl/decode.h>

#define FUNCTIONS(X)                                                                                                   \
    X(JxlDecoderCloseInput)                                                                                            \
    X(JxlDecoderCreate)                                                                                                \
    X(JxlDecoderDestroy)                                                                                               \
    X(JxlDecoderGetBasicInfo)                                                                                          \
    X(JxlDecoderGetColorAsEncodedProfile)                                                                              \
    X(JxlDecoderGetColorAsICCProfile)                                                                                  \
    X(JxlDecoderGetICCProfileSize)                                                                                     \
    X(JxlDecoderProcessInput)                                                                                          \
    X(JxlDecoderSetImageOutCallback)                                                                                   \
    X(JxlDecoderSetInput)                                                                                              \
    X(JxlDecoderSetKeepOrientation)                                                                                    \
    X(JxlDecoderSetPreferredColorProfile)                                                                              \
    X(JxlDecoderSetUnpremultiplyAlpha)                                                                                 \
    X(JxlDecoderSkipFrames)                                                                                            \
    X(JxlDecoderSubscribeEvents)                                                                                       \
    X(JxlDecoderVersion)
static struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
} jxl;
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
/* The parts used here are the same in all of these. */
static const char *const names[] = {
    "libjxl.so.0.12", "libjxl.so.0.11", "libjxl.so.0.10", "libjxl.so.0.9", "libjxl.so.0.8", "libjxl.so.0.7", NULL};
static struct leat_library library = {
    NAME,
    names,
    "apt install the libjxl of your system (libjxl0.7 to libjxl0.12), and start again; or convert the photo to PNG",
    symbols,
    &jxl,
    0};

/* A decoder that was given all of the file, and tells of these events. */
static int open_file(struct leat_bytes file, int events, JxlDecoder **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_library_load(&library, error);
    if (rc)
        return rc;
    JxlDecoder *decoder = jxl.JxlDecoderCreate(NULL);
    if (!decoder || jxl.JxlDecoderSubscribeEvents(decoder, events) ||
        jxl.JxlDecoderSetKeepOrientation(decoder, JXL_TRUE) || jxl.JxlDecoderSetUnpremultiplyAlpha(decoder, JXL_TRUE) ||
        jxl.JxlDecoderSetInput(decoder, file.p, file.n)) {
        if (decoder)
            jxl.JxlDecoderDestroy(decoder);
        return leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
    }
    jxl.JxlDecoderCloseInput(decoder);
    *out = decoder;
    return LEAT_OK;
}

static int failed(JxlDecoderStatus status, struct leat_bytes file, struct leat_error *error)
{
    if (status == JXL_DEC_NEED_MORE_INPUT)
        return leat_decode_fail(error, NAME, (int64_t)file.n, file.n, "the file ends before the photo does");
    return leat_decode_fail(error, NAME, -1, file.n, "the data are corrupt");
}

static int read_info(struct leat_bytes file, JxlBasicInfo *info, struct leat_error *error)
{
    JxlDecoder *decoder;
    int rc = open_file(file, JXL_DEC_BASIC_INFO, &decoder, error);
    if (rc)
        return rc;
    const JxlDecoderStatus status = jxl.JxlDecoderProcessInput(decoder);
    if (status != JXL_DEC_BASIC_INFO || jxl.JxlDecoderGetBasicInfo(decoder, info))
        rc = failed(status, file, error);
    jxl.JxlDecoderDestroy(decoder);
    return rc;
}

/* The frames that are there, as far as the file goes. */
static int count_frames(struct leat_bytes file, uint32_t *count, struct leat_error *error)
{
    JxlDecoder *decoder;
    int rc = open_file(file, JXL_DEC_FRAME, &decoder, error);
    for (*count = 0; !rc && jxl.JxlDecoderProcessInput(decoder) == JXL_DEC_FRAME;)
        ++*count;
    if (decoder)
        jxl.JxlDecoderDestroy(decoder);
    return rc;
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    JxlBasicInfo info;
    uint32_t count = 1;
    int rc = read_info(file, &info, error);
    if (!rc && frame && info.have_animation)
        rc = count_frames(file, &count, error);
    if (rc)
        return rc;
    if (frame >= count)
        return leat_decode_no_frame(NAME, frame, count, error);
    header->width = info.xsize;
    header->height = info.ysize;
    header->channels = (uint8_t)((info.num_color_channels == 1 ? 1 : 3) + (info.alpha_bits ? 1 : 0));
    header->kind = LEAT_IMAGE_JXL;
    header->deep = info.bits_per_sample > 8;
    header->bytes = (uint64_t)info.xsize * info.ysize * (3 + (uint64_t)info.num_extra_channels) * SAMPLE_BYTES *
                    (info.have_animation ? 2 : 1);
    return LEAT_OK;
}

/* Whether the colours of the original, or of the pixels that are decoded, have a description that is no ICC profile.
 * This function and those below had one argument more, which they did not use, before version 0.9. */
static bool has_plain_colours(JxlDecoder *decoder, JxlColorProfileTarget of, JxlColorEncoding *colours)
{
    typedef JxlDecoderStatus (*function)(const JxlDecoder *, JxlColorProfileTarget, JxlColorEncoding *);
    typedef JxlDecoderStatus (*old_function)(const JxlDecoder *, const JxlPixelFormat *, JxlColorProfileTarget,
                                             JxlColorEncoding *);
    void (*found)(void) = (void (*)(void))jxl.JxlDecoderGetColorAsEncodedProfile;
    memset(colours, 0, sizeof *colours);
    if (jxl.JxlDecoderVersion() < 9000)
        return !((old_function)found)(decoder, NULL, of, colours);
    return !((function)found)(decoder, of, colours);
}

/* Lossy photos are stored in a space of their own. libjxl makes the colours of the original of them, and for one with
 * an ICC profile linear light, which nobody wants: leat asks for sRGB instead. */
static void choose_colours(JxlDecoder *decoder)
{
    JxlBasicInfo info;
    JxlColorEncoding colours;
    if (jxl.JxlDecoderGetBasicInfo(decoder, &info) || info.uses_original_profile ||
        has_plain_colours(decoder, JXL_COLOR_PROFILE_TARGET_ORIGINAL, &colours))
        return;
    memset(&colours, 0, sizeof colours);
    colours.color_space = info.num_color_channels == 1 ? JXL_COLOR_SPACE_GRAY : JXL_COLOR_SPACE_RGB;
    colours.white_point = JXL_WHITE_POINT_D65;
    colours.primaries = JXL_PRIMARIES_SRGB;
    colours.transfer_function = JXL_TRANSFER_FUNCTION_SRGB;
    colours.rendering_intent = JXL_RENDERING_INTENT_RELATIVE;
    (void)jxl.JxlDecoderSetPreferredColorProfile(decoder, &colours);
}

/* The destination of the pixels of the frame that is decoded; `stride` 0: none. libjxl keeps a buffer from frame to
 * frame. */
struct output {
    uint8_t *pixels;
    size_t stride, pixel;
};

static void put_pixels(void *opaque, size_t x, size_t y, size_t n, const void *pixels)
{
    const struct output *to = opaque;
    if (to->stride)
        memcpy(to->pixels + y * to->stride + x * to->pixel, pixels, n * to->pixel);
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    JxlDecoder *decoder;
    int rc = open_file(file, JXL_DEC_COLOR_ENCODING | JXL_DEC_FRAME | JXL_DEC_FULL_IMAGE, &decoder, error);
    if (rc)
        return rc;
    const JxlPixelFormat pixels = {4, image->wide ? JXL_TYPE_UINT16 : JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    struct output output = {image->pixels, 0, image->wide ? 8 : 4};
    bool done = false;
    uint32_t next = all ? 0 : frame; /* the frame that begins next */
    if (next)
        jxl.JxlDecoderSkipFrames(decoder, next);
    while (!rc) {
        const JxlDecoderStatus status = jxl.JxlDecoderProcessInput(decoder);
        if (status == JXL_DEC_COLOR_ENCODING) {
            choose_colours(decoder);
        } else if (status == JXL_DEC_FRAME) {
            output.stride = next++ == frame ? image->stride : 0;
        } else if (status == JXL_DEC_NEED_IMAGE_OUT_BUFFER) {
            if (jxl.JxlDecoderSetImageOutCallback(decoder, &pixels, put_pixels, &output))
                rc = failed(JXL_DEC_ERROR, file, error);
        } else if (status == JXL_DEC_FULL_IMAGE) {
            done = done || output.stride;
            if (done && !all)
                break;
        } else if (status == JXL_DEC_SUCCESS && done) {
            break;
        } else {
            rc = failed(status, file, error);
        }
    }
    jxl.JxlDecoderDestroy(decoder);
    return rc;
}

static struct leat_bytes exif(struct leat_bytes file)
{
    JxlBasicInfo info;
    return leat_whole_orientation(read_info(file, &info, NULL) ? 0 : (unsigned)info.orientation);
}

/* The size of the ICC profile of the decoded pixels, which libjxl makes if the file has none, 0 if there is none; and
 * its bytes. */
static size_t profile_size(JxlDecoder *decoder)
{
    typedef JxlDecoderStatus (*function)(const JxlDecoder *, JxlColorProfileTarget, size_t *);
    typedef JxlDecoderStatus (*old_function)(const JxlDecoder *, const JxlPixelFormat *, JxlColorProfileTarget,
                                             size_t *);
    void (*found)(void) = (void (*)(void))jxl.JxlDecoderGetICCProfileSize;
    size_t n = 0;
    const JxlDecoderStatus status = jxl.JxlDecoderVersion() < 9000
                                        ? ((old_function)found)(decoder, NULL, JXL_COLOR_PROFILE_TARGET_DATA, &n)
                                        : ((function)found)(decoder, JXL_COLOR_PROFILE_TARGET_DATA, &n);
    return status ? 0 : n;
}

static bool get_profile(JxlDecoder *decoder, uint8_t *to, size_t n)
{
    typedef JxlDecoderStatus (*function)(const JxlDecoder *, JxlColorProfileTarget, uint8_t *, size_t);
    typedef JxlDecoderStatus (*old_function)(const JxlDecoder *, const JxlPixelFormat *, JxlColorProfileTarget,
                                             uint8_t *, size_t);
    void (*found)(void) = (void (*)(void))jxl.JxlDecoderGetColorAsICCProfile;
    if (jxl.JxlDecoderVersion() < 9000)
        return !((old_function)found)(decoder, NULL, JXL_COLOR_PROFILE_TARGET_DATA, to, n);
    return !((function)found)(decoder, JXL_COLOR_PROFILE_TARGET_DATA, to, n);
}

/* PQ and HLG, which are HDR, stay as they are. */
static bool converts(const JxlColorEncoding *c)
{
    const bool srgb = c->white_point == JXL_WHITE_POINT_D65 && c->transfer_function == JXL_TRANSFER_FUNCTION_SRGB &&
                      (c->color_space == JXL_COLOR_SPACE_GRAY || c->primaries == JXL_PRIMARIES_SRGB);
    return !srgb && c->transfer_function != JXL_TRANSFER_FUNCTION_PQ &&
           c->transfer_function != JXL_TRANSFER_FUNCTION_HLG;
}

static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    JxlDecoder *decoder;
    JxlColorEncoding colours;
    int rc = LEAT_OK;
    *found = (struct leat_bytes){NULL, 0};
    if (open_file(file, JXL_DEC_COLOR_ENCODING, &decoder, NULL)) /* decoding it says why */
        return LEAT_OK;
    if (jxl.JxlDecoderProcessInput(decoder) == JXL_DEC_COLOR_ENCODING) {
        choose_colours(decoder);
        const bool plain = has_plain_colours(decoder, JXL_COLOR_PROFILE_TARGET_DATA, &colours);
        const size_t n = plain && !converts(&colours) ? 0 : profile_size(decoder);
        if (n > LEAT_ICC_MOST_BYTES)
            rc = leat_icc_broken(NAME, "it is larger than 16 MiB", error);
        else if (n)
            rc = leat_decode_reserve(room, n, 1, error);
        if (n && !rc && !get_profile(decoder, room->p, n))
            rc = leat_icc_broken(NAME, "libjxl does not give it", error);
        if (n && !rc)
            *found = (struct leat_bytes){room->p, n};
    }
    jxl.JxlDecoderDestroy(decoder);
    return rc;
}

LEAT_WHOLE_BACKEND(jxl, NAME, NULL, true, exif, profile);
#else
LEAT_WHOLE_NOT_BUILT(NAME, "libjxl-dev")
LEAT_WHOLE_BACKEND(jxl, NAME, NULL, true, NULL, NULL);
#endif
