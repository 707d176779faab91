/*
 * What the first bytes of a photo say, for all formats: which one it is, the EXIF orientation, and the table of
 * formats. Adding one is adding its file and its line in the table. The orientation stands here:
 *
 *     JPEG   the first APP1 segment that begins with "Exif\0\0", before the first scan
 *     PNG    chunk eXIf, WebP  chunk EXIF
 *     then   a TIFF header ("II*\0" or "MM\0*", offset of the first directory), a directory of 12-byte entries,
 *            of which tag 0x0112 is the orientation
 *
 * Malformed EXIF means that there is no orientation: it is common, and the pixels are fine.
 */
#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/photo/bytes.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/raw.h"

const struct leat_decode_backend *const leat_decode_backends[LEAT_PHOTO_FORMATS] = {
    &leat_decode_jpeg,
    &leat_decode_png,
    &leat_decode_webp,
    &leat_decode_raw,
};

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

static const struct leat_decode_backend *recognise(const void *data, size_t length, struct leat_error *error)
{
    struct leat_bytes file = {data, length};
    for (size_t i = 0; leat_decode_backends[i]; i++)
        if (leat_decode_backends[i]->recognise && leat_decode_backends[i]->recognise(file))
            return leat_decode_backends[i];
    if (!error)
        return NULL;
    if (!length) {
        leat_fail(error, LEAT_E_DECODE, "the photo is empty (0 bytes): replace it, or leave it out");
        return NULL;
    }
    for (const struct look *look = looks; look->name; look++) {
        if (leat_bytes_start(leat_bytes_part(file, look->at, look->n), look->bytes, look->n)) {
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

/* ---- orientation ----------------------------------------------------------------------------- */

static unsigned tiff_orientation(struct leat_bytes tiff)
{
    bool big = LEAT_BYTES_START(tiff, "MM\0*");
    if (!big && !LEAT_BYTES_START(tiff, "II*\0"))
        return 1;
    struct leat_bytes offset = leat_bytes_part(tiff, 4, 4);
    if (!offset.p)
        return 1;
    uint64_t directory = leat_bytes_number(offset.p, 4, big);
    struct leat_bytes count = leat_bytes_part(tiff, directory, 2);
    if (!count.p)
        return 1;
    for (uint64_t i = 0, n = leat_bytes_number(count.p, 2, big); i < n; i++) {
        struct leat_bytes entry = leat_bytes_part(tiff, directory + 2 + 12 * i, 12);
        if (!entry.p)
            return 1;
        if (leat_bytes_number(entry.p, 2, big) != 0x0112)
            continue;
        uint32_t type = leat_bytes_number(entry.p + 2, 2, big);
        uint32_t value = type == 3   ? leat_bytes_number(entry.p + 8, 2, big)
                         : type == 4 ? leat_bytes_number(entry.p + 8, 4, big)
                                     : 1;
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

unsigned leat_exif_orientation(const void *data, size_t length)
{
    const struct leat_decode_backend *backend = recognise(data, length, NULL);
    if (!backend)
        return 1;
    struct leat_bytes exif = backend->exif((struct leat_bytes){data, length});
    /* some writers of PNG and WebP keep JPEG's prefix */
    if (LEAT_BYTES_START(exif, "Exif\0\0"))
        exif = leat_bytes_part(exif, 6, exif.n - 6);
    return exif.p ? tiff_orientation(exif) : 1;
}

unsigned leat_decode_orientation(uint8_t form, const void *data, size_t length)
{
    struct leat_raw_photo raw;
    struct leat_jpeg_original original;
    if (form == LEAT_FORM_RAW)
        return leat_raw_photo_get(data, length, &raw) ? raw.orientation : 1;
    if (form == LEAT_FORM_FAST)
        return leat_jpeg_fast_original(data, length, &original, NULL) ? 1 : original.orientation;
    return leat_exif_orientation(data, length);
}

/* ---- size, kind and memory ------------------------------------------------------------------- */

const struct leat_decode_backend *leat_decode_backend_of(uint8_t form, const void *data, size_t length,
                                                         struct leat_error *error)
{
    if (form == LEAT_FORM_RAW)
        return &leat_decode_raw;
    return form == LEAT_FORM_FAST ? &leat_decode_jpeg : recognise(data, length, error);
}

int leat_photo_probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    const struct leat_decode_backend *backend = recognise(data, length, error);
    int rc = backend ? backend->probe((struct leat_bytes){data, length}, info, error) : LEAT_E_DECODE;
    return rc ? rc : leat_decode_check_size(backend->name, info->width, info->height, error);
}

uint64_t leat_photo_decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif)
{
    struct leat_value_info found = {.form = info->form};
    const struct leat_decode_backend *backend = leat_decode_backend_of(info->form, data, length, NULL);
    uint64_t bytes = backend ? backend->bytes((struct leat_bytes){data, length}, &found) : 0;
    if (bytes && exif && leat_decode_orientation(info->form, data, length) > 2)
        bytes += (uint64_t)found.width * found.height * 4;
    return bytes; /* 0: decoding will say what is wrong before it takes any memory */
}
