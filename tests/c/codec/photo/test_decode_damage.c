/* JPEG: what is damaged or unusual has the verdict and the pixels of libjpeg-turbo, whoever decodes it. */
#include "jpegs.h"

#include <jerror.h>

#include "codec/photo/decode_libjpeg.h"

/* ---- damage ---------------------------------------------------------------------------------- */

static jmp_buf reference_jump;

static void reference_error(j_common_ptr cinfo)
{
    longjmp(reference_jump, 1);
}

static void reference_message(j_common_ptr cinfo, int level)
{
    if (level < 0 && cinfo->err->msg_code != JWRN_JFIF_MAJOR)
        reference_error(cinfo);
}

static boolean reference_fill(j_decompress_ptr cinfo)
{
    reference_error((j_common_ptr)cinfo);
    return FALSE;
}

/* Whether libjpeg decodes the whole photo without an error, a warning, or asking for more bytes. */
static bool reference_is_whole(const uint8_t *data, size_t length)
{
    static struct jpeg_decompress_struct d;
    static struct jpeg_error_mgr errors;
    static uint8_t line[4 * 65500];
    d.err = jpeg_std_error(&errors);
    errors.error_exit = reference_error;
    errors.emit_message = reference_message;
    jpeg_create_decompress(&d);
    volatile bool whole = false;
    if (!setjmp(reference_jump)) {
        jpeg_mem_src(&d, data, length);
        d.src->fill_input_buffer = reference_fill;
        jpeg_read_header(&d, TRUE);
        if (d.num_components != 2 && d.num_components <= 4 && (uint64_t)d.image_width * d.image_height < 1 << 22) {
            jpeg_start_decompress(&d);
            while (d.output_scanline < d.output_height) {
                JSAMPROW row = line;
                jpeg_read_scanlines(&d, &row, 1);
            }
            jpeg_finish_decompress(&d);
            whole = true;
        }
    }
    jpeg_destroy_decompress(&d);
    return whole;
}

TEST(a_photo_cut_anywhere_is_broken)
{
    for (size_t s = 0; s < STYLES; s++) {
        unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : 3;
        size_t length;
        uint8_t *pixels = photo_pixels(41, 37, channels, s),
                *data = photo_encode(&styles[s], pixels, 41, 37, 80, &length);
        assert_ok(leat_decoder_check(checker, data, length, false, &error));
        for (size_t cut = s % test_every(4); cut < length; cut += test_every(4)) {
            /* the bytes lie at the end of their own memory, so that a sanitizer sees reads beyond them */
            uint8_t *part = malloc(cut + !cut);
            assert_non_null(part);
            memcpy(part, data, cut);
            assert_int_equal(leat_decoder_check(checker, part, cut, false, &error), LEAT_E_DECODE);
            assert_true(error.offset <= (int64_t)cut);
            assert_int_equal(decode_a_pixel_and_scan(part, cut), LEAT_E_DECODE);
            uint8_t *fast;
            size_t fast_length;
            assert_int_equal(
                leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, false, part, cut, &fast, &fast_length, &error),
                LEAT_E_DECODE);
            assert_null(fast);
            free(part);
        }
        free(data);
        free(pixels);
    }
}

/* ---- libjpeg-turbo alone --------------------------------------------------------------------- */

/* All rows of a photo by libjpeg-turbo, and what it thinks of it, with `scan` of all its bytes; *pixels is ended with
 * free(). */
static int by_libjpeg(const uint8_t *data, size_t length, bool gray, bool scan, uint32_t *w, uint32_t *h,
                      uint8_t **pixels)
{
    static struct leat_libjpeg libjpeg;
    const struct leat_decode_request request = {
        .data = data, .length = length, .wish = &(struct leat_image_wish){.gray = gray}};
    struct leat_decode_rows rows = {0};
    *pixels = NULL;
    int rc = leat_libjpeg_open(&libjpeg, &request, w, h, &rows, &error);
    if (!rc) {
        assert_int_equal(rows.gray, gray);
        *pixels = malloc((size_t)*w * *h * (gray ? 1 : 4));
        assert_non_null(*pixels);
        rc = leat_libjpeg_begin(&libjpeg, 1, 0, 0, *w, *h, &error);
    }
    for (uint32_t y = 0; !rc && y < *h; y++) {
        const uint8_t *row;
        const size_t bytes = (size_t)*w * (gray ? 1 : 4);
        rc = leat_libjpeg_row(&libjpeg, &row, &error);
        if (!rc)
            memcpy(*pixels + y * bytes, row, bytes);
    }
    if (!rc && scan)
        rc = leat_libjpeg_scan(&libjpeg, &error);
    leat_libjpeg_close(&libjpeg);
    return rc;
}

/* libjpeg looks ahead, behind the last block: it may refuse what has lost its end marker, though no row lacks
 * anything. */
TEST(the_rows_of_a_photo_without_its_end_are_given_where_libjpeg_gives_them)
{
    unsigned refused = 0;
    for (size_t s = 0; s < STYLES; s++) {
        const bool gray = styles[s].in == JCS_GRAYSCALE;
        size_t length;
        uint8_t *pixels = photo_pixels(41, 37, gray ? 1 : 3, s),
                *data = photo_encode(&styles[s], pixels, 41, 37, 80, &length);
        for (size_t missing = 1; missing <= 4; missing++) {
            const struct leat_decode_request request = {
                .data = data, .length = length - missing, .wish = &(struct leat_image_wish){.gray = gray}};
            uint32_t w, h;
            const uint8_t *row;
            uint8_t *full;
            const int verdict = by_libjpeg(data, length - missing, gray, false, &w, &h, &full);
            assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
            int rc = leat_decoder_begin(decoder, 1, 0, 0, w, h, &error);
            for (uint32_t y = 0; !rc && y < h; y++)
                rc = leat_decoder_row(decoder, &row, &error);
            if (rc != verdict)
                fail_msg("%s without its last %zu bytes: libjpeg-turbo says %s, leat %s", styles[s].name, missing,
                         leat_status_name(verdict), leat_status_name(rc));
            refused += rc != LEAT_OK;
            assert_ok(leat_decoder_end(decoder, &error));
            free(full);
        }
        free(data);
        free(pixels);
    }
    assert_true(refused > 2 * STYLES);
}

static unsigned odd_fast;

/* 1 if the file is a JPEG that is whole. */
static unsigned visit_odd(const char *path, const uint8_t *data, size_t length)
{
    uint8_t *pixels, *fast;
    size_t fast_length;
    struct leat_value_info info;
    uint32_t w, h;
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3) || leat_codec_photo.probe(data, length, &info, &error))
        return 0;
    const bool gray = info.channels == 1;
    const int verdict = by_libjpeg(data, length, gray, true, &w, &h, &pixels),
              rc = leat_decoder_check(checker, data, length, false, &error);
    if (rc != verdict)
        fail_msg("%s: libjpeg-turbo says %s, leat %s", path, leat_status_name(verdict), leat_status_name(rc));
    if (rc) {
        assert_int_not_equal(
            leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, false, data, length, &fast, &fast_length, &error),
            LEAT_OK);
        free(pixels);
        return 0;
    }
    struct forms forms = forms_of(path, data, length);
    const struct photo_full full = {w, h, gray ? 1 : 4, pixels};
    check_box(&forms, &full, 1, 0, 0, w, h, false);
    for (uint64_t i = 0; i < 8; i += test_every(3)) {
        const uint32_t x = (uint32_t)leat_draw_below(i, 0, w), y = (uint32_t)leat_draw_below(i, 1, h);
        check_box(&forms, &full, 1, x, y, 1 + (uint32_t)leat_draw_below(i, 2, w - x),
                  1 + (uint32_t)leat_draw_below(i, 3, h - y), i & 1);
    }
    odd_fast += forms.form[forms.n - 1].form == LEAT_FORM_FAST;
    forms_free(&forms);
    free(pixels);
    return 1;
}

TEST(odd_photos_have_the_verdict_and_the_pixels_of_libjpeg_in_every_form)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    const unsigned whole = for_each_file(folder, visit_odd);
    printf("# odd-images: %u whole JPEGs, %u of them also in the fast form\n", whole, odd_fast);
    assert_true(whole > 80 && odd_fast + 4 >= whole);
}

TEST(checking_finds_what_a_full_decode_finds)
{
    unsigned broken = 0;
    for (size_t s = 0; s < STYLES; s++) {
        unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : 3;
        size_t length;
        uint8_t *pixels = photo_pixels(75, 66, channels, s),
                *data = photo_encode(&styles[s], pixels, 75, 66, 80, &length);
        for (uint64_t i = 0; i < 400; i += test_every(4)) {
            size_t at = (size_t)leat_draw_below(s, 2 * i, length);
            uint8_t was = data[at];
            data[at] = (uint8_t)(was ^ 1u << leat_draw_below(s, 2 * i + 1, 8));
            bool whole = reference_is_whole(data, length);
            broken += !whole;
            int rc = leat_decoder_check(checker, data, length, false, &error);
            if ((rc == LEAT_OK) != whole)
                fail_msg("%s, bit flipped in byte %zu: %s, but a full decode is %s", styles[s].name, at,
                         rc ? error.message : "good", whole ? "good" : "broken");
            int again = decode_a_pixel_and_scan(data, length);
            if (again != rc)
                fail_msg("%s, bit flipped in byte %zu: the check gives %d, decoding and scanning %d (%s)",
                         styles[s].name, at, rc, again, error.message);
            data[at] = was;
        }
        free(data);
        free(pixels);
    }
    assert_true(broken > STYLES * 100 / test_every(4));
}

/* The table that the standard gives for DC, two codes of eight bits in the place of one of eight and one of nine: the
 * second of them is all ones, which no decoder accepts. */
TEST(a_huffman_code_of_all_ones_is_broken_for_check_and_decoder)
{
    size_t length, at = 0;
    uint8_t *pixels = photo_pixels(19, 17, 1, 5), *data = photo_encode(&styles[0], pixels, 19, 17, 80, &length);
    assert_ok(leat_decoder_check(checker, data, length, false, &error));
    while (at + 21 < length && !(data[at] == 0xff && data[at + 1] == 0xc4 && !data[at + 4]))
        at++;
    assert_true(at + 21 < length);
    uint8_t *counts = data + at + 5; /* of codes of 1, 2, ... bits */
    assert_int_equal(counts[7], 1);
    assert_int_equal(counts[8], 1);
    counts[7] = 2;
    counts[8] = 0;
    assert_int_equal(leat_decoder_check(checker, data, length, false, &error), LEAT_E_DECODE);
    free(data);
    free(pixels);
}

/* ---- our decoder and libjpeg-turbo after each other ------------------------------------------ */

/* The bytes with one more fill byte before the last restart marker: libjpeg reads over it, our decoder stops. Ended
 * with free(). */
static uint8_t *with_a_fill_byte(const uint8_t *data, size_t *length)
{
    size_t at = *length - 2;
    while (data[at] != 0xff || (data[at + 1] & 0xf8) != 0xd0)
        at--;
    uint8_t *more = malloc(*length + 1);
    assert_non_null(more);
    memcpy(more, data, at);
    more[at] = 0xff;
    memcpy(more + at + 1, data + at, *length - at);
    ++*length;
    return more;
}

TEST(where_our_decoder_stops_libjpeg_goes_on_at_the_row_that_is_due)
{
    static const struct photo_style restarting[] = {
        {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}, .restart = 20},
        {.name = "4:4:4", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .restart = 17},
        {.name = "4:2:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}, .restart = 7},
        {.name = "4:1:1", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {1, 1, 1}, .restart = 5},
    };
    for (size_t s = 0; s < sizeof restarting / sizeof *restarting; s++) {
        size_t length;
        const unsigned channels = restarting[s].in == JCS_GRAYSCALE ? 1 : 3;
        uint8_t *pixels = photo_pixels(75, 98, channels, s),
                *data = photo_encode(&restarting[s], pixels, 75, 98, 80, &length);
        uint8_t *odd = with_a_fill_byte(data, &length);
        struct forms forms = forms_of(restarting[s].name, odd, length);
        assert_null(forms.rows); /* or our decoder would know the photo */
        for (unsigned denominator = 1; denominator <= 8; denominator *= 2)
            for (int gray = 0; gray <= (channels == 1); gray++) {
                struct photo_full full = photo_reference(odd, length, gray, denominator);
                check_box(&forms, &full, denominator, 0, 0, full.width, full.height, false);
                check_box(&forms, &full, denominator, 3, 1, full.width - 4, full.height - 1, true);
                for (uint32_t y = 0; y < full.height; y++)
                    check_box(&forms, &full, denominator, full.width / 3, y, 2, full.height - y, false);
                free(full.pixels);
            }
        forms_free(&forms);
        free(odd);
        free(data);
        free(pixels);
    }
}

TEST(markers_without_a_body_before_the_frame_are_read_over_as_libjpeg_does)
{
    size_t length;
    uint32_t w, h;
    struct leat_value_info info;
    const struct photo_style style = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}};
    uint8_t *pixels = photo_pixels(20, 30, 3, 1), *data = photo_encode(&style, pixels, 20, 30, 80, &length);
    uint8_t *more = malloc(length + 7);
    assert_non_null(more);
    memcpy(more, "\xff\xd8\xff\xd3\xff\xff\xff\x01", 8);
    memcpy(more + 8, data + 2, length - 2);
    const struct leat_decode_request request = {.data = more, .length = length + 6};
    assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
    assert_ok(leat_decoder_end(decoder, &error));
    assert_ok(leat_codec_photo.probe(more, length + 6, &info, &error));
    assert_int_equal(info.size[0], w);
    assert_int_equal(info.size[1], h);
    struct forms forms = forms_of("markers without a body", more, length + 6);
    assert_int_equal(forms.form[forms.n - 1].form, LEAT_FORM_FAST);
    forms_free(&forms);
    free(more);
    free(data);
    free(pixels);
}

TEST(bytes_after_the_end_are_no_damage)
{
    size_t length;
    uint8_t *pixels = photo_pixels(20, 20, 3, 1), *data = photo_encode(&color, pixels, 20, 20, 80, &length);
    uint8_t *more = calloc(1, length + 1000);
    assert_non_null(more);
    memcpy(more, data, length);
    assert_ok(leat_decoder_check(checker, more, length + 1000, false, &error));
    free(more);
    free(data);
    free(pixels);
}

TEST(a_photo_without_tables_does_not_borrow_those_of_the_photo_before)
{
    /* a progressive photo has tables of its own; without any, libjpeg takes the standard's */
    static const struct photo_style progressive = {"p", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1},
                                                   0,   true,    false,     false,     false};
    size_t length, first_length;
    uint8_t *pixels = photo_pixels(40, 40, 3, 1), *data = photo_encode(&color, pixels, 40, 40, 80, &length);
    uint8_t *first = photo_encode(&progressive, pixels, 40, 40, 80, &first_length);
    uint32_t w, h;
    uint8_t *expected = decode_all(data, length, false, &w, &h);
    for (int i = 0; i < 4; i++) {
        size_t at = segment(data, length, 0xc4), bytes = 2u + (size_t)(data[at + 2] << 8 | data[at + 3]);
        memmove(data + at, data + at + bytes, length - at - bytes);
        length -= bytes;
    }
    free(decode_all(first, first_length, false, &w, &h));
    uint8_t *got = decode_all(data, length, false, &w, &h);
    assert_memory_equal(got, expected, (size_t)w * h * 4);
    size_t at = segment(data, length, 0xdb), bytes = 2u + (size_t)(data[at + 2] << 8 | data[at + 3]);
    memmove(data + at, data + at + bytes, length - at - bytes);
    assert_int_equal(leat_decoder_check(checker, data, length - bytes, false, &error), LEAT_E_DECODE);
    free(got);
    free(expected);
    free(first);
    free(data);
    free(pixels);
}

/* Bytes above the crop are damaged, of which the index says where to begin. */
TEST(a_crop_is_read_by_the_row_index_it_is_given)
{
    size_t length;
    uint8_t *pixels = photo_pixels(64, 640, 3, 4), *data = photo_encode(&styles[2], pixels, 64, 640, 90, &length);
    struct forms forms = forms_of("a high photo", data, length);
    struct photo_full full = photo_reference(data, length, false, 1);
    assert_non_null(forms.rows);
    const size_t scan = segment(data, length, 0xda);
    memset(data + scan + 400, 0xff, 40); /* many markers: no decoder gets over these */
    const struct forms with_rows = {.name = "damaged above", .form = {forms.form[1]}, .n = 1};
    check_box(&with_rows, &full, 1, 5, 600, 30, 20, false);
    const struct leat_decode_request without = {.data = data, .length = length};
    const uint8_t *row;
    uint32_t w, h;
    assert_ok(leat_image_open(decoder, &without, &w, &h, &error));
    int rc = leat_decoder_begin(decoder, 1, 5, 600, 30, 20, &error);
    if (!rc)
        rc = leat_decoder_row(decoder, &row, &error);
    assert_int_equal(rc, LEAT_E_DECODE);
    assert_ok(leat_decoder_end(decoder, &error));
    forms_free(&forms);
    free(full.pixels);
    free(data);
    free(pixels);
}

TEST_MAIN_IN(make_decoders, free_decoders)
