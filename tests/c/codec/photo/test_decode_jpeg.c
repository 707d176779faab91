/* JPEG: a box is what a full decode has there, for every kind of file, offset, scale and form. Damage:
 * test_decode_damage.c. */
#include "../../allocations.h"
#include "jpegs.h"

/* Boxes of a small photo: every offset of both corners within the units that libjpeg works in, and single pixels; or
 * a fifth of these, others for each size and scale. */
static void check_all_offsets(const struct photo_style *style, uint32_t w, uint32_t h, unsigned denominator)
{
    unsigned channels = style->in == JCS_GRAYSCALE ? 1 : 3;
    size_t length;
    uint8_t *pixels = photo_pixels(w, h, channels, w * 1000 + h);
    uint8_t *data = photo_encode(style, pixels, w, h, 85, &length);
    struct forms forms = forms_of(style->name, data, length);
    struct photo_full full = photo_reference(data, length, channels == 1, denominator);
    w = full.width;
    h = full.height;
    const uint32_t step = test_every(5);
    for (uint32_t i = (w + denominator / 2) % step; i < 34; i += step) {
        /* the left edge at i, and the right edge at i from the right; rows likewise, at another pace */
        uint32_t x = i % w, y = (i * 5 + 3) % h;
        check_box(&forms, &full, denominator, x, y, w - x, h - y, i & 1);
        check_box(&forms, &full, denominator, 0, 0, w - x, h - y, i & 1);
        check_box(&forms, &full, denominator, x, y, 1, 1, i & 1);
        check_box(&forms, &full, denominator, w - 1 - x, h - 1 - y, 1, 1, i & 1);
        check_box(&forms, &full, denominator, x, 0, 1, h, i & 1);
        check_box(&forms, &full, denominator, 0, y, w, 1, i & 1);
    }
    for (uint64_t i = 0; i < 30; i += step) {
        uint32_t x = (uint32_t)leat_draw_below(i, 0, w), y = (uint32_t)leat_draw_below(i, 1, h);
        uint32_t bw = 1 + (uint32_t)leat_draw_below(i, 2, w - x), bh = 1 + (uint32_t)leat_draw_below(i, 3, h - y);
        check_box(&forms, &full, denominator, x, y, bw, bh, i & 1);
    }
    forms_free(&forms);
    free(full.pixels);
    free(data);
    free(pixels);
}

TEST(every_box_of_every_kind_equals_a_full_decode_cropped)
{
    static const uint32_t sizes[][2] = {{1, 1},   {2, 3},   {7, 5},   {8, 8},   {9, 17},  {16, 16},
                                        {17, 33}, {31, 49}, {32, 64}, {67, 53}, {98, 131}};
    for (size_t s = 0; s < STYLES; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_all_offsets(&styles[s], sizes[i][0], sizes[i][1], 1);
}

TEST(every_box_of_a_scaled_photo_equals_a_scaled_full_decode_cropped)
{
    static const uint32_t sizes[][2] = {{1, 1}, {9, 17}, {67, 53}, {98, 131}, {160, 128}};
    for (size_t s = 0; s < STYLES; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (unsigned denominator = 2; denominator <= 8; denominator *= 2)
                check_all_offsets(&styles[s], sizes[i][0], sizes[i][1], denominator);
}

TEST(boxes_of_real_photos_equal_a_full_decode_cropped)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/imagenet", test_data());
    DIR *dir = opendir(folder);
    if (!dir) {
        printf("# SKIP %s: no folder %s\n", __func__, folder);
        return;
    }
    uint64_t n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || !test_takes(entry->d_name, 10))
            continue;
        size_t length;
        const uint64_t key = test_name_key(entry->d_name);
        uint8_t *data = photo_file(folder, entry->d_name, &length);
        struct leat_value_info info;
        assert_ok(leat_codec_photo.probe(data, length, &info, &error));
        struct forms forms = forms_of(entry->d_name, data, length);
        assert_int_equal(forms.n, 3);
        struct photo_full full = photo_reference(data, length, info.channels == 1, 1);
        for (uint64_t i = 0; i < 2; i++) {
            uint32_t x = (uint32_t)leat_draw_below(key, 4 * i, full.width),
                     y = (uint32_t)leat_draw_below(key, 4 * i + 1, full.height);
            uint32_t w = 1 + (uint32_t)leat_draw_below(key, 4 * i + 2, full.width - x);
            uint32_t h = 1 + (uint32_t)leat_draw_below(key, 4 * i + 3, full.height - y);
            check_box(&forms, &full, 1, x, y, w, h, i & 1);
        }
        forms_free(&forms);
        free(full.pixels);
        free(data);
        n++;
    }
    closedir(dir);
    assert_true(n > 30);
}

/* Progressive photos that end after some of their scans are whole for libjpeg, which smooths what is not there yet. */
TEST(boxes_of_unfinished_progressive_photos_equal_a_full_decode_cropped)
{
    for (size_t s = 0; s < STYLES; s++) {
        if (!styles[s].progressive)
            continue;
        size_t length, scans = 0;
        unsigned channels = styles[s].in == JCS_GRAYSCALE ? 1 : 3;
        uint8_t *pixels = photo_pixels(75, 98, channels, s),
                *data = photo_encode(&styles[s], pixels, 75, 98, 60, &length);
        uint8_t *part = malloc(length + 2);
        assert_non_null(part);
        for (size_t at = 2; at + 1 < length; at++) {
            /* the next scan, or the tables before it: what stands before is complete */
            if (data[at] != 0xff || (data[at + 1] != 0xda && data[at + 1] != 0xc4) || scans++ < 2)
                continue;
            memcpy(part, data, at);
            memcpy(part + at, "\xff\xd9", 2);
            if (leat_decoder_check(checker, part, at + 2, false, &error))
                continue; /* it was no marker but part of a table */
            struct forms forms = forms_of(styles[s].name, part, at + 2);
            struct photo_full full = photo_reference(part, at + 2, channels == 1, 1);
            for (uint64_t i = 0; i < 150; i += test_every(3)) {
                uint32_t x = (uint32_t)leat_draw_below(i, 0, 75), y = (uint32_t)leat_draw_below(i, 1, 98);
                uint32_t w = 1 + (uint32_t)leat_draw_below(i, 2, 75 - x),
                         h = 1 + (uint32_t)leat_draw_below(i, 3, 98 - y);
                check_box(&forms, &full, 1, x, y, w, h, i & 1);
            }
            forms_free(&forms);
            free(full.pixels);
        }
        assert_true(scans > 5);
        free(part);
        free(data);
        free(pixels);
    }
}

/* ---- colours --------------------------------------------------------------------------------- */

TEST(grey_of_a_colour_photo_is_the_luma_of_its_rgb)
{
    uint32_t w = 61, h = 43;
    size_t length;
    uint8_t *pixels = photo_pixels(w, h, 3, 5), *data = photo_encode(&color, pixels, w, h, 90, &length);
    struct photo_full full = photo_reference(data, length, false, 1);
    uint8_t *gray = decode_all(data, length, true, &w, &h);
    for (size_t i = 0; i < (size_t)w * h; i++) {
        const uint8_t *p = full.pixels + 4 * i;
        assert_int_equal(gray[i], (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 32768) >> 16);
    }
    free(gray);
    free(full.pixels);
    free(data);
    free(pixels);
}

TEST(cmyk_is_read_as_adobe_writes_it)
{
    static const struct photo_style inks[] = {
        {"CMYK", JCS_CMYK, JCS_CMYK, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, false, false, false},
        {"YCCK", JCS_CMYK, JCS_YCCK, {2, 1, 1, 2}, {2, 1, 1, 2}, 0, false, false, false, false},
    };
    for (size_t s = 0; s < 2; s++) {
        uint32_t w = 37, h = 29;
        size_t length;
        uint8_t *pixels = photo_pixels(w, h, 4, 6), *data = photo_encode(&inks[s], pixels, w, h, 90, &length);
        struct photo_full full = photo_reference(data, length, false, 1);
        uint8_t *rgbx = decode_all(data, length, false, &w, &h);
        for (size_t i = 0; i < (size_t)w * h; i++) {
            const uint8_t *ink = full.pixels + 4 * i;
            for (int c = 0; c < 3; c++) {
                /* stored inverted: 255 is no ink. Rounded to nearest. */
                int expected = ink[3] - (int)(((255 - ink[c]) * ink[3] * 2 + 255) / 510);
                assert_int_equal(rgbx[4 * i + (size_t)c], expected);
            }
            assert_int_equal(rgbx[4 * i + 3], 255);
        }
        free(rgbx);
        free(full.pixels);
        free(data);
        free(pixels);
    }
}
TEST(the_fast_form_is_turned_as_the_photo_it_was_made_of)
{
    for (unsigned orientation = 1; orientation <= 8; orientation++)
        for (unsigned kind = 0; kind < 2; kind++) {
            const struct photo_style *style = &styles[kind ? 4 : 0];
            size_t length, n;
            uint8_t *pixels = photo_pixels(53, 38, 3, orientation),
                    *plain = photo_encode(style, pixels, 53, 38, 90, &length);
            uint8_t *data = with_orientation(plain, length, orientation, kind, &n);
            struct forms forms = forms_of(style->name, data, n);
            assert_int_equal(forms.n, 3);
            static const struct leat_image_wish turned = {.exif = true};
            for (size_t form = 0; form < forms.n; form++)
                forms.form[form].wish = &turned;
            for (int gray = 0; gray < 2; gray++) {
                struct leat_decode_request request = forms.form[0];
                struct photo_full full = {.pixel_bytes = gray ? 1 : 4};
                const struct leat_image_wish wish = {.exif = true, .gray = gray};
                request.wish = &wish;
                full.pixels = decode_request(&request, &full.width, &full.height);
                assert_int_equal(full.width, orientation > 4 ? 38 : 53);
                check_box(&forms, &full, 1, 0, 0, full.width, full.height, false);
                check_box(&forms, &full, 1, 5, 9, 21, 23, true);
                free(full.pixels);
            }
            forms_free(&forms);
            free(data);
            free(plain);
            free(pixels);
        }
}

TEST(a_row_index_is_of_the_photo_that_was_ended_last)
{
    size_t length, n;
    uint32_t w, h;
    uint8_t *pixels = photo_pixels(150, 130, 3, 1), *data = photo_encode(&color, pixels, 150, 130, 90, &length);
    const struct leat_decode_request scanned = {.data = data, .length = length, .scan_to_end = true};
    const struct leat_decode_request others[] = {{.data = data, .length = length}, {.data = "", .length = 0}};
    for (size_t i = 0; i < 2; i++) {
        free(decode_request(&scanned, &w, &h));
        assert_non_null(leat_decoder_rows(decoder, &n));
        assert_true(n > 0);
        if (!leat_image_open(decoder, &others[i], &w, &h, &error))
            assert_ok(leat_decoder_end(decoder, &error));
        assert_null(leat_decoder_rows(decoder, &n));
        assert_int_equal(n, 0);
    }
    free(data);
    free(pixels);
}

TEST(steady_state_allocates_nothing_of_ours)
{
    size_t length;
    uint32_t w = 300, h = 200;
    uint8_t *pixels = photo_pixels(w, h, 3, 1), *data = photo_encode(&color, pixels, w, h, 80, &length);
    free(decode_all(data, length, true, &w, &h));
    assert_ok(leat_decoder_check(checker, data, length, false, &error));
    uint64_t before = library_allocations();
    for (int i = 0; i < 20; i++) {
        free(decode_all(data, length, i & 1, &w, &h));
        assert_ok(leat_decoder_check(checker, data, length, false, &error));
    }
    assert_int_equal(library_allocations(), before);
    free(data);
    free(pixels);
}
TEST_MAIN_IN(make_decoders, free_decoders)
