/* JPEGs that their header refuses: too large, of too many scans, of a kind that there is no decoder for; and rare kinds
 * that it does not. */
#include "jpegs.h"

#include "base/bytes.h"
#include "codec/jpeg/libjpeg.h"

TEST(a_header_that_promises_too_much_is_refused_before_memory_is_spent)
{
    static const uint8_t sizes[][4] = {
        {0xff, 0x00, 0xff, 0x00}, {0x3f, 0x00, 0x3f, 0x00}, {0, 0, 0, 16}, {0, 16, 0, 0}};
    size_t length;
    uint8_t *pixels = photo_pixels(40, 40, 3, 1);
    for (size_t s = 0; s < STYLES; s++) {
        if (styles[s].in == JCS_GRAYSCALE || styles[s].arithmetic)
            continue;
        uint8_t *data = photo_encode(&styles[s], pixels, 40, 40, 80, &length);
        size_t at = segment(data, length, styles[s].progressive ? 0xc2 : 0xc0);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memcpy(data + at + 5, sizes[i], 4);
            assert_int_equal(leat_decoder_check(checker, data, length, false, &error), LEAT_E_DECODE);
        }
        free(data);
    }
    free(pixels);
}

TEST(thousands_of_scans_are_refused)
{
    static const struct photo_style apart = {"apart", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1},
                                             0,       false,   false,     true,      false};
    size_t length;
    uint8_t *pixels = photo_pixels(16, 16, 3, 1), *data = photo_encode(&apart, pixels, 16, 16, 50, &length);
    size_t begin = segment(data, length, 0xda), end = begin + 2;
    while (data[end] != 0xff || data[end + 1] == 0)
        end++;
    size_t scan = end - begin, n = 2000;
    uint8_t *bomb = malloc(length + n * scan);
    assert_non_null(bomb);
    memcpy(bomb, data, begin);
    for (size_t i = 0; i < n; i++)
        memcpy(bomb + begin + i * scan, data + begin, scan);
    memcpy(bomb + begin + n * scan, data + begin, length - begin);
    assert_int_equal(leat_decoder_check(checker, bomb, length + n * scan, false, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "scans"));
    free(bomb);
    free(data);
    free(pixels);
}

/* Whether libjpeg is stopped at a scan of this number. */
static bool stops_at_scan(int scan, JDIMENSION width, JDIMENSION height)
{
    static struct leat_jpeg_trouble trouble;
    struct leat_jpeg_input input;
    struct jpeg_decompress_struct d = {.err = leat_jpeg_trouble_begin(&trouble, false)};
    leat_jpeg_input_begin(&input, &d, "", 0);
    d.input_scan_number = scan;
    d.image_width = width;
    d.image_height = height;
    if (setjmp(trouble.jump))
        return true;
    d.progress->progress_monitor((j_common_ptr)&d);
    return false;
}

TEST(large_photos_have_fewer_scans_than_small_ones)
{
    assert_false(stops_at_scan(500, 4096, 4096));
    assert_true(stops_at_scan(501, 8, 8));
    assert_false(stops_at_scan(32, 16384, 16384)); /* of the most pixels that are decoded */
    assert_true(stops_at_scan(33, 16384, 16384));
}

TEST(a_kind_without_a_decoder_is_not_called_damaged)
{
    static const struct photo_style plain = {"plain", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1},
                                             0,       false,   false,     false,     false};
    static const struct {
        size_t at; /* from the frame header's marker on */
        uint8_t value;
    } kinds[] = {{1, 0xc3}, {4, 12}}; /* lossless; 12 bits */
    size_t length;
    uint8_t *pixels = photo_pixels(16, 16, 3, 1), *data = photo_encode(&plain, pixels, 16, 16, 50, &length);
    size_t frame = segment(data, length, 0xc0);
    for (size_t i = 0; i < 2; i++) {
        uint8_t was = data[frame + kinds[i].at];
        data[frame + kinds[i].at] = kinds[i].value;
        assert_int_equal(leat_decoder_check(checker, data, length, false, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "convert"));
        assert_null(strstr(error.message, "damaged"));
        data[frame + kinds[i].at] = was;
    }
    free(data);
    free(pixels);
}

/* A JPEG of 16 x 16 whose components have no meaning. */
static uint8_t *encode_unknown(const uint8_t *pixels, int components, unsigned long *length)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    *length = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, length);
    c.image_width = c.image_height = 16;
    c.in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_UNKNOWN;
    c.input_components = components;
    jpeg_set_defaults(&c);
    if (components > 4) { /* a scan has four at most */
        static const jpeg_scan_info scans[] = {{4, {0, 1, 2, 3}, 0, 63, 0, 0}, {1, {4}, 0, 63, 0, 0}};
        c.scan_info = scans;
        c.num_scans = 2;
    }
    jpeg_start_compress(&c, TRUE);
    for (unsigned y = 0; y < 16; y++) {
        uint8_t line[16 * 5];
        memcpy(line, pixels + (size_t)y * 16 * (unsigned)components, 16 * (size_t)components);
        JSAMPROW row = line;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return data;
}

TEST(photos_of_five_components_are_refused)
{
    unsigned long length;
    uint8_t *pixels = photo_pixels(16, 16, 5, 1), *data = encode_unknown(pixels, 5, &length);
    assert_int_equal(leat_decoder_check(checker, data, length, false, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "colour components"));
    free(data);
    free(pixels);
}

/* All rows of a photo of 16 x 16. */
static void read_rows(const void *data, size_t length, bool gray, uint8_t *out)
{
    const struct leat_decode_request request = {
        .data = data, .length = length, .wish = &(struct leat_image_wish){.gray = gray}};
    const size_t stride = gray ? 16 : 64;
    uint32_t w, h;
    assert_ok(leat_image_open(checker, &request, &w, &h, &error));
    assert_ok(leat_decoder_begin(checker, 1, 0, 0, 16, 16, &error));
    for (size_t y = 0; y < 16; y++) {
        const uint8_t *row;
        assert_ok(leat_decoder_row(checker, &row, &error));
        memcpy(out + y * stride, row, stride);
    }
    assert_ok(leat_decoder_end(checker, &error));
}

TEST(of_two_components_the_first_is_taken_for_gray)
{
    uint8_t *pixels = photo_pixels(16, 16, 2, 1), first[256];
    for (size_t i = 0; i < sizeof first; i++)
        first[i] = pixels[2 * i];
    unsigned long length, gray_length;
    uint8_t *data = encode_unknown(pixels, 2, &length), *gray = encode_unknown(first, 1, &gray_length);
    assert_ok(leat_decoder_check(checker, data, length, false, &error));
    for (int mode = 0; mode < 2; mode++) {
        uint8_t two[1024], one[1024];
        read_rows(data, length, mode, two);
        read_rows(gray, gray_length, mode, one);
        assert_memory_equal(two, one, mode ? 256 : 1024);
    }
    free(gray);
    free(data);
    free(pixels);
}

/* libjpeg has no upsampling for such a photo; leat has. In scans of their own, components of one block are whole with
 * any factors. */
TEST(factors_that_do_not_divide_the_largest_are_taken)
{
    static const struct photo_style apart = {"apart", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1},
                                             0,       false,   false,     true,      false};
    static const uint8_t factors[][3] = {{0x31, 0x21, 0x11}, {0x13, 0x12, 0x11}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        size_t length;
        uint8_t *pixels = photo_pixels(8, 8, 3, 1), *data = photo_encode(&apart, pixels, 8, 8, 50, &length);
        const size_t frame = segment(data, length, 0xc0);
        for (unsigned c = 0; c < 3; c++)
            data[frame + 11 + 3 * c] = factors[i][c];
        assert_ok(leat_decoder_check(checker, data, length, false, &error));
        assert_ok(decode_a_pixel_and_scan(data, length));
        free(data);
        free(pixels);
    }
}

/* A gray photo of nothing but zeros; a block takes a byte. */
TEST(a_fast_form_of_more_pixels_than_are_decoded_is_refused)
{
    enum { ACROSS = 8190, HEADER = 44 + 4 + 128 };
    for (uint32_t down = 512; down <= 513; down++) { /* 2^28 pixels, less 65536; and more */
        const size_t rows = HEADER + 4 * down, length = rows + (size_t)ACROSS * down + 64;
        uint8_t *p = calloc(length, 1);
        assert_non_null(p);
        memcpy(p, "LEATjpg1", 8);
        leat_put_u32(p + 24, ACROSS * down);
        leat_put_u16(p + 32, 8 * ACROSS);
        leat_put_u16(p + 34, (uint16_t)(8 * down));
        p[37] = p[38] = p[39] = 1; /* components, tables, orientation */
        p[44] = p[45] = 1;
        for (uint32_t row = 0; row < down; row++)
            leat_put_u32(p + HEADER + 4 * (size_t)row, ACROSS * (row + 1));
        const struct leat_decode_request request = {.data = p, .length = length, .form = LEAT_FORM_FAST};
        uint32_t w, h;
        const int rc = leat_image_open(decoder, &request, &w, &h, &error);
        assert_int_equal(rc, down == 512 ? LEAT_OK : LEAT_E_DECODE);
        if (!rc)
            assert_ok(leat_decoder_end(decoder, &error));
        free(p);
    }
}

TEST_MAIN_IN(make_decoders, free_decoders)
