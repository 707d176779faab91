/*
 * What the headers of a photo say, read without a decoder: the format by its first bytes, the size and kind, the EXIF
 * orientation. The orientation stands here:
 *
 *     JPEG   the first APP1 segment that begins with "Exif\0\0", before the first scan
 *     PNG    chunk eXIf, WebP  chunk EXIF
 *     then   a TIFF header ("II*\0" or "MM\0*", offset of the first directory), a directory of 12-byte entries,
 *            of which tag 0x0112 is the orientation
 *
 * Malformed EXIF means that there is no orientation: it is common, and the pixels are fine.
 */
#include <string.h>

#include <webp/decode.h>

#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/jpeg/picture.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/photo.h"

struct bytes {
    const uint8_t *p;
    size_t n;
};

/* `n` bytes at `at`, or none if they do not lie inside. */
static struct bytes part(struct bytes b, uint64_t at, uint64_t n)
{
    if (at > b.n || n > b.n - at)
        return (struct bytes){NULL, 0};
    return (struct bytes){b.p + at, (size_t)n};
}

static bool starts_with(struct bytes b, const char *text, size_t n)
{
    return b.n >= n && !memcmp(b.p, text, n);
}
#define STARTS_WITH(b, literal) starts_with(b, literal, sizeof(literal) - 1)

static uint32_t number(const uint8_t *p, unsigned bytes, bool big)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (big ? bytes - 1 - i : i);
    return v;
}

static unsigned tiff_orientation(struct bytes tiff)
{
    bool big = STARTS_WITH(tiff, "MM\0*");
    if (!big && !STARTS_WITH(tiff, "II*\0"))
        return 1;
    struct bytes offset = part(tiff, 4, 4);
    if (!offset.p)
        return 1;
    uint64_t directory = number(offset.p, 4, big);
    struct bytes count = part(tiff, directory, 2);
    if (!count.p)
        return 1;
    for (uint64_t i = 0, n = number(count.p, 2, big); i < n; i++) {
        struct bytes entry = part(tiff, directory + 2 + 12 * i, 12);
        if (!entry.p)
            return 1;
        if (number(entry.p, 2, big) != 0x0112)
            continue;
        uint32_t type = number(entry.p + 2, 2, big);
        uint32_t value = type == 3 ? number(entry.p + 8, 2, big) : type == 4 ? number(entry.p + 8, 4, big) : 1;
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

/* TEM and restart markers, which libjpeg passes wherever they stand. */
static bool has_no_body(uint8_t marker)
{
    return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

/* Walks the segments of a JPEG: `*at` (first 2) is where the next one begins. Gives its marker and body, or 0 at the
 * first scan, at the end and where the bytes make no sense. */
static uint8_t jpeg_segment(struct bytes file, size_t *at, struct bytes *body)
{
    /* any number of fill bytes may stand before a marker, and markers that have no body */
    while (*at + 1 < file.n && file.p[*at] == 0xff && (file.p[*at + 1] == 0xff || has_no_body(file.p[*at + 1])))
        *at += file.p[*at + 1] == 0xff ? 1 : 2;
    struct bytes head = part(file, *at, 4);
    if (!head.p || head.p[0] != 0xff || head.p[1] == 0xda || head.p[1] == 0xd9)
        return 0;
    size_t length = number(head.p + 2, 2, true);
    *body = part(file, (uint64_t)*at + 4, length < 2 ? 0 : length - 2);
    if (length < 2 || !body->p)
        return 0;
    *at += 2 + length;
    return head.p[1];
}

static struct bytes jpeg_exif(struct bytes file)
{
    struct bytes body;
    size_t at = 2;
    for (uint8_t marker; (marker = jpeg_segment(file, &at, &body));)
        if (marker == 0xe1 && STARTS_WITH(body, "Exif\0\0"))
            return part(body, 6, body.n - 6);
    return (struct bytes){NULL, 0};
}

/* Chunks of PNG are (length, type, body, CRC), of RIFF (type, length, body, padding to even). */
static struct bytes chunk(struct bytes file, size_t at, const char *type, bool png)
{
    for (;;) {
        struct bytes head = part(file, at, 8);
        if (!head.p)
            return head;
        uint64_t length = number(head.p + (png ? 0 : 4), 4, png);
        struct bytes body = part(file, (uint64_t)at + 8, length);
        if (!body.p || !memcmp(head.p + (png ? 4 : 0), type, 4))
            return body;
        uint64_t next = (uint64_t)at + 8 + length + (png ? 4 : length & 1);
        if (next > file.n)
            return (struct bytes){NULL, 0};
        at = (size_t)next;
    }
}

unsigned leat_exif_orientation(const void *data, size_t length)
{
    struct bytes file = {data, length}, exif;
    if (STARTS_WITH(file, "\xff\xd8"))
        exif = jpeg_exif(file);
    else if (STARTS_WITH(file, "\x89PNG\r\n\x1a\n"))
        exif = chunk(file, 8, "eXIf", true);
    else
        exif = chunk(file, 12, "EXIF", false);
    /* some writers of PNG and WebP keep JPEG's prefix */
    if (STARTS_WITH(exif, "Exif\0\0"))
        exif = part(exif, 6, exif.n - 6);
    return exif.p ? tiff_orientation(exif) : 1;
}

/* ---- what a file is -------------------------------------------------------------------------- */

/* What else people have in folders of photos; `name` NULL ends the table. */
struct look {
    const char *name;
    size_t at, n;
    const char *bytes;
};
static const struct look looks[] = {
    {"a GIF", 0, 4, "GIF8"},
    {"a BMP", 0, 2, "BM"},
    {"a TIFF", 0, 4, "II*\0"},
    {"a TIFF", 0, 4, "MM\0*"},
    {"an AVIF", 4, 8, "ftypavif"},
    {"a HEIC", 4, 7, "ftyphei"},
    {"a HEIC", 4, 8, "ftypmif1"},
    {"a film (ISO media)", 4, 4, "ftyp"},
    {"a JPEG 2000", 0, 8, "\0\0\0\x0cjP  "},
    {"a JPEG 2000", 0, 4, "\xff\x4f\xff\x51"},
    {"a JPEG XL", 0, 8, "\0\0\0\x0cJXL "},
    {"a JPEG XL", 0, 2, "\xff\x0a"},
    {"a Photoshop file", 0, 4, "8BPS"},
    {"an icon", 0, 4, "\0\0\1\0"},
    {"an MNG", 0, 8, "\x8aMNG\r\n\x1a\n"},
    {"a JNG", 0, 8, "\x8bJNG\r\n\x1a\n"},
    {"a PDF", 0, 4, "%PDF"},
    {"a PNM", 0, 3, "P4\n"},
    {"a PNM", 0, 3, "P5\n"},
    {"a PNM", 0, 3, "P6\n"},
    {"a gzip file", 0, 2, "\x1f\x8b"},
    {"a ZIP file", 0, 4, "PK\3\4"},
    {"a web page or XML", 0, 1, "<"},
    {"JSON", 0, 1, "{"},
    {"a RIFF file that is no WebP", 0, 4, "RIFF"},
    {NULL, 0, 0, NULL},
};

const struct leat_decode_backend *leat_decode_recognise(const void *data, size_t length, struct leat_error *error)
{
    struct bytes file = {data, length};
    if (!length) {
        leat_fail(error, LEAT_E_DECODE, "the photo is empty (0 bytes): replace it, or leave it out");
        return NULL;
    }
    if (STARTS_WITH(file, "\xff\xd8\xff"))
        return &leat_decode_jpeg;
    if (STARTS_WITH(file, "\x89PNG\r\n\x1a\n"))
        return &leat_decode_png;
    if (STARTS_WITH(file, "RIFF") && starts_with(part(file, 8, length >= 12 ? 4 : length), "WEBP", 4))
        return &leat_decode_webp;
    for (const struct look *look = looks; look->name; look++) {
        if (starts_with(part(file, look->at, look->n), look->bytes, look->n)) {
            leat_fail(error, LEAT_E_DECODE,
                      "this looks like %s; leat reads JPEG, PNG and WebP: convert it, or leave it out", look->name);
            return NULL;
        }
    }
    static const char digits[] = "0123456789abcdef";
    char hex[3 * 8 + 1] = "";
    for (size_t i = 0; i < length && i < 8; i++) {
        hex[3 * i] = ' ';
        hex[3 * i + 1] = digits[file.p[i] >> 4];
        hex[3 * i + 2] = digits[file.p[i] & 15];
        hex[3 * i + 3] = 0;
    }
    leat_fail(error, LEAT_E_DECODE, "no JPEG, PNG or WebP: its %zu bytes begin with%s; replace it, or leave it out",
              length, hex);
    return NULL;
}

/* ---- size and kind --------------------------------------------------------------------------- */

/* SOF0 to SOF15 but for DHT, JPG and DAC, which have numbers in between. */
static bool is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static int jpeg_header(struct bytes file, struct leat_photo_info *info, struct leat_error *error)
{
    struct bytes body;
    size_t at = 2;
    uint8_t marker;
    do {
        marker = jpeg_segment(file, &at, &body);
        if (!marker)
            return leat_decode_fail(error, "JPEG", (int64_t)at, file.n, "no frame header (SOF) where one should be");
    } while (!is_frame(marker));
    if (body.n < 6)
        return leat_decode_fail(error, "JPEG", (int64_t)at, file.n, "the frame header (SOF) is too short");
    uint8_t components = body.p[5];
    if (components != 1 && components != 3 && components != 4)
        return leat_fail(error, LEAT_E_DECODE, "JPEG: %d colour components; leat reads 1, 3 and 4: convert the photo",
                         components);
    info->height = number(body.p + 1, 2, true);
    info->width = number(body.p + 3, 2, true);
    info->channels = components;
    info->image_kind = LEAT_IMAGE_JPEG_OTHER;
    if (body.p[0] == 8 && marker <= 0xc2)
        info->image_kind = marker == 0xc2 ? LEAT_IMAGE_JPEG_PROGRESSIVE : LEAT_IMAGE_JPEG_BASELINE;
    return leat_decode_check_size("JPEG", info->width, info->height, error);
}

static int png_header(struct bytes file, struct leat_photo_info *info, struct leat_error *error)
{
    static const uint8_t channels[] = {1, 0, 3, 3, 2, 0, 4};
    struct bytes body = chunk(part(file, 0, file.n < 33 ? file.n : 33), 8, "IHDR", true);
    if (body.n != 13 || body.p != file.p + 16)
        return leat_decode_fail(error, "PNG", 8, file.n, "no header chunk (IHDR) where one should be");
    if (body.p[9] > 6 || !channels[body.p[9]])
        return leat_decode_fail(error, "PNG", 25, file.n,
                                "the header chunk (IHDR) has a colour type that does not exist");
    info->width = number(body.p, 4, true);
    info->height = number(body.p + 4, 4, true);
    info->channels = channels[body.p[9]];
    info->image_kind = LEAT_IMAGE_PNG;
    return leat_decode_check_size("PNG", info->width, info->height, error);
}

static int webp_header(struct bytes file, struct leat_photo_info *info, struct leat_error *error)
{
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(file.p, file.n, &features))
        return leat_decode_fail(error, "WebP", -1, file.n, "the header is corrupt or cut off");
    info->width = (uint32_t)features.width;
    info->height = (uint32_t)features.height;
    info->channels = features.has_alpha ? 4 : 3;
    info->image_kind = LEAT_IMAGE_WEBP;
    return leat_decode_check_size("WebP", info->width, info->height, error);
}

int leat_photo_probe(const void *data, size_t length, struct leat_photo_info *info, struct leat_error *error)
{
    memset(info, 0, sizeof *info);
    const struct leat_decode_backend *backend = leat_decode_recognise(data, length, error);
    if (!backend)
        return LEAT_E_DECODE;
    struct bytes file = {data, length};
    return backend == &leat_decode_jpeg  ? jpeg_header(file, info, error)
           : backend == &leat_decode_png ? png_header(file, info, error)
                                         : webp_header(file, info, error);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Rows of libjpeg between its steps: samples, pixels, and three groups of rows for smooth upsampling. */
#define ROWS_BYTES 160
/* What the entropy decoder and the packer of row indexes know of a row of MCUs. */
#define INDEX_BYTES 128

/* The frame that a JPEG's header describes, but for its tables and colours; false: libjpeg's business. And whether
 * libjpeg keeps all coefficients until it has read the last scan: of a progressive photo, and of one whose scans are
 * apart. (Of an arithmetic one that is not asked.) */
static bool jpeg_frame(struct bytes file, struct leat_jpeg_frame *frame, bool *kept)
{
    struct bytes body;
    size_t at = 2;
    uint8_t marker;
    while ((marker = jpeg_segment(file, &at, &body)) && !is_frame(marker))
        ;
    memset(frame, 0, sizeof *frame);
    *kept = true;
    if (!marker || body.n < 6 || body.p[5] > LEAT_JPEG_MAX_COMPONENTS || body.n < 6 + 3 * (size_t)body.p[5])
        return false;
    frame->height = number(body.p + 1, 2, true);
    frame->width = number(body.p + 3, 2, true);
    frame->n_components = body.p[5];
    frame->colour = frame->n_components == 1   ? LEAT_JPEG_GRAY
                    : frame->n_components == 3 ? LEAT_JPEG_YCC
                                               : LEAT_JPEG_CMYK;
    for (unsigned i = 0; i < frame->n_components; i++) {
        frame->component[i].h = body.p[6 + 3 * i + 1] >> 4;
        frame->component[i].v = body.p[6 + 3 * i + 1] & 15;
    }
    while (jpeg_segment(file, &at, &body))
        ;
    const struct bytes scan = part(file, at, 5); /* marker, length, components */
    *kept = marker > 0xc1 || (scan.p && scan.p[1] == 0xda && scan.p[4] < frame->n_components);
    return leat_jpeg_frame_complete(frame);
}

/* As it came: libjpeg's rows, or ours, or first ours and then libjpeg's. */
static uint64_t jpeg_bytes(struct bytes file, const struct leat_photo_info *info)
{
    struct leat_jpeg_frame frame;
    bool kept;
    uint64_t bytes = (uint64_t)info->width * ROWS_BYTES, coefficients = 0;
    bool ours = jpeg_frame(file, &frame, &kept);
    if (!kept)
        return bytes + (ours ? leat_jpeg_picture_most_bytes(&frame) + (uint64_t)frame.mcus_h * INDEX_BYTES : 0);
    for (unsigned c = 0; ours && c < frame.n_components; c++)
        coefficients += (uint64_t)frame.component[c].blocks_w * frame.component[c].blocks_h * 64 * 2;
    return bytes + (ours ? coefficients : (uint64_t)info->width * info->height * LEAT_JPEG_MAX_COMPONENTS * 2);
}

static uint64_t fast_bytes(struct bytes file, struct leat_photo_info *info)
{
    struct leat_jpeg_frame frame;
    if (leat_jpeg_fast_frame(file.p, file.n, &frame, NULL))
        return 0;
    info->width = frame.width;
    info->height = frame.height;
    return leat_jpeg_picture_most_bytes(&frame) + leat_jpeg_fast_most_bytes(&frame);
}

uint64_t leat_photo_decode_bytes(const void *data, size_t length, const struct leat_value_info *value, bool exif)
{
    struct leat_photo_info info = {.width = value->width, .height = value->height};
    struct bytes file = {data, length};
    uint64_t bytes = value->form == LEAT_FORM_FAST ? fast_bytes(file, &info) : 0;
    if (value->form == LEAT_FORM_ORIGINAL && leat_photo_probe(file.p, file.n, &info, NULL))
        return 0; /* decoding will say what is wrong before it takes any memory */
    uint64_t pixels = (uint64_t)info.width * info.height;
    if (value->form == LEAT_FORM_RAW)
        bytes = (uint64_t)info.width * 4;
    else if (info.image_kind == LEAT_IMAGE_PNG)
        bytes = (uint64_t)info.width * ROWS_BYTES +
                (file.p[28] ? pixels * 4 : 0); /* interlaced: its rows come in seven passes */
    else if (info.image_kind ==
             LEAT_IMAGE_WEBP) /* the delivered pixels, and the decoder's if it is lossless or has transparency */
        bytes = (uint64_t)info.width * ROWS_BYTES + pixels * 8;
    else if (value->form == LEAT_FORM_ORIGINAL)
        bytes = jpeg_bytes(file, &info);
    return bytes + (exif && leat_decode_orientation(value->form, file.p, file.n) > 2 ? pixels * 4 : 0);
}

uint64_t leat_photo_restore_bytes(const void *data, size_t length, const struct leat_value_info *info)
{
    struct leat_jpeg_frame frame;
    struct leat_jpeg_original original;
    if (info->form != LEAT_FORM_FAST || leat_jpeg_fast_frame(data, length, &frame, NULL) ||
        leat_jpeg_fast_original(data, length, &original, NULL))
        return 0;
    return leat_jpeg_restore_most_bytes(&frame, &original);
}
