/*
 * The first bytes of a photo, for all formats: the format, the EXIF orientation, and the table of formats. Adding one
 * is adding its file and its entry in formats.def. The orientation stands here:
 *
 *     JPEG   the first APP1 segment that begins with "Exif\0\0", before the first scan
 *     PNG    chunk eXIf, WebP  chunk EXIF
 *     each is a TIFF, in whose first directory tag 0x0112 is the orientation (tiff.c)
 *
 * Malformed EXIF means that there is no orientation: it is common, and the pixels are fine.
 */
#include <strings.h>

#include "base/error.h"
#include "codec/jpeg/fast.h"
#include "codec/photo/bytes.h"
#include "codec/photo/decode_internal.h"
#include "codec/photo/raw.h"
#include "codec/photo/tiff.h"

#define UNPACK(...) __VA_ARGS__
#define MAGIC(literal)                                                                                                 \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }
const struct leat_photo_format leat_photo_formats[LEAT_PHOTO_FORMATS + 1] = {
#define LEAT_PHOTO(id, ID, number, title, names, written_as, begins, flag)                                             \
    {.name = title,                                                                                                    \
     .kind = number,                                                                                                   \
     .suffixes = names,                                                                                                \
     .written = written_as,                                                                                            \
     .magic = {UNPACK begins},                                                                                         \
     .needs = flag,                                                                                                    \
     .backend = &leat_decode_##id},
#include "codec/photo/formats.def"
#undef LEAT_PHOTO
    {.name = "photo stored as pixels", .backend = &leat_decode_raw}};

/* ---- kinds of files -------------------------------------------------------------------------- */

bool leat_photo_has_suffix(const char *name)
{
    const char *dot = strrchr(name, '.');
    const size_t n = dot ? strlen(dot) : 0;
    for (size_t i = 0; dot && i < LEAT_PHOTO_FORMATS; i++)
        for (const char *p = leat_photo_formats[i].suffixes; p; p = strchr(p + 1, '.'))
            if (!strncasecmp(p, dot, n) && (!p[n] || p[n] == ','))
                return true;
    return false;
}

bool leat_photo_has_magic(const struct leat_photo_format *format, const void *data, size_t length)
{
    const uint8_t *p = data;
    for (const struct leat_photo_magic *magic = format->magic; magic->bytes; magic++) {
        size_t i = 0;
        while (i < magic->n && i < length && (magic->bytes[i] == '?' || (uint8_t)magic->bytes[i] == p[i]))
            i++;
        if (i == magic->n)
            return true;
    }
    return false;
}

bool leat_photo_begins(const void *head, size_t length)
{
    for (size_t i = 0; i < LEAT_PHOTO_FORMATS; i++)
        if (leat_photo_formats[i].magic[0].n >= 3 && leat_photo_has_magic(&leat_photo_formats[i], head, length))
            return true;
    return false;
}

/* Other files that people have in folders of photos; `name` NULL ends the table. `how`: what to do if it is no picture
 * that could be converted. */
struct look {
    const char *name;
    size_t at, n;
    const char *bytes, *how;
};
static const struct look looks[] = {
    {"a HEIC", 4, 7, "ftyphei", NULL},
    {"a HEIC", 4, 7, "ftyphev", NULL},
    {"a HEIC", 4, 8, "ftypmif1", NULL},
    {"a HEIC", 4, 8, "ftypmsf1", NULL},
    {"a film (ISO media)", 4, 4, "ftyp", NULL},
    {"a Photoshop file", 0, 4, "8BPS", NULL},
    {"an OpenEXR file", 0, 4, "v/1\1", NULL},
    {"a QOI", 0, 4, "qoif", NULL},
    {"a DDS", 0, 4, "DDS ", NULL},
    {"a JPEG XR", 0, 4, "II\xbc\1", NULL},
    {"the raw photo of a camera", 0, 8, "FUJIFILM", NULL},
    {"the raw photo of a camera", 0, 4, "IIRO", NULL},
    {"the raw photo of a camera", 0, 4, "IIU\0", NULL},
    {"an icon", 0, 4, "\0\0\1\0", NULL},
    {"an MNG", 0, 8, "\x8aMNG\r\n\x1a\n", NULL},
    {"a JNG", 0, 8, "\x8bJNG\r\n\x1a\n", NULL},
    {"a PDF", 0, 4, "%PDF", NULL},
    {"a PAM", 0, 2, "P7", NULL},
    {"a PFM", 0, 2, "PF", NULL},
    {"a PFM", 0, 2, "Pf", NULL},
    {"a gzip file", 0, 2, "\x1f\x8b", "decompress it"},
    {"a ZIP file", 0, 4, "PK\3\4", "replace it"},
    {"a web page or XML", 0, 1, "<", "replace it"},
    {"JSON", 0, 1, "{", "replace it"},
    {"a pointer of Git LFS", 0, 20, "version https://git-", "fetch it by git lfs pull"},
    {"a RIFF file that is no WebP", 0, 4, "RIFF", "replace it"},
    {NULL, 0, 0, NULL, NULL},
};

static const struct leat_photo_format *recognise(const void *data, size_t length, struct leat_error *error)
{
    struct leat_bytes file = {data, length};
    for (const struct leat_photo_format *f = leat_photo_formats; f < leat_photo_formats + LEAT_PHOTO_FORMATS; f++)
        if (leat_photo_has_magic(f, data, length) && (!f->backend->recognise || f->backend->recognise(file)))
            return f;
    if (!error)
        return NULL;
    if (!length) {
        leat_fail(error, LEAT_E_DECODE, "the photo is empty (0 bytes): replace it, or leave it out");
        return NULL;
    }
    for (const struct look *look = looks; look->name; look++) {
        if (leat_bytes_start(leat_bytes_part(file, look->at, look->n), look->bytes, look->n)) {
            leat_fail(error, LEAT_E_DECODE, "this looks like %s, which leat does not read: %s, or leave it out",
                      look->name, look->how ? look->how : "convert it to PNG");
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
    leat_fail(error, LEAT_E_DECODE,
              "no photo of a known format: its %zu bytes begin with%s; replace it, or leave it out", length, hex);
    return NULL;
}

/* ---- orientation ----------------------------------------------------------------------------- */

unsigned leat_photo_orientation(const void *data, size_t length)
{
    const struct leat_photo_format *format = recognise(data, length, NULL);
    if (!format || !format->backend->exif)
        return 1;
    struct leat_bytes exif = format->backend->exif((struct leat_bytes){data, length});
    /* some writers of PNG and WebP keep JPEG's prefix */
    if (LEAT_BYTES_START(exif, "Exif\0\0"))
        exif = leat_bytes_part(exif, 6, exif.n - 6);
    return leat_tiff_orientation(exif);
}

unsigned leat_decode_orientation(uint8_t form, const void *data, size_t length)
{
    struct leat_raw_photo raw;
    struct leat_jpeg_original original;
    if (form == LEAT_FORM_RAW)
        return leat_raw_photo_get(data, length, &raw) ? raw.orientation : 1;
    if (form == LEAT_FORM_FAST)
        return leat_jpeg_fast_original(data, length, &original, NULL) ? 1 : original.orientation;
    return leat_photo_orientation(data, length);
}

/* ---- size, kind and memory ------------------------------------------------------------------- */

/* That of a kind; NULL: there is none. */
static const struct leat_photo_format *format_of(unsigned kind)
{
    if (kind == LEAT_IMAGE_JPEG_PROGRESSIVE || kind == LEAT_IMAGE_JPEG_OTHER)
        kind = LEAT_IMAGE_JPEG;
    for (const struct leat_photo_format *f = leat_photo_formats; f < leat_photo_formats + LEAT_PHOTO_FORMATS; f++)
        if (f->kind == kind)
            return f;
    return NULL;
}

const struct leat_photo_format *leat_photo_format_of(uint8_t form, const void *data, size_t length,
                                                     struct leat_error *error)
{
    if (form == LEAT_FORM_RAW)
        return &leat_photo_formats[LEAT_PHOTO_FORMATS];
    return form == LEAT_FORM_FAST ? format_of(LEAT_IMAGE_JPEG) : recognise(data, length, error);
}

int leat_photo_probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    const struct leat_photo_format *format = recognise(data, length, error);
    info->deep = false;
    int rc = format ? format->backend->probe((struct leat_bytes){data, length}, info, error) : LEAT_E_DECODE;
    return rc ? rc : leat_decode_check_size(format->name, info->size[0], info->size[1], error);
}

unsigned leat_photo_kind(const void *data, size_t length)
{
    struct leat_value_info info = {0};
    return leat_photo_probe(data, length, &info, NULL) ? LEAT_IMAGE_UNKNOWN : info.kind;
}

const char *leat_photo_kind_name(unsigned kind)
{
    const struct leat_photo_format *format = format_of(kind);
    if (kind == LEAT_IMAGE_JPEG_PROGRESSIVE)
        return "progressive JPEG";
    if (kind == LEAT_IMAGE_JPEG_OTHER)
        return "other JPEG";
    return format ? format->name : "other";
}

const char *leat_photo_kind_suffix(unsigned kind)
{
    const struct leat_photo_format *format = format_of(kind);
    return format ? format->written : ".bin";
}

uint64_t leat_photo_decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif)
{
    struct leat_value_info found = {.form = info->form};
    const struct leat_photo_format *format = leat_photo_format_of(info->form, data, length, NULL);
    uint64_t bytes = format ? format->backend->bytes((struct leat_bytes){data, length}, &found) : 0;
    if (bytes && exif && leat_decode_orientation(info->form, data, length) > 2)
        bytes += (uint64_t)found.size[0] * found.size[1] * 4;
    return bytes; /* 0: decoding will report the error before it takes any memory */
}
