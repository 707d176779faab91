/* JPEG: a box is what a full decode has there, for every kind of file, offset and scale; damage is found. */
#include "photos.h"

#include <dirent.h>

#include "op/decode.h"
#include "op/program.h"

static const struct photo_style styles[] = {
    {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, false, false, false},
    {"gray with factors 2x2", JCS_GRAYSCALE, JCS_GRAYSCALE, {2}, {2}, 0, false, false, false},
    {"4:4:4", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, false, false, false},
    {"4:2:2", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {1, 1, 1}, 0, false, false, false},
    {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, false, false},
    {"4:4:0", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {2, 1, 1}, 0, false, false, false},
    {"4:1:1", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {1, 1, 1}, 0, false, false, false},
    {"4:1:0", JCS_RGB, JCS_YCbCr, {4, 1, 1}, {2, 1, 1}, 0, false, false, false},
    {"chroma finer across", JCS_RGB, JCS_YCbCr, {1, 2, 2}, {2, 1, 1}, 0, false, false, false},
    {"4:4:4 with factors 2x1", JCS_RGB, JCS_YCbCr, {2, 2, 2}, {1, 1, 1}, 0, false, false, false},
    {"RGB", JCS_RGB, JCS_RGB, {1, 1, 1}, {1, 1, 1}, 0, false, false, false},
    {"4:2:0 with restarts", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 3, false, false, false},
    {"4:4:4 with restarts", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 1, false, false, false},
    {"4:2:0 in separate scans", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, false, true},
    {"4:2:0 progressive", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, true, false, false},
    {"4:4:4 progressive", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, true, false, false},
    {"4:2:0 arithmetic", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, true, false},
    {"gray progressive", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, true, false, false},
};
#define STYLES (sizeof styles / sizeof *styles)

static struct leat_decoder *decoder;
static struct leat_error error;

static int make_decoder(void **state)
{
    (void)state;
    decoder = leat_decoder_new();
    return decoder ? 0 : -1;
}

static int free_decoder(void **state)
{
    (void)state;
    leat_decoder_free(decoder);
    return 0;
}

/* Compares one box with the reference. */
static void check_box(const char *name, const uint8_t *data, size_t length, const struct photo_full *full, unsigned denominator, uint32_t x,
                      uint32_t y, uint32_t w, uint32_t h, bool scan)
{
    uint32_t width, height;
    struct leat_decode_request request = {.data = data, .length = length, .gray = full->pixel_bytes == 1, .scan_to_end = scan};
    assert_ok(leat_decoder_open(decoder, &request, &width, &height, &error));
    assert_int_equal(leat_decoder_scaled_size(decoder, denominator, &width, &height), denominator);
    assert_int_equal(width, full->width);
    assert_int_equal(height, full->height);
    assert_ok(leat_decoder_begin(decoder, denominator, x, y, w, h, &error));
    for (uint32_t i = 0; i < h; i++) {
        const uint8_t *row;
        assert_ok(leat_decoder_row(decoder, &row, &error));
        const uint8_t *expected = full->pixels + ((size_t)(y + i) * full->width + x) * full->pixel_bytes;
        if (memcmp(row, expected, (size_t)w * full->pixel_bytes))
            fail_msg("%s, 1/%u of %u x %u: row %u of box (%u, %u) + %u x %u differs", name, denominator, width, height, i, x, y, w, h);
    }
    assert_ok(leat_decoder_end(decoder, &error));
}

/* Boxes of a small photo: every offset of both corners within the units that libjpeg works in, and single pixels. */
static void check_all_offsets(const struct photo_style *style, uint32_t w, uint32_t h, unsigned denominator)
{
    unsigned channels = style->in == JCS_GRAYSCALE ? 1 : 3;
    size_t length;
    uint8_t *pixels = photo_pixels(w, h, channels, w * 1000 + h);
    uint8_t *data = photo_encode(style, pixels, w, h, 85, &length);
    struct photo_full full = photo_reference(data, length, channels == 1, denominator);
    w = full.width;
    h = full.height;
    for (uint32_t i = 0; i < 34; i++) {
        /* the left edge at i, and the right edge at i from the right; rows likewise, at another pace */
        uint32_t x = i % w, y = (i * 5 + 3) % h;
        check_box(style->name, data, length, &full, denominator, x, y, w - x, h - y, i & 1);
        check_box(style->name, data, length, &full, denominator, 0, 0, w - x, h - y, i & 1);
        check_box(style->name, data, length, &full, denominator, x, y, 1, 1, i & 1);
        check_box(style->name, data, length, &full, denominator, w - 1 - x, h - 1 - y, 1, 1, i & 1);
        check_box(style->name, data, length, &full, denominator, x, 0, 1, h, i & 1);
        check_box(style->name, data, length, &full, denominator, 0, y, w, 1, i & 1);
    }
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t x = (uint32_t)leat_draw_below(i, 0, w), y = (uint32_t)leat_draw_below(i, 1, h);
        uint32_t bw = 1 + (uint32_t)leat_draw_below(i, 2, w - x), bh = 1 + (uint32_t)leat_draw_below(i, 3, h - y);
        check_box(style->name, data, length, &full, denominator, x, y, bw, bh, i & 1);
    }
    free(full.pixels);
    free(data);
    free(pixels);
}

static void every_box_of_every_kind_equals_a_full_decode_cropped(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},   {2, 3},   {7, 5},   {8, 8},   {9, 17},  {16, 16},
                                        {17, 33}, {31, 49}, {32, 64}, {67, 53}, {98, 131}};
    for (size_t s = 0; s < STYLES; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_all_offsets(&styles[s], sizes[i][0], sizes[i][1], 1);
}

static void every_box_of_a_scaled_photo_equals_a_scaled_full_decode_cropped(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {9, 17}, {67, 53}, {98, 131}, {160, 128}};
    for (size_t s = 0; s < STYLES; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (unsigned denominator = 2; denominator <= 8; denominator *= 2)
                check_all_offsets(&styles[s], sizes[i][0], sizes[i][1], denominator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_box_of_every_kind_equals_a_full_decode_cropped),
        cmocka_unit_test(every_box_of_a_scaled_photo_equals_a_scaled_full_decode_cropped),
    };
    return cmocka_run_group_tests(tests, make_decoder, free_decoder);
}
