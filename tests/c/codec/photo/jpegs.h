/* JPEGs of every kind, in every form that they can be stored in, and their boxes held against a reference. */
#ifndef LEAT_TESTS_OP_JPEGS_H
#define LEAT_TESTS_OP_JPEGS_H

#include "photos.h"

#include "base/alloc.h"
#include "codec/photo/photo.h"
#include "format/source.h"

static const struct photo_style styles[] = {
    {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, false, false, false, false},
    {"gray with factors 2x2", JCS_GRAYSCALE, JCS_GRAYSCALE, {2}, {2}, 0, false, false, false, false},
    {"4:4:4", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, false, false, false, false},
    {"4:2:2", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {1, 1, 1}, 0, false, false, false, false},
    {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, false, false, false},
    {"4:4:0", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {2, 1, 1}, 0, false, false, false, false},
    {"4:1:1", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {1, 1, 1}, 0, false, false, false, false},
    {"4:1:0", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {2, 1, 1}, 0, false, false, false, false},
    {"chroma finer across", JCS_RGB, JCS_YCbCr, {1, 2, 2}, {2, 1, 1}, 0, false, false, false, false},
    {"4:4:4 with factors 2x1", JCS_RGB, JCS_YCbCr, {2, 2, 2}, {1, 1, 1}, 0, false, false, false, false},
    {"RGB", JCS_RGB, JCS_RGB, {1, 1, 1}, {1, 1, 1}, 0, false, false, false, false},
    {"4:2:0 with restarts", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 3, false, false, false, false},
    {"4:4:4 with restarts", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 1, false, false, false, false},
    {"4:2:0 in separate scans", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, false, true, false},
    {"4:2:0 progressive", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, true, false, false, false},
    {"4:4:4 progressive", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, true, false, false, false},
    {"4:2:0 arithmetic", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, true, false, false},
    {"gray progressive", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, true, false, false, false},
};
#define STYLES (sizeof styles / sizeof *styles)

static struct leat_decoder *decoder;
static struct leat_decoder *checker;
static struct leat_error error;

static inline int make_decoders(void **state)
{
    decoder = leat_decoder_new(&leat_codec_photo);
    checker = leat_decoder_new(&leat_codec_photo);
    return decoder && checker ? 0 : -1;
}

static inline int free_decoders(void **state)
{
    leat_decoder_free(decoder);
    leat_decoder_free(checker);
    return 0;
}

/* A photo in all ways that it can be stored. */
struct forms {
    const char *name;
    struct leat_decode_request form[3]; /* as it came; with its row index; in the fast form */
    size_t n;
    uint8_t *rows, *fast;
};

static inline struct forms forms_of(const char *name, const uint8_t *data, size_t length)
{
    struct forms f = {.name = name, .n = 1};
    size_t rows_length, fast_length;
    f.form[0] = (struct leat_decode_request){.data = data, .length = length};
    assert_ok(leat_decoder_check(checker, data, length, false, &error));
    const uint8_t *rows = leat_decoder_rows(checker, &rows_length);
    if (rows) {
        f.rows = malloc(rows_length);
        assert_non_null(f.rows);
        memcpy(f.rows, rows, rows_length);
        f.form[f.n] = f.form[0];
        f.form[f.n].rows = f.rows;
        f.form[f.n++].rows_length = rows_length;
    }
    int rc = leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, false, data, length, &f.fast, &fast_length, &error);
    if (rc && rc != LEAT_E_UNSUPPORTED)
        fail_msg("%s: %s", name, error.message);
    if (!rc)
        f.form[f.n++] = (struct leat_decode_request){.data = f.fast, .length = fast_length, .form = LEAT_FORM_FAST};
    return f;
}

static inline void forms_free(struct forms *f)
{
    leat_free(f->fast);
    free(f->rows);
}

/* Compares one box with the reference. */
static inline void check_form(const struct forms *forms, size_t form, const struct photo_full *full,
                              unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h, bool scan)
{
    uint32_t width, height;
    struct leat_decode_request request = forms->form[form];
    struct leat_image_wish wish = *leat_image_wish_of(&request);
    wish.gray = full->pixel_bytes == 1;
    request.wish = &wish;
    request.scan_to_end = scan;
    assert_ok(leat_image_open(decoder, &request, &width, &height, &error));
    assert_int_equal(leat_decoder_scaled_size(decoder, denominator, &width, &height), denominator);
    assert_int_equal(width, full->width);
    assert_int_equal(height, full->height);
    assert_ok(leat_decoder_begin(decoder, denominator, x, y, w, h, &error));
    for (uint32_t i = 0; i < h; i++) {
        const uint8_t *row;
        assert_ok(leat_decoder_row(decoder, &row, &error));
        const uint8_t *expected = full->pixels + ((size_t)(y + i) * full->width + x) * full->pixel_bytes;
        if (memcmp(row, expected, (size_t)w * full->pixel_bytes))
            fail_msg("%s, form %zu of %zu, 1/%u of %u x %u: row %u of box (%u, %u) + %u x %u differs", forms->name,
                     form, forms->n, denominator, width, height, i, x, y, w, h);
    }
    assert_ok(leat_decoder_end(decoder, &error));
}

static inline void check_box(const struct forms *forms, const struct photo_full *full, unsigned denominator, uint32_t x,
                             uint32_t y, uint32_t w, uint32_t h, bool scan)
{
    for (size_t form = 0; form < forms->n; form++)
        check_form(forms, form, full, denominator, x, y, w, h, scan);
}

static const struct photo_style color = {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                         0,       false,   false,     false,     false};

/* All of a photo. The caller frees the result. */
static inline uint8_t *decode_request(const struct leat_decode_request *request, uint32_t *w, uint32_t *h)
{
    assert_ok(leat_image_open(decoder, request, w, h, &error));
    assert_ok(leat_decoder_begin(decoder, 1, 0, 0, *w, *h, &error));
    size_t stride = *w * (leat_image_wish_of(request)->gray ? 1u : 4u);
    uint8_t *out = malloc(stride * *h);
    assert_non_null(out);
    for (uint32_t i = 0; i < *h; i++) {
        const uint8_t *row;
        assert_ok(leat_decoder_row(decoder, &row, &error));
        memcpy(out + i * stride, row, stride);
    }
    assert_ok(leat_decoder_end(decoder, &error));
    return out;
}

static inline uint8_t *decode_all(const uint8_t *data, size_t length, bool gray, uint32_t *w, uint32_t *h)
{
    const struct leat_decode_request request = {
        .data = data, .length = length, .wish = &(struct leat_image_wish){.gray = gray}};
    return decode_request(&request, w, h);
}

/* Where the segment with this marker begins; the file must have it. */
static inline size_t segment(const uint8_t *data, size_t length, uint8_t marker)
{
    for (size_t at = 2; at + 4 < length; at += 2u + (size_t)(data[at + 2] << 8 | data[at + 3])) {
        assert_int_equal(data[at], 0xff);
        if (data[at + 1] == marker)
            return at;
    }
    fail_msg("no segment %x", marker);
    return 0;
}

/* Decodes the middle pixel, then reads on to the end. */
static inline int decode_a_pixel_and_scan(const uint8_t *data, size_t length)
{
    uint32_t w, h;
    const uint8_t *row;
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    int rc = leat_image_open(decoder, &request, &w, &h, &error);
    if (rc)
        return rc;
    rc = leat_decoder_begin(decoder, 1, w / 2, h / 2, 1, 1, &error);
    if (!rc)
        rc = leat_decoder_row(decoder, &row, &error);
    if (rc) {
        leat_decoder_end(decoder, NULL);
        return rc;
    }
    return leat_decoder_end(decoder, &error);
}

#endif
