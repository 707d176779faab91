/* A photo of every kind and a writer of them, for tests of packing. */
#ifndef LEAT_TESTS_PACK_KINDS_H
#define LEAT_TESTS_PACK_KINDS_H

#include "../codec/photo/photos.h"
#include "../files.h"

#include <spng.h>
#include <webp/encode.h>

#include "format/source.h"

enum {
    BASELINE,
    RESTARTS,
    GRAY,
    PROGRESSIVE,
    ARITHMETIC,
    CMYK,
    TURNED,
    TRAILED,
    PNG,
    GRAY_PNG,
    WEBP,
    CUT,
    EMPTY,
    TEXT,
    PADDED, /* bytes before the end marker, of which libjpeg warns */
    KINDS
};

struct file {
    uint8_t *bytes; /* freed by the test */
    size_t length;
};
static struct file files[KINDS];
static unsigned files_part = 1; /* of the sides of JPEGs */
static char folder[PATH_MAX], path[PATH_MAX + 32], other[PATH_MAX + 32];

static inline bool is_jpeg(unsigned kind)
{
    return kind <= TRAILED;
}

static inline bool is_good(unsigned kind)
{
    return kind <= WEBP;
}

static inline struct file jpeg(const struct photo_style *style, uint32_t w, uint32_t h)
{
    const unsigned channels = style->in == JCS_GRAYSCALE ? 1 : style->in == JCS_CMYK ? 4 : 3;
    struct file file;
    w /= files_part;
    h /= files_part;
    uint8_t *pixels = photo_pixels(w, h, channels, w);
    file.bytes = photo_encode(style, pixels, w, h, 88, &file.length);
    free(pixels);
    return file;
}

/* `more` bytes at `at`. */
static inline struct file insert(struct file file, size_t at, const void *more, size_t bytes)
{
    struct file out = {malloc(file.length + bytes), file.length + bytes};
    assert_non_null(out.bytes);
    memcpy(out.bytes, file.bytes, at);
    memcpy(out.bytes + at, more, bytes);
    memcpy(out.bytes + at + bytes, file.bytes + at, file.length - at);
    return out;
}

static inline struct file png(bool gray)
{
    struct file file;
    struct spng_ihdr header = {.width = 40, .height = 30, .bit_depth = 8, .color_type = gray ? 0 : 2};
    uint8_t *pixels = photo_pixels(40, 30, gray ? 1 : 3, 5);
    spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
    int code = 0;
    assert_non_null(spng);
    assert_int_equal(spng_set_option(spng, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(spng, &header), 0);
    assert_int_equal(spng_encode_image(spng, pixels, 40 * 30 * (gray ? 1 : 3), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    file.bytes = spng_get_png_buffer(spng, &file.length, &code);
    assert_non_null(file.bytes);
    spng_ctx_free(spng);
    free(pixels);
    return file;
}

static inline int make_files(void **state)
{
    static const uint8_t exif[] = {0xff, 0xe1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0,
                                   1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 6,   0,   0,   0, 0, 0, 0, 0};
    static const uint8_t zeros[64];
    static const struct photo_style plain = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
    static const struct photo_style restarts = {
        .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .restart = 7};
    static const struct photo_style gray = {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}};
    static const struct photo_style progressive = {
        .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {1, 1, 1}, .progressive = true};
    static const struct photo_style arithmetic = {
        .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .arithmetic = true};
    static const struct photo_style cmyk = {.in = JCS_CMYK, .stored = JCS_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}};
    files[BASELINE] = jpeg(&plain, 320, 240);
    files[RESTARTS] = jpeg(&restarts, 200, 150);
    files[GRAY] = jpeg(&gray, 180, 121);
    files[PROGRESSIVE] = jpeg(&progressive, 97, 64);
    files[ARITHMETIC] = jpeg(&arithmetic, 50, 41);
    files[CMYK] = jpeg(&cmyk, 40, 33);
    files[TURNED] = insert(files[BASELINE], 2, exif, sizeof exif);
    files[TRAILED] = insert(files[BASELINE], files[BASELINE].length, "more", 4);
    files[PNG] = png(false);
    files[GRAY_PNG] = png(true);
    uint8_t *pixels = photo_pixels(30, 20, 3, 9), *webp;
    files[WEBP].length = WebPEncodeLosslessRGB(pixels, 30, 20, 90, &webp);
    files[WEBP].bytes = malloc(files[WEBP].length);
    memcpy(files[WEBP].bytes, webp, files[WEBP].length);
    WebPFree(webp);
    free(pixels);
    files[CUT] = insert(files[BASELINE], files[BASELINE].length, "", 0);
    files[CUT].length /= 2;
    files[EMPTY] = (struct file){calloc(1, 1), 0};
    files[TEXT] = (struct file){(uint8_t *)strdup("this is no photo"), 16};
    files[PADDED] = insert(files[RESTARTS], files[RESTARTS].length - 2, zeros, sizeof zeros);
    return 0;
}

static inline int free_files(void **state)
{
    for (size_t i = 0; i < KINDS; i++)
        free(files[i].bytes);
    return 0;
}

static inline int make_folder(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%.4000s/a.leat", folder);
    snprintf(other, sizeof other, "%.4000s/b.leat", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    files_remove(folder);
    return 0;
}

static inline struct leat_writer_options wish(enum leat_photos photos)
{
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    o.photos = photos;
    o.resume = true;
    return o;
}

/* Rounds over all kinds, each photo beside `ballast` bytes, which fill groups. The writer is left to the caller, also
 * after a failure. */
static inline int pack_some(const char *to, const struct leat_writer_options *o, uint64_t n, size_t ballast,
                            struct leat_writer **w, struct leat_error *error)
{
    static const struct leat_field schema[2] = {{.name = "image", .kind = LEAT_KIND_IMAGE},
                                                {.name = "ballast", .kind = LEAT_KIND_BYTES}};
    uint8_t *zeros = calloc(1, ballast + 1);
    int rc = leat_writer_open(to, schema, 2, o, w, error);
    for (uint64_t i = rc ? 0 : leat_writer_count(*w); i < n && !rc; i++) {
        const struct file *file = &files[i % KINDS];
        const struct leat_value_ref values[2] = {{file->bytes, file->length, NULL}, {zeros, ballast, NULL}};
        rc = leat_writer_add(*w, values, NULL, error);
    }
    free(zeros);
    return rc;
}

static inline int pack_rounds(const char *to, const struct leat_writer_options *o, unsigned rounds, size_t ballast,
                              struct leat_writer **w, struct leat_error *error)
{
    int rc = pack_some(to, o, rounds * KINDS, ballast, w, error);
    return rc ? rc : leat_writer_finish(*w, error);
}

static inline void pack(const char *to, const struct leat_writer_options *o)
{
    struct leat_error error;
    struct leat_writer *w;
    assert_ok(pack_rounds(to, o, 1, 0, &w, &error));
    leat_writer_free(w, false);
}

static inline struct leat_extent extent_of(struct leat_source *s, uint64_t i)
{
    struct leat_error error;
    struct leat_extent e;
    size_t failed;
    assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
    return e;
}

#endif
