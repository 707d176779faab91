/*
 * TIFF: strips and tiles, planes together or apart, pages. The image and its format are read here (tiff.h), so that
 * sizes are bounded before the library sees the file; libtiff decompresses, and its bytes become pixels in
 * tiff_pixels.c.
 *
 * libtiff's errors are in the error. Its warnings about directories say nothing of pixels and are dropped; one while
 * pixels are decoded is damage. Only compressions whose decoders are kept up are passed to it.
 */
#include "codec/photo/tiff.h"

#include "base/error.h"
#include "codec/jpeg/libjpeg.h"
#include "codec/photo/decode_whole.h"
#include "codec/photo/icc.h"
#include "codec/photo/tiff_pixels.h"

enum { MOST_PAGES = 65536, MOST_SAMPLES = 64, CHUNKY = 1, PLANES = 2 };
enum { NONE = 1, OLD_JPEG = 6, JPEG = 7 };

/* A page's description of itself. */
struct page {
    uint64_t at; /* of its directory */
    struct leat_tiff_layout layout;
    unsigned compression;
    bool tiled;
    uint32_t width, height;  /* of the page */
    uint32_t part_w, part_h; /* of a tile, or a strip */
    uint64_t part_bytes;     /* decompressed, of one plane if they are apart */
    unsigned parts;          /* how many of them lie at one place: planes that are needed */
    unsigned plane[LEAT_TIFF_MOST_USED];
};

static int broken(struct leat_bytes file, const char *words, struct leat_error *error)
{
    return leat_decode_fail(error, "TIFF", -1, file.n, words);
}

static int unread(const char *what, uint64_t number, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_DECODE, "TIFF: %s %llu, which leat does not decode: convert the photo", what,
                     (unsigned long long)number);
}

/* The largest factor by which a compression can expand its bytes; 0: leat does not decode it. */
static uint64_t most_expansion(unsigned compression)
{
    switch (compression) {
    case NONE:
        return 1;
    case 2:     /* CCITT: run lengths */
    case 3:     /* fax, group 3 */
    case 4:     /* group 4: a white row is a bit */
    case 32771: /* run lengths, aligned to words */
        return 1 << 17;
    case 5:
        return 2800; /* LZW */
    case JPEG:
        return 2048;
    case 8: /* deflate */
    case 32946:
        return 1040;
    case 32773:
        return 64; /* PackBits */
    case 34925:    /* LZMA */
    case 50000:    /* Zstandard */
    case 50001:
        return 1 << 15; /* WebP */
    default:
        return 0;
    }
}

static int find_page(const struct leat_tiff *t, uint32_t frame, struct leat_tiff_directory *d, uint64_t *at,
                     struct leat_error *error)
{
    uint64_t next = t->first;
    for (uint32_t i = 0;; i++) {
        *at = next;
        if (i == MOST_PAGES)
            return broken(t->file, "its directories have no end", error);
        if (i && !next)
            return leat_decode_no_frame("TIFF", frame, i, error);
        if (!leat_tiff_directory(t, next, d))
            return broken(t->file, "a directory lies behind its end", error);
        if (i == frame)
            return LEAT_OK;
        next = d->next;
    }
}

/* Transparency is in the first sample beside the colours that says so. Four samples of colours without a word on the
 * last one are RGBA, as others read them. */
static void find_alpha(const struct leat_tiff *t, const struct leat_tiff_directory *d, struct leat_tiff_layout *l)
{
    struct leat_tiff_entry extra;
    if (!leat_tiff_find(t, d, 338, &extra)) {
        l->alpha = l->photometric == LEAT_TIFF_RGB && l->samples == 4 ? 3 : 0;
        return;
    }
    for (unsigned i = 0; i < extra.count && l->colours + i < l->samples && !l->alpha; i++) {
        uint64_t kind = leat_tiff_value(t, &extra, i);
        if (kind == 1 || kind == 2) {
            l->alpha = l->colours + i;
            l->multiplied = kind == 1;
        }
    }
}

static int read_samples(const struct leat_tiff *t, const struct leat_tiff_directory *d, struct leat_tiff_layout *l,
                        struct leat_error *error)
{
    struct leat_tiff_entry bits;
    l->bits = 1;
    const uint64_t samples = leat_tiff_number(t, d, 277, 1), photometric = leat_tiff_number(t, d, 262, 1),
                   format = leat_tiff_number(t, d, 339, 1), planes = leat_tiff_number(t, d, 284, CHUNKY);
    if (leat_tiff_find(t, d, 258, &bits)) {
        const uint64_t first = leat_tiff_value(t, &bits, 0);
        for (uint64_t i = 1; i < bits.count && i < samples; i++)
            if (leat_tiff_value(t, &bits, i) != first)
                return unread("samples of different numbers of bits, first of", first, error);
        if (first > 64)
            return unread("samples of a number of bits of", first, error);
        l->bits = (unsigned)first;
    }
    if (!samples || samples > MOST_SAMPLES)
        return unread("samples of a pixel:", samples, error);
    l->samples = (unsigned)samples;
    l->apart = planes == PLANES && samples > 1;
    if (planes != CHUNKY && planes != PLANES)
        return broken(t->file, "its planes are neither together nor apart", error);
    l->number = format == 2 ? LEAT_TIFF_SIGNED : format == 3 ? LEAT_TIFF_FLOAT : LEAT_TIFF_UNSIGNED;
    const bool known = l->number == LEAT_TIFF_FLOAT    ? l->bits == 32 || l->bits == 64
                       : l->number == LEAT_TIFF_SIGNED ? l->bits == 8 || l->bits == 16 || l->bits == 32
                                                       : (l->bits >= 1 && l->bits <= 16) || l->bits == 32;
    if (!known || format > 4)
        return unread(format == 3   ? "floating point samples of a number of bits of"
                      : format == 2 ? "signed samples of a number of bits of"
                      : format > 4  ? "samples in format"
                                    : "samples of a number of bits of",
                      format > 4 ? format : l->bits, error);
    switch (photometric) {
    case LEAT_TIFF_WHITE_IS_0:
    case LEAT_TIFF_BLACK_IS_0:
        l->colours = 1;
        break;
    case LEAT_TIFF_PALETTE:
        l->colours = 1;
        if (l->bits > 8 || l->number != LEAT_TIFF_UNSIGNED)
            return unread("a palette with indices of a number of bits of", l->bits, error);
        if (!leat_tiff_find(t, d, 320, &l->palette) || l->palette.count < UINT64_C(3) << l->bits)
            return broken(t->file, "its palette is missing or too short", error);
        break;
    case LEAT_TIFF_RGB:
        l->colours = 3;
        break;
    case LEAT_TIFF_CMYK:
        l->colours = 4;
        if (leat_tiff_number(t, d, 332, 1) != 1)
            return unread("inks other than CMYK, in set", leat_tiff_number(t, d, 332, 1), error);
        break;
    case LEAT_TIFF_YCBCR:
        l->colours = samples >= 3 ? 3 : 1;
        if (l->bits != 8 || (samples != 1 && samples != 3))
            return unread("YCbCr with a number of bits or samples of", samples == 3 ? l->bits : samples, error);
        break;
    case LEAT_TIFF_LAB:
        l->colours = 3;
        if (l->bits != 8)
            return unread("CIE L*a*b* with a number of bits of", l->bits, error);
        l->number = LEAT_TIFF_UNSIGNED; /* for the first sample: only L has no sign */
        break;
    default:
        return unread("photometric interpretation", photometric, error);
    }
    if (l->samples < l->colours)
        return broken(t->file, "it has fewer samples than its colours need", error);
    l->photometric = (unsigned)photometric;
    l->tiff = *t;
    find_alpha(t, d, l);
    return LEAT_OK;
}

/* Width, height, and the parts that are decompressed at a time. */
static int read_parts(const struct leat_tiff *t, const struct leat_tiff_directory *d, struct page *p,
                      struct leat_error *error)
{
    const struct leat_tiff_layout *l = &p->layout;
    struct leat_tiff_entry tile;
    const uint64_t width = leat_tiff_number(t, d, 256, 0), height = leat_tiff_number(t, d, 257, 0);
    int rc = leat_decode_check_size("TIFF", width, height, error);
    if (rc)
        return rc;
    p->width = (uint32_t)width;
    p->height = (uint32_t)height;
    p->tiled = leat_tiff_find(t, d, 322, &tile);
    uint64_t w = p->tiled ? leat_tiff_value(t, &tile, 0) : width,
             h = leat_tiff_number(t, d, p->tiled ? 323 : 278, p->tiled ? 0 : height);
    if (!p->tiled && (!h || h > height))
        h = height;
    if (!w || !h || w > (width < 2048 ? 4096 : 2 * width) || h > (height < 2048 ? 4096 : 2 * height))
        return broken(t->file, "its tiles or strips are of a size that makes no sense", error);
    p->part_w = (uint32_t)w;
    p->part_h = (uint32_t)h;
    for (unsigned c = 0; c < l->colours; c++)
        p->plane[p->parts++] = c;
    if (l->alpha)
        p->plane[p->parts++] = l->alpha;
    if (!l->apart)
        p->parts = 1;
    p->part_bytes = leat_tiff_row_bytes(l, p->part_w) * h;
    const uint64_t most = most_expansion(p->compression), all = leat_tiff_row_bytes(l, p->width) * height;
    if (!most)
        return unread(p->compression == OLD_JPEG ? "JPEG of before 1995, compression" : "compression", p->compression,
                      error);
    if (p->part_bytes * p->parts > LEAT_MAX_PIXELS * 4)
        return leat_fail(error, LEAT_E_DECODE, "TIFF: its strips or tiles are larger than 1 GiB: convert the photo");
    if (all / most > t->file.n || p->part_bytes / most > t->file.n)
        return broken(t->file, "the file ends before the photo does", error);
    return LEAT_OK;
}

static int read_page(struct leat_bytes file, uint32_t frame, struct page *p, struct leat_error *error)
{
    struct leat_tiff t;
    struct leat_tiff_directory d;
    *p = (struct page){0};
    if (!leat_tiff_begin(file, &t))
        return broken(file, "it does not begin like one", error);
    int rc = find_page(&t, frame, &d, &p->at, error);
    if (rc)
        return rc;
    const uint64_t compression = leat_tiff_number(&t, &d, 259, NONE);
    p->compression = compression <= UINT16_MAX ? (unsigned)compression : 0;
    rc = read_samples(&t, &d, &p->layout, error);
    return rc ? rc : read_parts(&t, &d, p, error);
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    struct page p;
    int rc = read_page(file, frame, &p, error);
    if (rc)
        return rc;
    const struct leat_tiff_layout *l = &p.layout;
    header->width = p.width;
    header->height = p.height;
    header->channels = (uint8_t)((l->colours == 1 && l->photometric != LEAT_TIFF_PALETTE ? 1 : 3) + (l->alpha ? 1 : 0));
    header->kind = LEAT_IMAGE_TIFF;
    header->deep = l->bits > 8;
    header->inks = l->photometric == LEAT_TIFF_CMYK;
    header->bytes = p.part_bytes * p.parts + (uint64_t)p.part_w * LEAT_TIFF_LINE_BYTES + (1 << 20);
    return LEAT_OK;
}

#ifdef LEAT_HAVE_TIFF
#include <stdio.h>
#include <tiffio.h>

#define FUNCTIONS(X)                                                                                                   \
    X(TIFFOpenOptionsAlloc)                                                                                            \
    X(TIFFOpenOptionsFree)                                                                                             \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                                             \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                                              \
    X(TIFFOpenOptionsSetWarningHandlerExtR)                                                                            \
    X(TIFFClientOpenExt)                                                                                               \
    X(TIFFSetSubDirectory)                                                                                             \
    X(TIFFGetFieldDefaulted)                                                                                           \
    X(TIFFSetField)                                                                                                    \
    X(TIFFIsCODECConfigured)                                                                                           \
    X(TIFFIsTiled)                                                                                                     \
    X(TIFFScanlineSize64)                                                                                              \
    X(TIFFTileSize64)                                                                                                  \
    X(TIFFComputeStrip)                                                                                                \
    X(TIFFComputeTile)                                                                                                 \
    X(TIFFReadEncodedStrip)                                                                                            \
    X(TIFFReadEncodedTile)                                                                                             \
    X(TIFFRGBAImageOK)                                                                                                 \
    X(TIFFRGBAImageBegin)                                                                                              \
    X(TIFFRGBAImageGet)                                                                                                \
    X(TIFFRGBAImageEnd)                                                                                                \
    X(TIFFClose)

static struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
} lib;
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
static const char *const files[] = {"libtiff.so.6", NULL};
struct leat_library leat_libtiff = {.format = "TIFF",
                                    .files = files,
                                    .advice = "apt install libtiff6, and start again; or convert the photo to PNG",
                                    .symbols = symbols,
                                    .functions = &lib};

/* One file while libtiff has it. */
struct client {
    struct leat_bytes file;
    uint64_t at;
    TIFF *tif;
    bool decoding;                /* pixels: a warning is damage from here on */
    char error[256], damage[256]; /* the last error of a directory; the first error and the first warning of pixels */
};

static tmsize_t read_some(thandle_t handle, void *to, tmsize_t n)
{
    struct client *c = handle;
    struct leat_bytes rest = leat_bytes_part(c->file, c->at < c->file.n ? c->at : c->file.n, 0);
    size_t room = rest.p ? c->file.n - (size_t)(rest.p - c->file.p) : 0, take = (size_t)n < room ? (size_t)n : room;
    if (n <= 0 || !take)
        return 0;
    memcpy(to, rest.p, take);
    c->at += take;
    return (tmsize_t)take;
}

static tmsize_t write_none(thandle_t handle, void *from, tmsize_t n)
{
    return 0;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence)
{
    struct client *c = handle;
    c->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? c->at + offset : c->file.n + offset;
    return c->at;
}

static int close_none(thandle_t handle)
{
    return 0;
}

static toff_t size(thandle_t handle)
{
    return ((struct client *)handle)->file.n;
}

/* libtiff reads its mapping and never writes to it. */
static int map(thandle_t handle, void **base, toff_t *length)
{
    struct client *c = handle;
    memcpy(base, &c->file.p, sizeof *base);
    *length = c->file.n;
    return 1;
}

static void unmap(thandle_t handle, void *base, toff_t length) {}

static void keep(char *words, size_t room, const char *module, const char *format, va_list arguments)
{
    int n = module ? snprintf(words, room, "%s: ", module) : 0;
    if (n >= 0 && (size_t)n < room)
        vsnprintf(words + n, room - (size_t)n, format, arguments);
    for (size_t end = strlen(words); end && (words[end - 1] == '.' || words[end - 1] == '\n'); end--)
        words[end - 1] = 0;
    if (!*words)
        snprintf(words, room, "libtiff gives no reason");
}

/* Both return 1, so that nothing comes to the handlers of the process, which print. */
static int hear_error(TIFF *tif, void *user, const char *module, const char *format, va_list arguments)
{
    struct client *c = user;
    if (!c->decoding || !*c->error)
        keep(c->error, sizeof c->error, module, format, arguments);
    return 1;
}

static int hear_warning(TIFF *tif, void *user, const char *module, const char *format, va_list arguments)
{
    struct client *c = user;
    if (c->decoding && !*c->damage)
        keep(c->damage, sizeof c->damage, module, format, arguments);
    return 1;
}

static int failed(const struct client *c, struct leat_error *error)
{
    return broken(c->file, *c->error ? c->error : "libtiff refuses it and does not say why", error);
}

/* Opens the page. The caller closes c->tif in any case. */
static int begin(struct client *c, const struct page *p, struct leat_error *error)
{
    TIFFOpenOptions *options = lib.TIFFOpenOptionsAlloc();
    if (!options)
        return leat_fail(error, LEAT_E_NOMEM, "memory to open a TIFF could not be had");
    const uint64_t most = p->part_bytes * 2 + (UINT64_C(64) << 20);
    lib.TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)most);
    lib.TIFFOpenOptionsSetErrorHandlerExtR(options, hear_error, c);
    lib.TIFFOpenOptionsSetWarningHandlerExtR(options, hear_warning, c);
    /* h: not the first directory, whose page may be another one */
    c->tif = lib.TIFFClientOpenExt("TIFF", "rh", c, read_some, write_none, seek, close_none, size, map, unmap, options);
    lib.TIFFOpenOptionsFree(options);
    if (!c->tif || !lib.TIFFSetSubDirectory(c->tif, p->at))
        return failed(c, error);
    if (!lib.TIFFIsCODECConfigured((uint16_t)p->compression))
        return leat_fail(error, LEAT_E_DECODE,
                         "TIFF: its compression (%u) is one that this machine's libtiff was built without: convert the "
                         "photo",
                         p->compression);
    uint32_t w = 0, h = 0;
    uint16_t bits = 0, samples = 0, planes = 0;
    lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_IMAGEWIDTH, &w);
    lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_IMAGELENGTH, &h);
    lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_BITSPERSAMPLE, &bits);
    lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_SAMPLESPERPIXEL, &samples);
    lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_PLANARCONFIG, &planes);
    const struct leat_tiff_layout *l = &p->layout;
    if (w != p->width || h != p->height || bits != l->bits || samples != l->samples ||
        (planes == PLANES && samples > 1) != l->apart || (lib.TIFFIsTiled(c->tif) != 0) != p->tiled)
        return broken(c->file, "its directory contradicts itself", error);
    return LEAT_OK;
}

/* One part, of one plane. */
static int read_part(struct client *c, const struct page *p, uint32_t x, uint32_t y, uint32_t rows, unsigned plane,
                     uint8_t *to, struct leat_error *error)
{
    const uint64_t bytes = leat_tiff_row_bytes(&p->layout, p->part_w) * rows;
    tmsize_t n;
    if (p->tiled)
        n = lib.TIFFReadEncodedTile(c->tif, lib.TIFFComputeTile(c->tif, x, y, 0, (uint16_t)plane), to, (tmsize_t)bytes);
    else
        n = lib.TIFFReadEncodedStrip(c->tif, lib.TIFFComputeStrip(c->tif, y, (uint16_t)plane), to, (tmsize_t)bytes);
    if (n < 0)
        return failed(c, error);
    return (uint64_t)n == bytes ? LEAT_OK : broken(c->file, "a strip or tile ends early", error);
}

static int decode_parts(struct client *c, struct page *p, const struct leat_whole_image *image,
                        struct leat_decode_buffer *parts, struct leat_decode_buffer *line, struct leat_error *error)
{
    const struct leat_tiff_layout *l = &p->layout;
    if (!p->tiled) { /* libtiff may have cut one large strip into several */
        uint32_t rows = 0;
        lib.TIFFGetFieldDefaulted(c->tif, TIFFTAG_ROWSPERSTRIP, &rows);
        if (rows > p->part_h)
            rows = p->part_h;
        if (!rows)
            return broken(c->file, "its strips have no rows", error);
        p->part_h = rows;
    }
    const uint64_t row_bytes = leat_tiff_row_bytes(l, p->part_w);
    if ((p->tiled ? lib.TIFFTileSize64(c->tif) != row_bytes * p->part_h : lib.TIFFScanlineSize64(c->tif) != row_bytes))
        return broken(c->file, "its directory contradicts itself", error);
    int rc = leat_decode_reserve(parts, row_bytes * p->part_h, p->parts, error);
    rc = rc ? rc : leat_decode_reserve(line, p->part_w, LEAT_TIFF_LINE_BYTES, error);
    for (uint32_t y = 0; y < p->height && !rc; y += p->part_h) {
        const uint32_t rows = p->height - y < p->part_h ? p->height - y : p->part_h;
        for (uint32_t x = 0; x < p->width && !rc; x += p->part_w) {
            const uint32_t columns = p->width - x < p->part_w ? p->width - x : p->part_w;
            for (unsigned i = 0; i < p->parts && !rc; i++)
                rc = read_part(c, p, x, y, p->tiled ? p->part_h : rows, p->plane[i],
                               parts->p + row_bytes * p->part_h * i, error);
            for (uint32_t r = 0; r < rows && !rc; r++)
                leat_tiff_put(l, parts->p + row_bytes * r, row_bytes * p->part_h, columns, image->wide, line->p,
                              image->pixels + (size_t)(y + r) * image->stride + (size_t)x * (image->wide ? 8 : 4));
        }
    }
    return rc;
}

/* YCbCr, perhaps with fewer samples of colour than pixels: libtiff makes RGBA of it. */
static int decode_rgba(struct client *c, const struct page *p, const struct leat_whole_image *image,
                       struct leat_error *error)
{
    char words[1024] = "";
    TIFFRGBAImage rgba;
    if (!lib.TIFFRGBAImageOK(c->tif, words) || !lib.TIFFRGBAImageBegin(&rgba, c->tif, 1, words))
        return broken(c->file, *words ? words : *c->error ? c->error : "libtiff cannot make colours of it", error);
    rgba.orientation = rgba.req_orientation = ORIENTATION_TOPLEFT;
    uint32_t *raster = (uint32_t *)(void *)image->pixels;
    const int good = lib.TIFFRGBAImageGet(&rgba, raster, p->width, p->height);
    lib.TIFFRGBAImageEnd(&rgba);
    for (size_t i = 0; i < (size_t)p->width * p->height; i++) {
        const uint32_t v = raster[i];
        leat_whole_put(image->pixels + 4 * i, TIFFGetR(v), TIFFGetG(v), TIFFGetB(v), 255);
    }
    return good ? LEAT_OK : failed(c, error);
}

static int convert_lab(const struct page *p, const struct leat_whole_image *image, struct leat_error *error)
{
    struct leat_icc *icc;
    int rc = leat_icc_open_lab("TIFF", &icc, error);
    for (uint32_t y = 0; y < p->height && !rc; y++)
        leat_icc_apply(icc, image->pixels + y * image->stride, NULL, p->width);
    leat_icc_close(icc);
    return rc;
}

static int decode_page(struct client *c, struct page *p, const struct leat_whole_image *image, struct leat_error *error)
{
    struct leat_tiff_layout *l = &p->layout;
    struct leat_decode_buffer parts = {0}, line = {0};
    int rc = begin(c, p, error);
    if (rc)
        return rc;
    c->decoding = true;
    l->inks = image->inks;
    *c->error = 0;
    if (l->photometric == LEAT_TIFF_YCBCR && l->samples == 3) {
        if (p->compression != JPEG || l->apart)
            return decode_rgba(c, p, image, error);
        lib.TIFFSetField(c->tif, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    rc = decode_parts(c, p, image, &parts, &line, error);
    if (!rc && l->photometric == LEAT_TIFF_LAB)
        rc = convert_lab(p, image, error);
    leat_decode_buffer_free(&parts);
    leat_decode_buffer_free(&line);
    return rc;
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    struct page p;
    struct client c = {.file = file};
    int rc = leat_library_load(&leat_libtiff, error);
    rc = rc ? rc : read_page(file, frame, &p, error);
    if (rc)
        return rc;
    rc = decode_page(&c, &p, image, error);
    if (c.tif)
        lib.TIFFClose(c.tif);
    if (rc || !*c.damage)
        return rc;
    if (!image->warnings)
        return broken(file, c.damage, error);
    *image->warnings |= 1u << LEAT_JPEG_OTHER_WARNING;
    return LEAT_OK;
}
#else
static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    return leat_library_not_built("TIFF", "libtiff 4.5 or newer (libtiff-dev)", error);
}
#endif

/* Its orientation stands in the same place as that of EXIF data: in its first directory. */
static struct leat_bytes exif(struct leat_bytes file)
{
    return file;
}

static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    struct leat_tiff t;
    struct leat_tiff_directory d;
    struct leat_tiff_entry e;
    *found = (struct leat_bytes){NULL, 0};
    uint64_t at;
    /* of a page that is not there decoding says so */
    if (leat_tiff_begin(file, &t) && !find_page(&t, frame, &d, &at, NULL) && leat_tiff_find(&t, &d, 34675, &e) &&
        leat_tiff_number(&t, &d, 262, 1) != LEAT_TIFF_LAB) /* which is none of a device */
        *found = (struct leat_bytes){e.values, (size_t)(e.count * e.unit)};
    return LEAT_OK;
}

LEAT_WHOLE_BACKEND(tiff, "TIFF", NULL, true, exif, profile);
