/* Photos made smaller: the size, the pixels, the orientation, and what cannot be made smaller. */
#include "../../allocations.h"
#include "photos.h"

#include <math.h>

#include "base/alloc.h"
#include "codec/photo/photo.h"

static struct leat_error error;
static const struct photo_style color = {"4:4:4", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1},
                                         0,       false,   false,     false,     false};
static const struct photo_style gray = {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, false, false, false, false};

/* A smooth picture: what a JPEG of high quality keeps within a few units. */
static uint8_t *smooth(uint32_t w, uint32_t h, unsigned channels)
{
    uint8_t *p = malloc((size_t)w * h * channels);
    assert_non_null(p);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (unsigned c = 0; c < channels; c++)
                p[((size_t)y * w + x) * channels + c] =
                    (uint8_t)(128 + 100 * sin(x * 0.02 + 0.5) * cos(y * 0.03 + 0.2));
    return p;
}

/* The weight of input pixel `k` for output pixel `i`: a triangle as wide as the scale, as Pillow's bilinear filter. */
static double weight(uint32_t k, uint32_t i, double scale)
{
    double distance = fabs((k + 0.5 - (i + 0.5) * scale) / scale);
    return distance < 1 ? 1 - distance : 0;
}

static double expected(const struct photo_full *full, unsigned c, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
    double sum = 0, weights = 0, sx = (double)full->width / w, sy = (double)full->height / h;
    for (uint32_t v = 0; v < full->height; v++) {
        double wy = weight(v, y, sy);
        for (uint32_t u = 0; wy > 0 && u < full->width; u++) {
            double each = wy * weight(u, x, sx);
            sum += each * full->pixels[((size_t)v * full->width + u) * full->pixel_bytes + c];
            weights += each;
        }
    }
    return sum / weights;
}

TEST(a_large_photo_becomes_the_antialiased_resize_of_itself)
{
    for (int kind = 0; kind < 2; kind++) {
        size_t length, out_length;
        uint8_t *out, *pixels = smooth(200, 150, kind ? 1 : 3);
        uint8_t *data = photo_encode(kind ? &gray : &color, pixels, 200, 150, 95, &length);
        assert_ok(leat_codec_photo.shrink(data, length, 64, 100, false, &out, &out_length, &error));
        assert_non_null(out);
        struct photo_full full = photo_reference(data, length, kind, 1),
                          small = photo_reference(out, out_length, kind, 1);
        assert_int_equal(small.width, 64);
        assert_int_equal(small.height, 48);
        for (uint32_t y = 0; y < 48; y += 3)
            for (uint32_t x = 0; x < 64; x += 3)
                for (unsigned c = 0; c < (kind ? 1 : 3); c++) {
                    double got = small.pixels[((size_t)y * 64 + x) * small.pixel_bytes + c];
                    if (fabs(got - expected(&full, c, x, y, 64, 48)) > 4)
                        fail_msg("pixel (%u, %u), channel %u: %.0f, not %.1f", x, y, c, got,
                                 expected(&full, c, x, y, 64, 48));
                }
        struct leat_value_info info;
        assert_ok(leat_codec_photo.probe(out, out_length, &info, &error));
        assert_int_equal(info.channels, kind ? 1 : 3);
        free(full.pixels);
        free(small.pixels);
        leat_free(out);
        free(data);
        free(pixels);
    }
}

TEST(a_small_photo_stays_as_it_is)
{
    size_t length, out_length;
    uint8_t *out, *pixels = smooth(64, 30, 3), *data = photo_encode(&color, pixels, 64, 30, 90, &length);
    assert_ok(leat_codec_photo.shrink(data, length, 64, 90, false, &out, &out_length, &error));
    assert_null(out);
    assert_ok(leat_codec_photo.shrink(data, length, 63, 90, false, &out, &out_length, &error));
    assert_non_null(out);
    leat_free(out);
    assert_int_equal(leat_codec_photo.shrink(data, length, 0, 90, false, &out, &out_length, &error), LEAT_E_INVALID);
    assert_int_equal(leat_codec_photo.shrink(data, length, 60, 101, false, &out, &out_length, &error), LEAT_E_INVALID);
    free(data);
    free(pixels);
}

TEST(the_thinnest_photo_keeps_a_pixel_of_width)
{
    size_t length, out_length;
    uint8_t *out, *pixels = smooth(1, 3000, 3), *data = photo_encode(&color, pixels, 1, 3000, 90, &length);
    struct leat_value_info info;
    assert_ok(leat_codec_photo.shrink(data, length, 100, 90, false, &out, &out_length, &error));
    assert_ok(leat_codec_photo.probe(out, out_length, &info, &error));
    assert_int_equal(info.size[0], 1);
    assert_int_equal(info.size[1], 100);
    leat_free(out);
    free(data);
    free(pixels);
}

TEST(the_orientation_is_carried_over)
{
    static const uint8_t exif[] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, '*', 0, 0, 0, 8,
                                   0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   8,   0, 0,   0, 0, 0, 0};
    size_t length, out_length;
    uint8_t *out, *pixels = smooth(80, 40, 3), *data = photo_encode(&color, pixels, 80, 40, 90, &length);
    uint8_t *turned = malloc(length + sizeof exif);
    assert_non_null(turned);
    memcpy(turned, data, 2);
    memcpy(turned + 2, exif, sizeof exif);
    memcpy(turned + 2 + sizeof exif, data + 2, length - 2);
    assert_ok(leat_codec_photo.shrink(turned, length + sizeof exif, 40, 90, false, &out, &out_length, &error));
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    assert_non_null(decoder);
    struct leat_decode_request request = {
        .data = out, .length = out_length, .wish = &(struct leat_image_wish){.exif = true}};
    uint32_t w, h;
    assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
    assert_ok(leat_decoder_end(decoder, &error));
    assert_int_equal(w, 20);
    assert_int_equal(h, 40);
    leat_decoder_free(decoder);
    leat_free(out);
    free(turned);
    free(data);
    free(pixels);
}

TEST(a_broken_photo_is_not_made_smaller)
{
    size_t length, out_length;
    uint8_t *out, *pixels = smooth(100, 100, 3), *data = photo_encode(&color, pixels, 100, 100, 90, &length);
    for (size_t cut = 0; cut < length; cut += 1 + length / 97) {
        assert_int_equal(leat_codec_photo.shrink(data, cut, 50, 90, false, &out, &out_length, &error), LEAT_E_DECODE);
        assert_null(out);
    }
    free(data);
    free(pixels);
}

/* A row index that memory cannot hold is done without. */
TEST(every_failing_allocation_is_an_error_or_does_no_harm_and_leaks_nothing)
{
    size_t length, out_length;
    uint8_t *out, *pixels = photo_pixels(900, 700, 3, 1), *data = photo_encode(&color, pixels, 900, 700, 95, &length);
    uint8_t *right;
    size_t right_length;
    unsigned harmless = 0;
    assert_ok(leat_codec_photo.shrink(data, length, 600, 100, false, &right, &right_length, &error));
    int64_t n = 0;
    for (bool failed = true; failed; n++) {
        fail_allocation(n);
        const int rc = leat_codec_photo.shrink(data, length, 600, 100, false, &out, &out_length, &error);
        failed = allocation_failed();
        if (rc == LEAT_OK && (!failed || ++harmless <= 3)) {
            assert_int_equal(out_length, right_length);
            assert_memory_equal(out, right, right_length);
            leat_free(out);
            continue;
        }
        assert_int_equal(rc, LEAT_E_NOMEM);
        assert_null(out);
    }
    assert_true(n > 9);
    leat_free(right);
    free(data);
    free(pixels);
}

TEST_MAIN()
