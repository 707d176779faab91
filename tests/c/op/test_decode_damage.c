/* JPEG: what is damaged or unusual has the verdict and the pixels of libjpeg-turbo, whoever decodes it. */
#include "jpegs.h"

#include <jerror.h>

#include "base/bytes.h"
#include "op/decode_libjpeg.h"

/* ---- damage ------------------------------------------------------------------------------------------------------- */

static jmp_buf reference_jump;

static void reference_error(j_common_ptr cinfo)
{
    (void)cinfo;
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

/* Decodes the middle pixel, then reads on to the end. */
static int decode_a_pixel_and_scan(const uint8_t *data, size_t length)
{
    uint32_t w, h;
    const uint8_t *row;
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    int rc = leat_decoder_open(decoder, &request, &w, &h, &error);
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

static void a_photo_cut_anywhere_is_broken(void **state)
{
    (void)state;
    for (size_t s = 0; s < STYLES; s++) {
        unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : 3;
        size_t length;
        uint8_t *pixels = photo_pixels(41, 37, channels, s), *data = photo_encode(&styles[s], pixels, 41, 37, 80, &length);
        assert_ok(leat_photo_check(checker, data, length, &error));
        for (size_t cut = 0; cut < length; cut++) {
            /* the bytes lie at the end of their own memory, so that a sanitizer sees reads beyond them */
            uint8_t *part = malloc(cut + !cut);
            assert_non_null(part);
            memcpy(part, data, cut);
            assert_int_equal(leat_photo_check(checker, part, cut, &error), LEAT_E_DECODE);
            assert_true(error.offset <= (int64_t)cut);
            assert_int_equal(decode_a_pixel_and_scan(part, cut), LEAT_E_DECODE);
            uint8_t *fast;
            size_t fast_length;
            assert_int_equal(leat_photo_pack(checker, LEAT_PHOTOS_FAST, part, cut, &fast, &fast_length, &error), LEAT_E_DECODE);
            assert_null(fast);
            free(part);
        }
        free(data);
        free(pixels);
    }
}

/* ---- libjpeg-turbo alone ------------------------------------------------------------------------------------------- */

/* All rows of a photo by libjpeg-turbo, and what it thinks of it, with `scan` of all its bytes; *pixels is ended with free(). */
static int by_libjpeg(const uint8_t *data, size_t length, bool gray, bool scan, uint32_t *w, uint32_t *h, uint8_t **pixels)
{
    static struct leat_libjpeg libjpeg;
    const struct leat_decode_request request = {.data = data, .length = length, .gray = gray};
    bool gray_rows = false;
    *pixels = NULL;
    int rc = leat_libjpeg_open(&libjpeg, &request, w, h, &gray_rows, &error);
    if (!rc) {
        assert_int_equal(gray_rows, gray);
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

/* libjpeg looks ahead, behind the last block: it may refuse what has lost its end marker, though no row lacks anything. */
static void the_rows_of_a_photo_without_its_end_are_given_where_libjpeg_gives_them(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (size_t s = 0; s < STYLES; s++) {
        const bool gray = styles[s].in == JCS_GRAYSCALE;
        size_t length;
        uint8_t *pixels = photo_pixels(41, 37, gray ? 1 : 3, s), *data = photo_encode(&styles[s], pixels, 41, 37, 80, &length);
        for (size_t missing = 1; missing <= 4; missing++) {
            const struct leat_decode_request request = {.data = data, .length = length - missing, .gray = gray};
            uint32_t w, h;
            const uint8_t *row;
            uint8_t *full;
            const int verdict = by_libjpeg(data, length - missing, gray, false, &w, &h, &full);
            assert_ok(leat_decoder_open(decoder, &request, &w, &h, &error));
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
    struct leat_photo_info info;
    uint32_t w, h;
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3) || leat_photo_probe(data, length, &info, &error))
        return 0;
    const bool gray = info.channels == 1;
    const int verdict = by_libjpeg(data, length, gray, true, &w, &h, &pixels), rc = leat_photo_check(checker, data, length, &error);
    if (rc != verdict)
        fail_msg("%s: libjpeg-turbo says %s, leat %s", path, leat_status_name(verdict), leat_status_name(rc));
    if (rc) {
        assert_int_not_equal(leat_photo_pack(checker, LEAT_PHOTOS_FAST, data, length, &fast, &fast_length, &error), LEAT_OK);
        free(pixels);
        return 0;
    }
    struct forms forms = forms_of(path, data, length);
    const struct photo_full full = {w, h, gray ? 1 : 4, pixels};
    check_box(&forms, &full, 1, 0, 0, w, h, false);
    for (uint64_t i = 0; i < 8; i++) {
        const uint32_t x = (uint32_t)leat_draw_below(i, 0, w), y = (uint32_t)leat_draw_below(i, 1, h);
        check_box(&forms, &full, 1, x, y, 1 + (uint32_t)leat_draw_below(i, 2, w - x), 1 + (uint32_t)leat_draw_below(i, 3, h - y), i & 1);
    }
    odd_fast += forms.form[forms.n - 1].form == LEAT_FORM_FAST;
    forms_free(&forms);
    free(pixels);
    return 1;
}

static void odd_photos_have_the_verdict_and_the_pixels_of_libjpeg_in_every_form(void **state)
{
    (void)state;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    const unsigned whole = for_each_file(folder, visit_odd);
    printf("# odd-images: %u whole JPEGs, %u of them also in the fast form\n", whole, odd_fast);
    assert_true(whole > 80 && odd_fast + 4 >= whole);
}

static void checking_finds_what_a_full_decode_finds(void **state)
{
    (void)state;
    unsigned broken = 0;
    for (size_t s = 0; s < STYLES; s++) {
        unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : 3;
        size_t length;
        uint8_t *pixels = photo_pixels(75, 66, channels, s), *data = photo_encode(&styles[s], pixels, 75, 66, 80, &length);
        for (uint64_t i = 0; i < 400; i++) {
            size_t at = (size_t)leat_draw_below(s, 2 * i, length);
            uint8_t was = data[at];
            data[at] = (uint8_t)(was ^ 1u << leat_draw_below(s, 2 * i + 1, 8));
            bool whole = reference_is_whole(data, length);
            broken += !whole;
            int rc = leat_photo_check(checker, data, length, &error);
            if ((rc == LEAT_OK) != whole)
                fail_msg("%s, bit flipped in byte %zu: %s, but a full decode is %s", styles[s].name, at, rc ? error.message : "good",
                         whole ? "good" : "broken");
            int again = decode_a_pixel_and_scan(data, length);
            if (again != rc)
                fail_msg("%s, bit flipped in byte %zu: the check gives %d, decoding and scanning %d (%s)", styles[s].name, at, rc, again,
                         error.message);
            data[at] = was;
        }
        free(data);
        free(pixels);
    }
    assert_true(broken > STYLES * 100);
}

/* The table that the standard gives for DC, two codes of eight bits in the place of one of eight and one of nine: the
 * second of them is all ones, which no decoder accepts. */
static void a_huffman_code_of_all_ones_is_broken_for_check_and_decoder(void **state)
{
    (void)state;
    size_t length, at = 0;
    uint8_t *pixels = photo_pixels(19, 17, 1, 5), *data = photo_encode(&styles[0], pixels, 19, 17, 80, &length);
    assert_ok(leat_photo_check(checker, data, length, &error));
    while (at + 21 < length && !(data[at] == 0xff && data[at + 1] == 0xc4 && !data[at + 4]))
        at++;
    assert_true(at + 21 < length);
    uint8_t *counts = data + at + 5; /* of codes of 1, 2, ... bits */
    assert_int_equal(counts[7], 1);
    assert_int_equal(counts[8], 1);
    counts[7] = 2;
    counts[8] = 0;
    assert_int_equal(leat_photo_check(checker, data, length, &error), LEAT_E_DECODE);
    free(data);
    free(pixels);
}

/* ---- our decoder and libjpeg-turbo after each other ----------------------------------------------------------------- */

/* The bytes with one more fill byte before the last restart marker: libjpeg reads over it, our decoder stops. Ended with free(). */
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

static void where_our_decoder_stops_libjpeg_goes_on_at_the_row_that_is_due(void **state)
{
    (void)state;
    static const struct photo_style restarting[] = {
        {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}, .restart = 20},
        {.name = "4:4:4", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}, .restart = 17},
        {.name = "4:2:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}, .restart = 7},
        {.name = "4:1:1", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {1, 1, 1}, .restart = 5},
    };
    for (size_t s = 0; s < sizeof restarting / sizeof *restarting; s++) {
        size_t length;
        const unsigned channels = restarting[s].in == JCS_GRAYSCALE ? 1 : 3;
        uint8_t *pixels = photo_pixels(75, 98, channels, s), *data = photo_encode(&restarting[s], pixels, 75, 98, 80, &length);
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

static void markers_without_a_body_before_the_frame_are_read_over_as_libjpeg_does(void **state)
{
    (void)state;
    size_t length;
    uint32_t w, h;
    struct leat_photo_info info;
    const struct photo_style style = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}};
    uint8_t *pixels = photo_pixels(20, 30, 3, 1), *data = photo_encode(&style, pixels, 20, 30, 80, &length);
    uint8_t *more = malloc(length + 7);
    assert_non_null(more);
    memcpy(more, "\xff\xd8\xff\xd3\xff\xff\xff\x01", 8);
    memcpy(more + 8, data + 2, length - 2);
    const struct leat_decode_request request = {.data = more, .length = length + 6};
    assert_ok(leat_decoder_open(decoder, &request, &w, &h, &error));
    assert_ok(leat_decoder_end(decoder, &error));
    assert_ok(leat_photo_probe(more, length + 6, &info, &error));
    assert_int_equal(info.width, w);
    assert_int_equal(info.height, h);
    struct forms forms = forms_of("markers without a body", more, length + 6);
    assert_int_equal(forms.form[forms.n - 1].form, LEAT_FORM_FAST);
    forms_free(&forms);
    free(more);
    free(data);
    free(pixels);
}

static void bytes_after_the_end_are_no_damage(void **state)
{
    (void)state;
    size_t length;
    uint8_t *pixels = photo_pixels(20, 20, 3, 1), *data = photo_encode(&color, pixels, 20, 20, 80, &length);
    uint8_t *more = calloc(1, length + 1000);
    assert_non_null(more);
    memcpy(more, data, length);
    assert_ok(leat_photo_check(checker, more, length + 1000, &error));
    free(more);
    free(data);
    free(pixels);
}

/* Where the segment with this marker begins; the file must have it. */
static size_t segment(const uint8_t *data, size_t length, uint8_t marker)
{
    for (size_t at = 2; at + 4 < length; at += 2u + (size_t)(data[at + 2] << 8 | data[at + 3])) {
        assert_int_equal(data[at], 0xff);
        if (data[at + 1] == marker)
            return at;
    }
    fail_msg("no segment %x", marker);
    return 0;
}

static void a_photo_without_tables_does_not_borrow_those_of_the_photo_before(void **state)
{
    (void)state;
    /* a progressive photo has tables of its own; without any, libjpeg takes the standard's */
    static const struct photo_style progressive = {"p", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, true, false, false, false};
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
    assert_int_equal(leat_photo_check(checker, data, length - bytes, &error), LEAT_E_DECODE);
    free(got);
    free(expected);
    free(first);
    free(data);
    free(pixels);
}

static void a_header_that_promises_too_much_is_refused_before_memory_is_spent(void **state)
{
    (void)state;
    static const uint8_t sizes[][4] = {{0xff, 0x00, 0xff, 0x00}, {0x3f, 0x00, 0x3f, 0x00}, {0, 0, 0, 16}, {0, 16, 0, 0}};
    size_t length;
    uint8_t *pixels = photo_pixels(40, 40, 3, 1);
    for (size_t s = 0; s < STYLES; s++) {
        if (styles[s].in == JCS_GRAYSCALE || styles[s].arithmetic)
            continue;
        uint8_t *data = photo_encode(&styles[s], pixels, 40, 40, 80, &length);
        size_t at = segment(data, length, styles[s].progressive ? 0xc2 : 0xc0);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memcpy(data + at + 5, sizes[i], 4);
            assert_int_equal(leat_photo_check(checker, data, length, &error), LEAT_E_DECODE);
        }
        free(data);
    }
    free(pixels);
}

static void thousands_of_scans_are_refused(void **state)
{
    (void)state;
    static const struct photo_style apart = {"apart", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, false, false, true, false};
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
    assert_int_equal(leat_photo_check(checker, bomb, length + n * scan, &error), LEAT_E_DECODE);
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
    struct jpeg_decompress_struct d = {.err = leat_jpeg_trouble_begin(&trouble)};
    leat_jpeg_input_begin(&input, &d, "", 0);
    d.input_scan_number = scan;
    d.image_width = width;
    d.image_height = height;
    if (setjmp(trouble.jump))
        return true;
    d.progress->progress_monitor((j_common_ptr)&d);
    return false;
}

static void large_photos_have_fewer_scans_than_small_ones(void **state)
{
    (void)state;
    assert_false(stops_at_scan(500, 4096, 4096));
    assert_true(stops_at_scan(501, 8, 8));
    assert_false(stops_at_scan(32, 16384, 16384)); /* of the most pixels that are decoded */
    assert_true(stops_at_scan(33, 16384, 16384));
}

static void a_kind_without_a_decoder_is_not_called_damaged(void **state)
{
    (void)state;
    static const struct photo_style plain = {"plain", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, false, false, false, false};
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
        assert_int_equal(leat_photo_check(checker, data, length, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "convert"));
        assert_null(strstr(error.message, "damaged"));
        data[frame + kinds[i].at] = was;
    }
    free(data);
    free(pixels);
}

static void photos_of_two_or_five_components_are_refused(void **state)
{
    (void)state;
    uint8_t *pixels = photo_pixels(16, 16, 5, 1);
    for (int components = 2; components <= 5; components += 3) {
        struct jpeg_compress_struct c;
        struct jpeg_error_mgr errors;
        unsigned char *data = NULL;
        unsigned long length = 0;
        c.err = jpeg_std_error(&errors);
        jpeg_create_compress(&c);
        jpeg_mem_dest(&c, &data, &length);
        c.image_width = c.image_height = 16;
        c.in_color_space = JCS_UNKNOWN;
        c.input_components = components;
        jpeg_set_defaults(&c);
        if (components > 4) { /* a scan has four at most */
            static const jpeg_scan_info scans[] = {{4, {0, 1, 2, 3}, 0, 63, 0, 0}, {1, {4}, 0, 63, 0, 0}};
            c.scan_info = scans;
            c.num_scans = 2;
        }
        jpeg_start_compress(&c, TRUE);
        for (unsigned y = 0; y < 16; y++) {
            JSAMPROW row = pixels + (size_t)y * 16 * (unsigned)components;
            jpeg_write_scanlines(&c, &row, 1);
        }
        jpeg_finish_compress(&c);
        jpeg_destroy_compress(&c);
        assert_int_equal(leat_photo_check(checker, data, length, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "colour components"));
        free(data);
    }
    free(pixels);
}

/* A gray photo of nothing but zeros; a block takes a byte. */
static void a_fast_form_of_more_pixels_than_are_decoded_is_refused(void **state)
{
    (void)state;
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
        const int rc = leat_decoder_open(decoder, &request, &w, &h, &error);
        assert_int_equal(rc, down == 512 ? LEAT_OK : LEAT_E_DECODE);
        if (!rc)
            assert_ok(leat_decoder_end(decoder, &error));
        free(p);
    }
}

/* Bytes above the crop are damaged, of which the index says where to begin. */
static void a_crop_is_read_by_the_row_index_it_is_given(void **state)
{
    (void)state;
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
    assert_ok(leat_decoder_open(decoder, &without, &w, &h, &error));
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

/* libjpeg reads the coefficients of such a photo, and says no only where pixels are asked for. In scans of their own, components of one
 * block are whole with any factors. */
static void factors_that_do_not_divide_the_largest_are_refused_by_the_check_too(void **state)
{
    (void)state;
    static const struct photo_style apart = {"apart", JCS_RGB, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}, 0, false, false, true, false};
    static const uint8_t factors[][3] = {{0x31, 0x21, 0x11}, {0x13, 0x12, 0x11}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        size_t length;
        uint8_t *pixels = photo_pixels(8, 8, 3, 1), *data = photo_encode(&apart, pixels, 8, 8, 50, &length);
        const size_t frame = segment(data, length, 0xc0);
        for (unsigned c = 0; c < 3; c++)
            data[frame + 11 + 3 * c] = factors[i][c];
        assert_int_equal(leat_photo_check(checker, data, length, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "convert"));
        assert_int_equal(decode_a_pixel_and_scan(data, length), LEAT_E_DECODE);
        free(data);
        free(pixels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_photo_cut_anywhere_is_broken),
        cmocka_unit_test(the_rows_of_a_photo_without_its_end_are_given_where_libjpeg_gives_them),
        cmocka_unit_test(checking_finds_what_a_full_decode_finds),
        cmocka_unit_test(odd_photos_have_the_verdict_and_the_pixels_of_libjpeg_in_every_form),
        cmocka_unit_test(a_huffman_code_of_all_ones_is_broken_for_check_and_decoder),
        cmocka_unit_test(where_our_decoder_stops_libjpeg_goes_on_at_the_row_that_is_due),
        cmocka_unit_test(markers_without_a_body_before_the_frame_are_read_over_as_libjpeg_does),
        cmocka_unit_test(bytes_after_the_end_are_no_damage),
        cmocka_unit_test(a_photo_without_tables_does_not_borrow_those_of_the_photo_before),
        cmocka_unit_test(a_header_that_promises_too_much_is_refused_before_memory_is_spent),
        cmocka_unit_test(thousands_of_scans_are_refused),
        cmocka_unit_test(large_photos_have_fewer_scans_than_small_ones),
        cmocka_unit_test(a_kind_without_a_decoder_is_not_called_damaged),
        cmocka_unit_test(photos_of_two_or_five_components_are_refused),
        cmocka_unit_test(a_fast_form_of_more_pixels_than_are_decoded_is_refused),
        cmocka_unit_test(a_crop_is_read_by_the_row_index_it_is_given),
        cmocka_unit_test(factors_that_do_not_divide_the_largest_are_refused_by_the_check_too),
    };
    return cmocka_run_group_tests(tests, make_decoders, free_decoders);
}
