/* The decoder as operators see it: formats by content, orientation, PNG, WebP, misuse. JPEG's boxes:
 * test_decode_jpeg.c. */
#include "../../allocations.h"
#include "photos.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spng.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include "base/alloc.h"
#include "codec/photo/photo.h"
#include "format/source.h"

static struct leat_decoder *decoder;
static struct leat_decoder *checker;
static struct leat_error error;

static int make(void **state)
{
    decoder = leat_decoder_new(&leat_codec_photo);
    checker = leat_decoder_new(&leat_codec_photo);
    return decoder && checker ? 0 : -1;
}

static int unmake(void **state)
{
    leat_decoder_free(decoder);
    leat_decoder_free(checker);
    return 0;
}

/* Decodes a box to memory that the caller ends with free(). A box of no width is all. */
static uint8_t *decode(const struct leat_decode_request *request, const uint32_t box[4], uint32_t *w, uint32_t *h)
{
    uint32_t all[4] = {0, 0, 0, 0};
    assert_ok(leat_image_open(decoder, request, &all[2], &all[3], &error));
    *w = all[2];
    *h = all[3];
    if (box)
        memcpy(all, box, sizeof all);
    assert_ok(leat_decoder_begin(decoder, 1, all[0], all[1], all[2], all[3], &error));
    size_t stride = all[2] * (leat_image_wish_of(request)->gray ? 1u : 4u);
    uint8_t *out = malloc(stride * all[3]);
    assert_non_null(out);
    unsigned sum = 0;
    for (uint32_t i = 0; i < all[3]; i++) {
        const uint8_t *row;
        assert_ok(leat_decoder_row(decoder, &row, &error));
        memcpy(out + i * stride, row, stride);
        for (int k = 0; k < LEAT_DECODE_PADDING; k++)
            sum += row[stride + (size_t)k]; /* readable, says the header; a sanitizer says whether */
    }
    assert_true(sum < UINT32_MAX);
    assert_ok(leat_decoder_end(decoder, &error));
    return out;
}

static uint8_t *decode_rgbx(const uint8_t *data, size_t length, uint32_t *w, uint32_t *h)
{
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    return decode(&request, NULL, w, h);
}

/* Random boxes, with and without scanning, in colour and grey, against all of the image. */
static void check_boxes(const char *name, const uint8_t *data, size_t length, bool exif, const uint8_t *full,
                        uint32_t width, uint32_t height)
{
    for (uint64_t i = 0; i < 100; i += test_every(7)) {
        uint32_t w, h, x = (uint32_t)leat_draw_below(i, 0, width), y = (uint32_t)leat_draw_below(i, 1, height);
        uint32_t box[4] = {x, y, 1 + (uint32_t)leat_draw_below(i, 2, width - x),
                           1 + (uint32_t)leat_draw_below(i, 3, height - y)};
        const struct leat_image_wish wish = {.exif = exif, .gray = i & 1};
        struct leat_decode_request request = {.data = data, .length = length, .wish = &wish, .scan_to_end = i & 2};
        uint8_t *got = decode(&request, box, &w, &h);
        assert_int_equal(w, width);
        assert_int_equal(h, height);
        for (uint32_t r = 0; r < box[3]; r++)
            for (uint32_t c = 0; c < box[2]; c++) {
                const uint8_t *p = full + 4 * ((size_t)(y + r) * width + x + c);
                size_t at = (size_t)r * box[2] + c;
                uint8_t luma = (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 32768) >> 16);
                if (wish.gray ? got[at] != luma : memcmp(got + 4 * at, p, 4))
                    fail_msg("%s: pixel (%u, %u) of box (%u, %u) + %u x %u differs", name, c, r, x, y, box[2], box[3]);
            }
        free(got);
    }
}

/* ---- orientation ----------------------------------------------------------------------------- */

/* Which stored pixel stands at (x, y) of an image delivered as w x h: the definition, from the EXIF standard's names of
 * the sides that row 0 and column 0 stand for. */
static size_t stored_pixel(unsigned orientation, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
    uint32_t left = x, right = w - 1 - x, top = y, bottom = h - 1 - y;
    switch (orientation) {
    case 2: /* row 0 top, column 0 right */
        return (size_t)top * w + right;
    case 3: /* bottom, right */
        return (size_t)bottom * w + right;
    case 4: /* bottom, left */
        return (size_t)bottom * w + left;
    case 5: /* row 0 is the left side, column 0 the top */
        return (size_t)left * h + top;
    case 6: /* right, top */
        return (size_t)right * h + top;
    case 7: /* right, bottom */
        return (size_t)right * h + bottom;
    case 8: /* left, bottom */
        return (size_t)left * h + bottom;
    default:
        return (size_t)top * w + left;
    }
}

static const struct photo_style color = {"4:2:0", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                         0,       false,   false,     false,     false};

TEST(every_exif_orientation_delivers_boxes_the_right_way_up)
{
    size_t length;
    uint32_t w, h;
    uint8_t *pixels = photo_pixels(53, 38, 3, 9), *plain = photo_encode(&color, pixels, 53, 38, 90, &length);
    uint8_t *stored = decode_rgbx(plain, length, &w, &h);
    for (unsigned orientation = 0; orientation <= 9; orientation++) {
        size_t n;
        uint8_t *data = with_orientation(plain, length, orientation, orientation & 1, &n);
        bool turned = orientation >= 5 && orientation <= 8;
        uint32_t tw = turned ? h : w, th = turned ? w : h;
        uint8_t *full = malloc((size_t)w * h * 4);
        assert_non_null(full);
        for (uint32_t y = 0; y < th; y++)
            for (uint32_t x = 0; x < tw; x++)
                memcpy(full + 4 * ((size_t)y * tw + x), stored + 4 * stored_pixel(orientation, x, y, tw, th), 4);
        check_boxes("exif", data, n, true, full, tw, th);
        check_boxes("no exif", data, n, false, stored, w, h);
        free(full);
        free(data);
    }
    free(stored);
    free(plain);
    free(pixels);
}

TEST(malformed_exif_is_no_orientation)
{
    size_t length, n;
    uint8_t *pixels = photo_pixels(8, 4, 3, 9), *plain = photo_encode(&color, pixels, 8, 4, 90, &length);
    uint8_t *data = with_orientation(plain, length, 6, false, &n);
    struct leat_decode_request request = {.data = data, .length = n, .wish = &(struct leat_image_wish){.exif = true}};
    uint32_t w, h;
    for (size_t at = 12; at < 32; at++)
        for (unsigned value = 0; value < 256; value += 17) {
            uint8_t was = data[at];
            data[at] = (uint8_t)value;
            assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
            assert_ok(leat_decoder_end(decoder, &error));
            assert_int_equal(w * h, 32);
            data[at] = was;
        }
    free(data);
    free(plain);
    free(pixels);
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static uint8_t *png_encode(const struct spng_ihdr *header, const struct spng_plte *palette, const uint8_t *pixels,
                           size_t bytes, size_t *length)
{
    spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
    assert_non_null(spng);
    struct spng_ihdr copy = *header;
    struct spng_plte entries;
    int code = 0;
    assert_int_equal(spng_set_option(spng, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(spng, &copy), 0);
    if (palette) {
        entries = *palette;
        assert_int_equal(spng_set_plte(spng, &entries), 0);
    }
    assert_int_equal(spng_encode_image(spng, pixels, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    uint8_t *out = spng_get_png_buffer(spng, length, &code);
    assert_non_null(out);
    spng_ctx_free(spng);
    return out;
}

TEST(every_kind_of_png_becomes_rgbx)
{
    static const uint8_t kinds[][3] = {{0, 1, 1}, {0, 2, 1},  {0, 4, 1},  {0, 8, 1}, {0, 16, 1},
                                       {2, 8, 3}, {2, 16, 3}, {3, 1, 1},  {3, 2, 1}, {3, 4, 1},
                                       {3, 8, 1}, {4, 8, 2},  {4, 16, 2}, {6, 8, 4}, {6, 16, 4}};
    struct spng_plte palette = {.n_entries = 0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint32_t w = 29, h = 23, got_w, got_h;
        unsigned depth = kinds[k][1], channels = kinds[k][2];
        struct spng_ihdr header = {.width = w, .height = h, .bit_depth = (uint8_t)depth, .color_type = kinds[k][0]};
        palette.n_entries = 1u << (depth > 8 ? 8 : depth);
        for (uint32_t i = 0; i < palette.n_entries; i++)
            palette.entries[i] =
                (struct spng_plte_entry){(uint8_t)(i * 7), (uint8_t)(255 - i), (uint8_t)(i * 3 + 1), 255};
        size_t stride = (w * depth * channels + 7) / 8, length;
        uint8_t *pixels = photo_pixels((uint32_t)stride, h, 1, k), *expected = malloc((size_t)w * h * 4);
        assert_non_null(expected);
        for (size_t i = 0; i < (size_t)w * h; i++) {
            unsigned sample[4] = {0};
            for (unsigned c = 0; c < channels; c++) {
                const uint8_t *row = pixels + i / w * stride;
                size_t at = i % w * channels + c;
                if (depth == 16)
                    sample[c] = row[2 * at + 1]; /* libspng takes and gives the host's order: this is the upper byte */
                else if (depth == 8)
                    sample[c] = row[at];
                else
                    sample[c] = row[at * depth / 8] >> (8 - depth - at * depth % 8) & ((1u << depth) - 1);
                if (depth < 8 && kinds[k][0] == 0)
                    sample[c] = sample[c] * 255 / ((1u << depth) - 1);
            }
            const struct spng_plte_entry *entry = &palette.entries[sample[0]];
            uint8_t out[4] = {(uint8_t)sample[0], (uint8_t)sample[channels > 2], (uint8_t)sample[channels > 2 ? 2 : 0],
                              255};
            if (kinds[k][0] == 3)
                memcpy(out, (uint8_t[]){entry->red, entry->green, entry->blue}, 3);
            memcpy(expected + 4 * i, out, 4);
        }
        uint8_t *data = png_encode(&header, kinds[k][0] == 3 ? &palette : NULL, pixels, stride * h, &length);
        char name[64];
        snprintf(name, sizeof name, "PNG of type %d, depth %u", kinds[k][0], depth);
        check_boxes(name, data, length, false, expected, w, h);
        struct leat_value_info info;
        assert_ok(leat_codec_photo.probe(data, length, &info, &error));
        assert_int_equal(info.size[0], w);
        assert_int_equal(info.size[1], h);
        assert_int_equal(info.channels, kinds[k][0] == 3 ? 3 : channels);
        assert_int_equal(info.kind, LEAT_IMAGE_PNG);
        assert_ok(leat_decoder_check(checker, data, length, false, &error));
        uint8_t *got = decode_rgbx(data, length, &got_w, &got_h);
        free(got);
        free(data);
        free(expected);
        free(pixels);
    }
}

TEST(every_changed_or_missing_byte_of_a_png_is_found)
{
    struct spng_ihdr header = {.width = 19, .height = 17, .bit_depth = 8, .color_type = 2};
    uint8_t *pixels = photo_pixels(19, 17, 3, 3);
    size_t length;
    uint8_t *data = png_encode(&header, NULL, pixels, 19 * 17 * 3, &length);
    assert_ok(leat_decoder_check(checker, data, length, false, &error));
    for (size_t at = 0; at < length; at++) {
        data[at] ^= 0x10;
        if (leat_decoder_check(checker, data, length, false, &error) != LEAT_E_DECODE)
            fail_msg("a changed byte %zu of %zu was not found", at, length);
        data[at] ^= 0x10;
        uint8_t *part = malloc(at + !at);
        assert_non_null(part);
        memcpy(part, data, at);
        if (leat_decoder_check(checker, part, at, false, &error) != LEAT_E_DECODE)
            fail_msg("a PNG of %zu bytes cut to %zu was found good", length, at);
        free(part);
    }
    free(data);
    free(pixels);
}

TEST(interlaced_pngs_equal_their_plain_twins)
{
    char folder[4096], twin[300];
    snprintf(folder, sizeof folder, "%s/odd-images/pngsuite/pngsuite", test_data());
    DIR *dir = opendir(folder);
    if (!dir) {
        printf("# SKIP %s: no folder %s\n", __func__, folder);
        return;
    }
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "basi", 4))
            continue;
        snprintf(twin, sizeof twin, "basn%s", entry->d_name + 4);
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, twin);
        if (access(path, R_OK))
            continue;
        size_t length, twin_length;
        uint32_t w, h;
        uint8_t *data = photo_file(folder, entry->d_name, &length), *plain = photo_file(folder, twin, &twin_length);
        uint8_t *full = decode_rgbx(plain, twin_length, &w, &h);
        check_boxes(entry->d_name, data, length, false, full, w, h);
        assert_ok(leat_decoder_check(checker, data, length, false, &error));
        free(full);
        free(plain);
        free(data);
        n++;
    }
    closedir(dir);
    assert_true(n >= 10);
}

TEST(a_png_that_promises_too_much_is_refused_before_memory_is_spent)
{
    /* a header chunk with its checksum: 16000 x 16000, grey, 8 bits; then nothing */
    static const uint8_t head[] = {0x89, 'P', 'N', 'G',  13,   10, 26, 10,   0,    0, 0, 13, 'I', 'H', 'D',
                                   'R',  0,   0,   0x3e, 0x80, 0,  0,  0x3e, 0x80, 8, 0, 0,  0,   0};
    uint8_t data[sizeof head + 4];
    memcpy(data, head, sizeof head);
    uint32_t crc = ~0u;
    for (size_t i = 12; i < sizeof head; i++) {
        crc ^= head[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    crc = ~crc;
    for (int k = 0; k < 4; k++)
        data[sizeof head + (size_t)k] = (uint8_t)(crc >> (24 - 8 * k));
    assert_int_equal(leat_decoder_check(checker, data, sizeof data, false, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "ends before"));
}

/* ---- WebP ------------------------------------------------------------------------------------ */

TEST(boxes_of_webp_equal_a_full_decode_cropped)
{
    static const uint32_t sizes[][2] = {{1, 1}, {7, 5}, {16, 17}, {67, 53}, {130, 91}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < 4; kind++) {
            uint32_t w = sizes[s][0], h = sizes[s][1];
            int channels = kind & 1 ? 4 : 3, stride = (int)w * channels;
            uint8_t *pixels = photo_pixels(w, h, (unsigned)channels, s), *data = NULL;
            size_t length = kind == 0   ? WebPEncodeRGB(pixels, (int)w, (int)h, stride, 70, &data)
                            : kind == 1 ? WebPEncodeRGBA(pixels, (int)w, (int)h, stride, 70, &data)
                            : kind == 2 ? WebPEncodeLosslessRGB(pixels, (int)w, (int)h, stride, &data)
                                        : WebPEncodeLosslessRGBA(pixels, (int)w, (int)h, stride, &data);
            assert_true(length > 0);
            int full_w, full_h;
            uint8_t *full = WebPDecodeRGBA(data, length, &full_w, &full_h);
            assert_non_null(full);
            for (size_t i = 0; i < (size_t)w * h; i++)
                full[4 * i + 3] = 255;
            check_boxes(kind & 2 ? "lossless WebP" : "lossy WebP", data, length, false, full, w, h);
            struct leat_value_info info;
            assert_ok(leat_codec_photo.probe(data, length, &info, &error));
            assert_int_equal(info.size[0], w);
            assert_int_equal(info.size[1], h);
            assert_int_equal(info.channels, channels);
            assert_int_equal(info.kind, LEAT_IMAGE_WEBP);
            assert_ok(leat_decoder_check(checker, data, length, false, &error));
            for (size_t cut = 0; cut < length; cut += 1 + length / 50) {
                uint8_t *part = malloc(cut + !cut);
                assert_non_null(part);
                memcpy(part, data, cut);
                assert_int_equal(leat_decoder_check(checker, part, cut, false, &error), LEAT_E_DECODE);
                free(part);
            }
            WebPFree(full);
            WebPFree(data);
            free(pixels);
        }
}

TEST(an_animation_without_frames_is_broken)
{
    static const uint8_t head[] = {'R', 'I', 'F', 'F', 22, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8',
                                   'X', 10,  0,   0,   0,  2, 0, 0, 0,   9,   0,   0,   9,   0,   0};
    assert_int_equal(leat_decoder_check(checker, head, sizeof head, false, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "WebP"));
}

/* ---- what it is, and misuse ------------------------------------------------------------------ */

TEST(what_leat_does_not_read_is_named)
{
    static const struct {
        const char *bytes, *named;
        size_t n;
    } files[] = {
        {"", "empty", 0},
        {"GIF89a\1\0\1\0", "GIF: the file ends", 10},
        {"BM\66\0\0\0", "BMP: its header", 6},
        {"II*\0\10\0\0\0", "TIFF: a directory", 8},
        {"\0\0\0\x1c"
         "ftypheic\0\0\0\0",
         "a HEIC", 16},
        {"\0\0\0\x1c"
         "ftypmif1\0\0\0\0",
         "a HEIC", 16},
        {"<!DOCTYPE html>", "a web page", 15},
        {"RIFF\0\0\0\0WAVEfmt ", "RIFF", 16},
        {"RIFF", "RIFF", 4},
        {"\xff\xd8", "begin with ff d8", 2},
        {"hello", "begin with 68 65", 5},
    };
    struct leat_value_info info;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(leat_decoder_check(checker, files[i].bytes, files[i].n, false, &error), LEAT_E_DECODE);
        if (!strstr(error.message, files[i].named))
            fail_msg("%s: %s", files[i].named, error.message);
        assert_int_equal(leat_codec_photo.probe(files[i].bytes, files[i].n, &info, &error), LEAT_E_DECODE);
    }
}

TEST(a_probe_tells_size_and_kind_of_a_jpeg_from_its_header)
{
    static const struct photo_style kinds[] = {
        {"baseline", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, false, false, false, false},
        {"progressive", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}, 0, true, false, false, false},
        {"arithmetic", JCS_GRAYSCALE, JCS_GRAYSCALE, {1}, {1}, 0, false, true, false, false},
        {"CMYK", JCS_CMYK, JCS_CMYK, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false, false, false, false},
    };
    static const uint8_t expected[][2] = {{3, LEAT_IMAGE_JPEG_BASELINE},
                                          {3, LEAT_IMAGE_JPEG_PROGRESSIVE},
                                          {1, LEAT_IMAGE_JPEG_OTHER},
                                          {4, LEAT_IMAGE_JPEG_BASELINE}};
    for (size_t k = 0; k < 4; k++) {
        size_t length;
        struct leat_value_info info;
        uint8_t *pixels = photo_pixels(31, 17, 4, 1), *data = photo_encode(&kinds[k], pixels, 31, 17, 90, &length);
        for (size_t n = 0; n < length; n++) {
            int rc = leat_codec_photo.probe(data, n, &info, &error);
            assert_true(rc == LEAT_OK || rc == LEAT_E_DECODE);
            if (rc)
                continue;
            assert_int_equal(info.size[0], 31);
            assert_int_equal(info.size[1], 17);
            assert_int_equal(info.channels, expected[k][0]);
            assert_int_equal(info.kind, expected[k][1]);
        }
        assert_ok(leat_codec_photo.probe(data, length, &info, &error));
        free(data);
        free(pixels);
    }
}

TEST(a_decoder_survives_misuse)
{
    static const uint32_t boxes[][4] = {{0, 0, 0, 1},  {0, 0, 1, 0},  {20, 0, 1, 1},         {0, 20, 1, 1},
                                        {19, 0, 2, 1}, {0, 1, 1, 20}, {UINT32_MAX, 0, 1, 1}, {1, 1, UINT32_MAX, 1}};
    size_t length;
    uint8_t *pixels = photo_pixels(20, 20, 3, 1), *data = photo_encode(&color, pixels, 20, 20, 80, &length);
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    uint32_t w, h;
    const uint8_t *row;
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
        assert_int_equal(leat_decoder_begin(decoder, 1, boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3], &error),
                         LEAT_E_INVALID);
        assert_int_equal(leat_decoder_row(decoder, &row, &error), LEAT_E_INVALID);
        assert_ok(leat_decoder_end(decoder, &error));
    }
    assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
    assert_int_equal(leat_decoder_begin(decoder, 3, 0, 0, 1, 1, &error), LEAT_E_INVALID);
    assert_ok(leat_decoder_end(decoder, &error));
    assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
    assert_ok(leat_decoder_begin(decoder, 1, 0, 0, 1, 1, &error));
    assert_ok(leat_decoder_row(decoder, &row, &error));
    assert_int_equal(leat_decoder_row(decoder, &row, &error), LEAT_E_INVALID);
    assert_ok(leat_decoder_end(decoder, &error));
    /* a decoder may be ended with a photo open */
    struct leat_decoder *other = leat_decoder_new(&leat_codec_photo);
    assert_non_null(other);
    assert_ok(leat_image_open(other, &request, &w, &h, &error));
    leat_decoder_free(other);
    free(data);
    free(pixels);
}

/* ---- real oddities --------------------------------------------------------------------------- */

/* 1 if the file is a photo that is whole. */
static unsigned visit_odd(const char *path, const uint8_t *data, size_t length)
{
    struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    uint32_t w, h;
    memset(&error, 0, sizeof error);
    int rc = leat_decoder_check(checker, data, length, false, &error);
    if (rc) {
        assert_int_equal(rc, LEAT_E_DECODE);
        assert_true(strlen(error.message) > 20);
        return 0;
    }
    struct leat_value_info info;
    assert_ok(leat_codec_photo.probe(data, length, &info, &error));
    uint8_t *full = decode(&request, NULL, &w, &h);
    assert_int_equal(info.size[0], w);
    assert_int_equal(info.size[1], h);
    if ((uint64_t)w * h < 1 << 18)
        check_boxes(path, data, length, false, full, w, h);
    free(full);
    return 1;
}

TEST(odd_photos_are_refused_in_words_or_decode_in_every_box)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/odd-images", test_data());
    if (access(folder, R_OK)) {
        printf("# SKIP %s: no folder %s\n", __func__, folder);
        return;
    }
    assert_true(for_each_file(folder, visit_odd) > 300);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* 0, or the code of the first failure. */
static int life_of_a_decoder(const uint8_t *data, size_t length, bool exif)
{
    struct leat_decoder *d = leat_decoder_new(&leat_codec_photo);
    if (!d)
        return LEAT_E_NOMEM;
    struct leat_decode_request request = {.data = data,
                                          .length = length,
                                          .wish = &(struct leat_image_wish){.gray = true, .exif = exif},
                                          .scan_to_end = true};
    uint32_t w, h;
    const uint8_t *row;
    int rc = leat_image_open(d, &request, &w, &h, &error);
    if (!rc) {
        rc = leat_decoder_begin(d, 1, 0, 0, w, h, &error);
        if (!rc)
            rc = leat_decoder_row(d, &row, &error);
        int end = leat_decoder_end(d, &error);
        rc = rc ? rc : end;
    }
    leat_decoder_free(d);
    return rc;
}

/* A row index that memory cannot hold is done without. */
TEST(every_failing_allocation_is_an_error_or_does_no_harm_and_leaks_nothing)
{
    size_t lengths[3];
    uint8_t *files[3], *pixels = photo_pixels(40, 30, 3, 1), *webp = NULL,
                       *jpeg = photo_encode(&color, pixels, 40, 30, 80, &lengths[0]);
    struct spng_ihdr header = {.width = 40, .height = 30, .bit_depth = 8, .color_type = 2};
    files[0] = with_orientation(jpeg, lengths[0], 6, true, &lengths[0]);
    files[1] = png_encode(&header, NULL, pixels, 40 * 30 * 3, &lengths[1]);
    lengths[2] = WebPEncodeRGB(pixels, 40, 30, 120, 70, &webp);
    files[2] = webp;
    for (int f = 0; f < 3; f++) {
        unsigned harmless = 0;
        int64_t n = 0;
        for (bool failed = true; failed; n++) {
            fail_allocation(n);
            const int rc = life_of_a_decoder(files[f], lengths[f], true);
            failed = allocation_failed();
            harmless += failed && rc == LEAT_OK;
            if (failed ? rc != LEAT_E_NOMEM && harmless > (f ? 0 : 3) : rc != LEAT_OK)
                fail_msg("file %d, allocation %d fails: %s %s", f, (int)n, leat_status_name(rc), error.message);
        }
        assert_true(n > 4);
    }
    WebPFree(webp);
    free(files[1]);
    free(files[0]);
    free(jpeg);
    free(pixels);
}

TEST_MAIN_IN(make, unmake)
