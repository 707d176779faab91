/*
 * AVIF by libavif, images and sequences. A frame of a sequence is decoded behind those that it needs. Rotation and
 * mirroring (irot, imir) are reported as the EXIF orientation that does the same, as Pillow does it; an EXIF block in
 * the file only repeats them and is ignored. Colours that are numbers are reported as the ICC profile that says the
 * same.
 *
 * The allocations of libavif and its AV1 decoder follow from the size in the container, which is bounded before they
 * see any pixels.
 */
#include <string.h>

#include "base/error.h"
#include "codec/photo/cicp.h"
#include "codec/photo/decode_whole.h"

#define NAME "AVIF"
/* Times that libavif and its AV1 decoder may hold the planes: of an image, and of a sequence, whose frames refer to
 * others. Measured with 12 million pixels in 4:2:0: 2.2 bytes a pixel. */
#define HOLD_IMAGE 2u
#define HOLD_SEQUENCE 6u

/* A brand of AVIF among those of the first box. */
static bool recognise(struct leat_bytes file)
{
    if (file.n < 16 || memcmp(file.p + 4, "ftyp", 4) != 0)
        return false;
    const uint32_t length = leat_bytes_number(file.p, 4, true);
    for (size_t at = 8; at + 4 <= length && at + 4 <= file.n && at < 256; at += at == 8 ? 8 : 4)
        if (!memcmp(file.p + at, "avif", 4) || !memcmp(file.p + at, "avis", 4))
            return true;
    return false;
}

#ifdef LEAT_HAVE_AVIF
#include <avif/avif.h>

#define FUNCTIONS(X)                                                                                                   \
    X(avifDecoderCreate)                                                                                               \
    X(avifDecoderDestroy)                                                                                              \
    X(avifDecoderNthImage)                                                                                             \
    X(avifDecoderParse)                                                                                                \
    X(avifDecoderSetIOMemory)                                                                                          \
    X(avifImageYUVToRGB)                                                                                               \
    X(avifRGBImageSetDefaults)                                                                                         \
    X(avifResultToString)                                                                                              \
    X(avifVersion)
static struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
} avif;
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
static const char *const names[] = {"libavif.so.16", "libavif.so.15", NULL};
static struct leat_library library = {
    NAME,    names, "apt install libavif16 (libavif15 on older systems), and start again; or convert the photo to PNG",
    symbols, &avif, 0};

/*
 * Version 1.0 (libavif.so.16) put one field into each struct below, and since then they grow at their ends only. So the
 * fields before these are the same in both libraries, whichever of them leat was built for; the fields behind are found
 * from there:
 *
 *     avifImage      .. matrixCoefficients, [clli: 4 bytes], transformFlags, pasp, clap, irot, imir
 *     avifDecoder    .. durationInTimescales, [repetitionCount], alphaPresent
 *     avifRGBImage   .. isFloat, [maxThreads], pixels, rowBytes
 */
static size_t inserted(void)
{
    return *avif.avifVersion() == '0' ? 0 : 4;
}

static size_t behind(size_t field, size_t bytes, size_t alignment)
{
    return (field + bytes + inserted() + alignment - 1) / alignment * alignment;
}
#define BEHIND(type, field, alignment) behind(offsetof(type, field), sizeof((type){0}.field), alignment)

static bool has_alpha(const avifDecoder *decoder)
{
    avifBool present;
    const size_t at = BEHIND(avifDecoder, durationInTimescales, sizeof present);
    memcpy(&present, (const uint8_t *)decoder + at, sizeof present);
    return present;
}

/* The turn and mirror of the image: quarters against the clock, and 0 (top and bottom change places), 1 (left and
 * right) or -1. */
static void find_transform(const avifImage *image, unsigned *angle, int *mirror)
{
    struct {
        avifTransformFlags flags;
        avifPixelAspectRatioBox pasp;
        avifCleanApertureBox clap;
        uint8_t irot, imir;
    } t;
    const size_t at = BEHIND(avifImage, matrixCoefficients, sizeof t.flags);
    memcpy(&t, (const uint8_t *)image + at, sizeof t);
    *angle = t.flags & AVIF_TRANSFORM_IROT ? t.irot & 3u : 0;
    *mirror = t.flags & AVIF_TRANSFORM_IMIR ? t.imir & 1 : -1;
}

/* Room for the struct of any version. */
union rgb {
    avifRGBImage image;
    uint8_t room[512];
};

static void set_pixels(union rgb *rgb, uint8_t *pixels, uint32_t row_bytes)
{
    const size_t at = BEHIND(avifRGBImage, isFloat, sizeof pixels);
    memcpy(rgb->room + at, &pixels, sizeof pixels);
    memcpy(rgb->room + at + sizeof pixels, &row_bytes, sizeof row_bytes);
}

static int failed(avifResult result, struct leat_bytes file, struct leat_error *error)
{
    if (result == AVIF_RESULT_OUT_OF_MEMORY)
        return leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
    if (result == AVIF_RESULT_NO_CODEC_AVAILABLE)
        return leat_fail(error, LEAT_E_DECODE,
                         NAME ": the libavif of this machine has no AV1 decoder: install one that has (dav1d), or "
                              "convert the photo to PNG");
    if (result == AVIF_RESULT_TRUNCATED_DATA)
        return leat_decode_fail(error, NAME, (int64_t)file.n, file.n, "the file ends before the photo does");
    return leat_decode_fail(error, NAME, -1, file.n, avif.avifResultToString(result));
}

/* A decoder that knows the contents of the container. */
static int open_file(struct leat_bytes file, avifDecoder **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_library_load(&library, error);
    if (rc)
        return rc;
    avifDecoder *decoder = avif.avifDecoderCreate();
    if (!decoder)
        return leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
    decoder->maxThreads = 1;
    decoder->ignoreExif = decoder->ignoreXMP = AVIF_TRUE;
    decoder->imageDimensionLimit = LEAT_MAX_SIDE;
    decoder->strictFlags &= ~(avifStrictFlags)(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED); /* as Pillow */
    avifResult result = avif.avifDecoderSetIOMemory(decoder, file.p, file.n);
    result = result ? result : avif.avifDecoderParse(decoder);
    if (!result) {
        *out = decoder;
        return LEAT_OK;
    }
    rc = failed(result, file, error);
    avif.avifDecoderDestroy(decoder);
    return rc;
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    avifDecoder *decoder;
    int rc = open_file(file, &decoder, error);
    if (rc)
        return rc;
    header->width = decoder->image->width;
    header->height = decoder->image->height;
    header->channels =
        (uint8_t)((decoder->image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3) + (has_alpha(decoder) ? 1 : 0));
    header->kind = LEAT_IMAGE_AVIF;
    header->deep = decoder->image->depth > 8;
    header->bytes = (uint64_t)header->width * header->height * (has_alpha(decoder) ? 4 : 3) * (header->deep ? 2 : 1) *
                    (decoder->imageCount > 1 ? HOLD_SEQUENCE : HOLD_IMAGE);
    if (frame >= (uint32_t)decoder->imageCount)
        rc = leat_decode_no_frame(NAME, frame, (uint32_t)decoder->imageCount, error);
    avif.avifDecoderDestroy(decoder);
    return rc;
}

static int put_image(const avifImage *from, const struct leat_whole_header *found, const struct leat_whole_image *image,
                     struct leat_bytes file, struct leat_error *error)
{
    union rgb rgb;
    memset(&rgb, 0, sizeof rgb);
    if (from->width != found->width || from->height != found->height)
        return leat_decode_fail(error, NAME, -1, file.n, "its images are not of the size that its header says");
    avif.avifRGBImageSetDefaults(&rgb.image, from);
    rgb.image.format = AVIF_RGB_FORMAT_RGBA;
    rgb.image.depth = image->wide ? 16 : 8;
    set_pixels(&rgb, image->pixels, (uint32_t)image->stride);
    avifResult result = avif.avifImageYUVToRGB(from, &rgb.image);
    return result ? failed(result, file, error) : LEAT_OK;
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    avifDecoder *decoder;
    int rc = open_file(file, &decoder, error);
    if (rc)
        return rc;
    /* a hostile stream may hold larger images than the container says; one of a grid may jut out */
    const uint64_t most = (uint64_t)found->width * found->height * 4 + (1 << 20);
    decoder->imageSizeLimit = (uint32_t)(most < LEAT_MAX_PIXELS ? most : LEAT_MAX_PIXELS);
    for (uint32_t i = all ? 0 : frame; !rc && i < (all ? (uint32_t)decoder->imageCount : frame + 1); i++) {
        avifResult result = avif.avifDecoderNthImage(decoder, i);
        rc = result ? failed(result, file, error) : LEAT_OK;
        if (!rc && i == frame)
            rc = put_image(decoder->image, found, image, file, error);
    }
    avif.avifDecoderDestroy(decoder);
    return rc;
}

/* irot turns against the clock by quarters; imir, behind it, swaps top and bottom (0) or left and right (1). */
static struct leat_bytes exif(struct leat_bytes file)
{
    static const uint8_t plain[4] = {1, 8, 3, 6}, vertical[4] = {4, 5, 2, 7}, horizontal[4] = {2, 7, 4, 5};
    avifDecoder *decoder;
    if (open_file(file, &decoder, NULL))
        return (struct leat_bytes){NULL, 0};
    unsigned angle;
    int mirror;
    find_transform(decoder->image, &angle, &mirror);
    const unsigned orientation = mirror < 0 ? plain[angle] : mirror ? horizontal[angle] : vertical[angle];
    avif.avifDecoderDestroy(decoder);
    return leat_whole_orientation(orientation);
}

static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    avifDecoder *decoder;
    *found = (struct leat_bytes){NULL, 0};
    if (open_file(file, &decoder, NULL)) /* decoding it says why */
        return LEAT_OK;
    const avifImage *image = decoder->image;
    const size_t n = image->icc.size;
    int rc = leat_decode_reserve(room, n > LEAT_CICP_BYTES ? n : LEAT_CICP_BYTES, 1, error);
    if (!rc && n) {
        memcpy(room->p, image->icc.data, n);
        *found = (struct leat_bytes){room->p, n};
    } else if (!rc) {
        *found = leat_cicp_profile(image->colorPrimaries, image->transferCharacteristics, room->p);
    }
    avif.avifDecoderDestroy(decoder);
    return rc;
}

LEAT_WHOLE_BACKEND(avif, NAME, recognise, true, exif, profile);
#else
LEAT_WHOLE_NOT_BUILT(NAME, "libavif-dev")
LEAT_WHOLE_BACKEND(avif, NAME, recognise, true, NULL, NULL);
#endif
