/* Lenient decoding: of damaged JPEGs the pixels that libjpeg-turbo gives with its warnings, in any box; and strict
 * decoding of the same finds them broken. */
#include "jpegs.h"

#include "codec/jpeg/libjpeg.h"

#include <setjmp.h>

/* ---- the reference: libjpeg-turbo, as programs use it ---------------------------------------- */

static jmp_buf jump;
static void leave(j_common_ptr cinfo)
{
    longjmp(jump, 1);
}
static void say_nothing(j_common_ptr cinfo) {}

/* False: it fails. Else the pixels, and how many warnings there were. */
static bool by_libjpeg(const uint8_t *data, size_t length, unsigned denominator, struct photo_full *full,
                       long *warnings)
{
    static struct jpeg_decompress_struct d;
    static struct jpeg_error_mgr errors;
    *full = (struct photo_full){.pixel_bytes = 4};
    d.err = jpeg_std_error(&errors);
    errors.error_exit = leave;
    errors.output_message = say_nothing;
    if (setjmp(jump)) {
        jpeg_destroy_decompress(&d);
        free(full->pixels);
        return false;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, length);
    jpeg_read_header(&d, TRUE);
    d.scale_num = 1;
    d.scale_denom = denominator;
    if ((uint64_t)d.image_width * d.image_height > 4000000 || d.num_components == 4 || d.num_components == 2 ||
        d.data_precision != 8)
        longjmp(jump, 1); /* left out here */
    d.out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(&d);
    full->width = d.output_width;
    full->height = d.output_height;
    size_t stride = (size_t)full->width * 4;
    full->pixels = malloc(stride * full->height);
    assert_non_null(full->pixels);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = full->pixels + stride * d.output_scanline;
        jpeg_read_scanlines(&d, &row, 1);
    }
    *warnings = errors.num_warnings;
    jpeg_destroy_decompress(&d);
    return true;
}

static void check_lenient_box(const char *name, const uint8_t *data, size_t length, const struct photo_full *full,
                              unsigned denominator, uint32_t x, uint32_t y, uint32_t w, uint32_t h, bool scan)
{
    const struct leat_decode_request request = {.data = data, .length = length, .lenient = true, .scan_to_end = scan};
    uint32_t width, height;
    if (leat_image_open(decoder, &request, &width, &height, &error))
        fail_msg("%s: %s", name, error.message);
    leat_decoder_scaled_size(decoder, denominator, &width, &height);
    assert_int_equal(width, full->width);
    assert_int_equal(height, full->height);
    int rc = leat_decoder_begin(decoder, denominator, x, y, w, h, &error);
    for (uint32_t i = 0; i < h && !rc; i++) {
        const uint8_t *row;
        rc = leat_decoder_row(decoder, &row, &error);
        if (!rc && memcmp(row, full->pixels + ((size_t)(y + i) * width + x) * 4, 4 * (size_t)w))
            fail_msg("%s: row %u of box (%u, %u) + %u x %u at 1/%u differs", name, i, x, y, w, h, denominator);
    }
    if (rc || leat_decoder_end(decoder, &error))
        fail_msg("%s: %s", name, error.message);
}

/* Whatever the bytes are. 1 if libjpeg warned. */
static unsigned check_photo(const char *name, const uint8_t *data, size_t length, uint64_t key)
{
    struct photo_full full;
    long warnings;
    unsigned denominator = 1u << leat_draw_below(key, 9, 4);
    if (!by_libjpeg(data, length, denominator, &full, &warnings))
        return 0;
    int rc = leat_decoder_check(checker, data, length, true, &error);
    if (rc && (strstr(error.message, "does not decode this kind") || strstr(error.message, "leat decodes at most"))) {
        free(full.pixels);
        return 0;
    }
    if (rc)
        fail_msg("%s: libjpeg-turbo decodes it with %ld warnings, leat does not: %s", name, warnings, error.message);
    if (warnings && !leat_decoder_warnings(checker))
        fail_msg("%s: %ld warnings of libjpeg-turbo, none of leat", name, warnings);
    if (warnings)
        assert_int_equal(leat_decoder_check(checker, data, length, false, &error), LEAT_E_DECODE);
    for (uint64_t i = 0; i < 6; i++) {
        uint32_t x = i ? (uint32_t)leat_draw_below(key, 10 + 4 * i, full.width) : 0,
                 y = i ? (uint32_t)leat_draw_below(key, 11 + 4 * i, full.height) : 0;
        check_lenient_box(name, data, length, &full, denominator, x, y,
                          i ? 1 + (uint32_t)leat_draw_below(key, 12 + 4 * i, full.width - x) : full.width,
                          i ? 1 + (uint32_t)leat_draw_below(key, 13 + 4 * i, full.height - y) : full.height, i & 1);
    }
    free(full.pixels);
    return warnings > 0;
}

/* ---- made ones ------------------------------------------------------------------------------- */

enum damage { CUT, BEFORE_FRAME, BEFORE_SCAN, BEFORE_END, BEHIND_END, FLIPPED, ZEROED, TAKEN_OUT, DAMAGES };

/* The photo with this damage, at a place that is drawn. The caller frees it. */
static uint8_t *damaged(const uint8_t *data, size_t *length, enum damage damage, uint64_t key)
{
    size_t scan = segment(data, *length, 0xda), at = scan, n = 1 + (size_t)leat_draw_below(key, 0, 40);
    uint8_t *p = malloc(*length + n);
    assert_non_null(p);
    memcpy(p, data, *length);
    at += 20 + (size_t)leat_draw_below(key, 1, *length - scan - 22);
    if (damage == CUT) {
        *length = at;
    } else if (damage == FLIPPED) {
        p[at] ^= (uint8_t)(1u << leat_draw_below(key, 2, 8));
    } else if (damage == ZEROED) {
        memset(p + at, 0, n < *length - at ? n : *length - at);
    } else if (damage == TAKEN_OUT) {
        n = n < *length - at ? n : *length - at;
        memmove(p + at, p + at + n, *length - at - n);
        *length -= n;
    } else {
        at = damage == BEFORE_FRAME  ? segment(data, *length, 0xdb)
             : damage == BEFORE_SCAN ? scan
             : damage == BEFORE_END  ? *length - 2
                                     : *length;
        memmove(p + at + n, p + at, *length - at);
        for (size_t i = 0; i < n; i++)
            p[at + i] = (uint8_t)leat_draw_below(key, 3 + i, 255); /* no marker */
        *length += n;
    }
    return p;
}

TEST(damaged_photos_have_the_pixels_of_libjpeg_in_any_box)
{
    unsigned warned[DAMAGES] = {0}, tried = 0;
    for (size_t s = 0; s < STYLES; s++) {
        size_t length;
        uint8_t *pixels = photo_pixels(75, 66, styles[s].in == JCS_GRAYSCALE ? 1 : 3, s),
                *data = photo_encode(&styles[s], pixels, 75, 66, 80, &length);
        for (int damage = 0; damage < DAMAGES; damage++)
            for (uint64_t i = 0; i < 30; i += test_every(4), tried++) {
                size_t n = length;
                uint64_t key = (s * DAMAGES + (uint64_t)damage) * 100 + i;
                uint8_t *bytes = damaged(data, &n, (enum damage)damage, key);
                char name[128];
                snprintf(name, sizeof name, "%s, damage %d, %d", styles[s].name, damage, (int)i);
                warned[damage] += check_photo(name, bytes, n, key);
                free(bytes);
            }
        free(data);
        free(pixels);
    }
    for (int damage = 0; damage < DAMAGES; damage++)
        assert_true(damage == BEHIND_END || damage == BEFORE_END ? warned[damage] < tried / DAMAGES
                                                                 : warned[damage] > tried / DAMAGES / 30);
}

TEST(whole_photos_have_no_warnings)
{
    for (size_t s = 0; s < STYLES; s++) {
        size_t length;
        uint8_t *pixels = photo_pixels(40, 33, styles[s].in == JCS_GRAYSCALE ? 1 : 3, s),
                *data = photo_encode(&styles[s], pixels, 40, 33, 80, &length);
        assert_ok(leat_decoder_check(checker, data, length, true, &error));
        assert_int_equal(leat_decoder_warnings(checker), 0);
        free(data);
        free(pixels);
    }
}

TEST(damage_is_told_by_kind)
{
    size_t length;
    uint8_t *pixels = photo_pixels(64, 64, 3, 1), *data = photo_encode(&styles[4], pixels, 64, 64, 80, &length);
    size_t n = length;
    uint8_t *bytes = damaged(data, &n, BEFORE_FRAME, 3);
    assert_ok(leat_decoder_check(checker, bytes, n, true, &error));
    assert_int_equal(leat_decoder_warnings(checker), 1u << LEAT_JPEG_EXTRANEOUS);
    assert_string_equal(checker->codec->warning_names[LEAT_JPEG_EXTRANEOUS], "extraneous bytes");
    struct leat_value_info info;
    assert_ok(leat_codec_photo.probe(bytes, n, &info, &error));
    assert_int_equal(info.size[0], 64);
    free(bytes);
    assert_ok(leat_decoder_check(checker, data, length * 2 / 3, true, &error));
    assert_true(leat_decoder_warnings(checker) & 1u << LEAT_JPEG_FILE_ENDS);
    assert_ok(leat_decoder_check(checker, data, length, true, &error));
    assert_int_equal(leat_decoder_warnings(checker), 0); /* what was passed before is forgotten */
    free(data);
    free(pixels);
}

/* What cannot be decoded at all is broken for both. */
TEST(a_photo_without_a_header_is_broken_for_a_lenient_decoder_too)
{
    size_t length;
    uint8_t *pixels = photo_pixels(64, 64, 3, 1), *data = photo_encode(&styles[4], pixels, 64, 64, 80, &length);
    size_t scan = segment(data, length, 0xda);
    for (size_t cut = 0; cut <= scan; cut += 7)
        assert_int_equal(leat_decoder_check(checker, data, cut, true, &error), LEAT_E_DECODE);
    free(data);
    free(pixels);
}

TEST(a_damaged_photo_can_be_stored_as_pixels_and_made_smaller)
{
    size_t length, n;
    uint8_t *pixels = photo_pixels(64, 64, 3, 1), *data = photo_encode(&styles[4], pixels, 64, 64, 80, &length), *out;
    struct photo_full full;
    long warnings;
    length = length * 2 / 3;
    assert_true(by_libjpeg(data, length, 1, &full, &warnings));
    assert_int_equal(leat_codec_photo.pack(checker, LEAT_PHOTOS_RAW, false, data, length, &out, &n, &error),
                     LEAT_E_DECODE);
    assert_ok(leat_codec_photo.pack(checker, LEAT_PHOTOS_RAW, true, data, length, &out, &n, &error));
    assert_true(leat_decoder_warnings(checker));
    assert_int_equal(n, 16 + 64 * 64 * 3);
    for (size_t i = 0; i < 64 * 64; i++)
        assert_memory_equal(out + 16 + 3 * i, full.pixels + 4 * i, 3);
    leat_free(out);
    assert_int_equal(leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, true, data, length, &out, &n, &error),
                     LEAT_E_UNSUPPORTED);
    assert_int_equal(leat_codec_photo.shrink(data, length, 32, 90, false, &out, &n, &error), LEAT_E_DECODE);
    assert_ok(leat_codec_photo.shrink(data, length, 32, 90, true, &out, &n, &error));
    assert_ok(leat_decoder_check(checker, out, n, false, &error));
    leat_free(out);
    free(full.pixels);
    free(data);
    free(pixels);
}

/* ---- real ones ------------------------------------------------------------------------------- */

static unsigned visit_odd(const char *path, const uint8_t *data, size_t length)
{
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3))
        return 0;
    return check_photo(path, data, length, length);
}

TEST(odd_photos_have_the_pixels_of_libjpeg_warnings_or_not)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    const unsigned warned = for_each_file(folder, visit_odd);
    printf("# odd-images: %u JPEGs that libjpeg-turbo warns about\n", warned);
    assert_true(warned > 10);
}

TEST_MAIN_IN(make_decoders, free_decoders)
