/* What leat_photo_decode_bytes says bounds what decoding takes of leat's own allocator: of photos of all forms and
 * samplings, whole and in part, with and without an index; and little of it stays when the photo is done. (What libjpeg
 * takes, it takes from malloc.) */
#include "base/alloc.h"
#include "codec/jpeg/fast.h"
#include "codec/photo/photo.h"
#include "format/source.h"
#include "photos.h"

static uint64_t now, most;

static void count(uint64_t bytes)
{
    now += bytes;
    most = now > most ? now : most;
}

/* A header before each piece holds its size. */
enum { HEAD = 64 };

static void *allocate(size_t bytes)
{
    uint8_t *p = malloc(bytes + HEAD);
    if (!p)
        return NULL;
    memcpy(p, &bytes, sizeof bytes);
    count(bytes);
    return p + HEAD;
}

static void release(void *p)
{
    size_t bytes;
    if (!p)
        return;
    memcpy(&bytes, (uint8_t *)p - HEAD, sizeof bytes);
    now -= bytes;
    free((uint8_t *)p - HEAD);
}

static void *resize(void *p, size_t bytes)
{
    void *fresh = allocate(bytes);
    size_t before;
    if (!fresh || !p)
        return fresh;
    memcpy(&before, (uint8_t *)p - HEAD, sizeof before);
    memcpy(fresh, p, before < bytes ? before : bytes);
    release(p);
    return fresh;
}

static const struct photo_style styles[] = {
    {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}},
    {.name = "444", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "420", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}},
    {.name = "422", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {1, 1, 1}},
    {.name = "440", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {2, 1, 1}},
    {.name = "411", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {1, 1, 1}},
    {.name = "141", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {4, 1, 1}},
    {.name = "cmyk", .in = JCS_CMYK, .stored = JCS_YCCK, .h = {2, 1, 1, 2}, .v = {2, 1, 1, 2}},
    {.name = "cmyk, rows of 32",
     .in = JCS_CMYK,
     .stored = JCS_CMYK,
     .h = {1, 1, 1, 1},
     .v = {4, 4, 1, 1}}, /* needs most, keeps no more */
};
static const uint32_t sizes[][2] = {{4096, 40}, {30, 4000}, {1500, 600}, {17, 17}};

struct stored {
    const void *data;
    size_t length;
    struct leat_value_info info;
};

/* Decodes the box of all of the photo, or a part, at 1/denominator; returns what was taken. */
static uint64_t decode(const struct stored *photo, unsigned denominator, bool all, bool scan)
{
    struct leat_error error;
    uint32_t w, h;
    const struct leat_decode_request request = {.data = photo->data,
                                                .length = photo->length,
                                                .form = photo->info.form,
                                                .rows = photo->info.rows,
                                                .rows_length = photo->info.rows_length,
                                                .wish = &(struct leat_image_wish){.exif = true},
                                                .scan_to_end = scan};
    uint64_t before = now = most = 0;
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    assert_non_null(decoder);
    for (int turn = 0; turn < 2; turn++) { /* the second uses what the first has left */
        assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
        leat_decoder_scaled_size(decoder, denominator, &w, &h);
        uint32_t x = all ? 0 : w / 3, y = all ? 0 : h / 3, box_w = all ? w : (w + 2) / 3, box_h = all ? h : (h + 2) / 3;
        assert_ok(leat_decoder_begin(decoder, denominator, x, y, box_w, box_h, &error));
        for (uint32_t i = 0; i < box_h; i++) {
            const uint8_t *row;
            assert_ok(leat_decoder_row(decoder, &row, &error));
        }
        assert_ok(leat_decoder_end(decoder, &error));
        assert_true(now <= LEAT_DECODE_BYTES);
    }
    leat_decoder_free(decoder);
    assert_int_equal(now, before);
    return most;
}

static void check(const struct photo_style *style, const struct stored *photo)
{
    uint64_t promised = leat_codec_photo.decode_bytes(photo->data, photo->length, &photo->info, true) +
                        (UINT64_C(1) << 18);           /* the decoders' own objects, of the usual */
    for (unsigned i = 0; i < 16; i += test_every(3)) { /* the first takes most: all, of full size, to the end */
        const unsigned kind = 3 - i % 4;
        uint64_t taken = decode(photo, 1u << i / 4, kind & 1, kind & 2);
        if (taken > promised)
            fail_msg("%s, form %d: %llu bytes, of %llu", style->name, photo->info.form, (unsigned long long)taken,
                     (unsigned long long)promised);
    }
}

TEST(decoding_takes_no_more_than_is_said_before)
{
    struct test_allocator usual = test_allocator;
    test_allocator = (struct test_allocator){allocate, resize, release};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *pixels = photo_pixels(sizes[i][0], sizes[i][1], 4, i);
        for (size_t s = 0; s < sizeof styles / sizeof *styles; s++) {
            struct leat_error error;
            size_t length, packed_length, restored_length;
            const uint8_t *packed;
            uint8_t *restored;
            uint8_t *jpeg = photo_encode(&styles[s], pixels, sizes[i][0], sizes[i][1], 75, &length);
            check(&styles[s], &(struct stored){.data = jpeg, .length = length});
            struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
            assert_non_null(packer);
            assert_ok(leat_jpeg_pack(packer, jpeg, length, 1 + i % 8, LEAT_IMAGE_JPEG_BASELINE, &packed, &packed_length,
                                     &error));
            uint8_t *fast = malloc(packed_length);
            assert_non_null(fast);
            memcpy(fast, packed, packed_length);
            leat_jpeg_packer_free(packer);
            const struct stored row = {.data = fast, .length = packed_length, .info.form = LEAT_FORM_FAST};
            check(&styles[s], &row);
            now = most = 0;
            assert_ok(leat_jpeg_restore(fast, packed_length, &restored, &restored_length, &error));
            assert_int_equal(restored_length, length);
            assert_memory_equal(restored, jpeg, length);
            assert_true(most <= leat_codec_photo.restore_bytes(row.data, row.length));
            leat_free(restored);
            free(fast);
            free(jpeg);
        }
        free(pixels);
    }
    test_allocator = usual;
}

TEST(bytes_that_are_no_photo_need_nothing)
{
    static const uint8_t bytes[200] = {0xff, 0xd8, 0xff, 0xc0};
    for (uint8_t form = LEAT_FORM_ORIGINAL; form <= LEAT_FORM_FAST; form++)
        for (size_t n = 0; n < sizeof bytes; n++) {
            const struct stored row = {.data = bytes, .length = n, .info.form = form};
            assert_int_equal(leat_codec_photo.decode_bytes(row.data, row.length, &row.info, true), 0);
            assert_int_equal(leat_codec_photo.restore_bytes(row.data, row.length), 0);
        }
}

/* libjpeg then keeps all coefficients until it has read the last scan. */
TEST(photos_whose_scans_are_apart_are_booked_as_progressive_ones_are)
{
    struct photo_style style = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
    uint8_t *pixels = photo_pixels(640, 480, 3, 1);
    uint64_t booked[3];
    for (int kind = 0; kind < 3; kind++) {
        size_t length;
        style.separate_scans = kind == 1;
        style.progressive = kind == 2;
        uint8_t *jpeg = photo_encode(&style, pixels, 640, 480, 75, &length);
        booked[kind] = leat_codec_photo.decode_bytes(jpeg, length, &(struct leat_value_info){0}, false);
        free(jpeg);
    }
    assert_true(booked[0] < 500000);
    assert_true(booked[1] > 640 * 480 * 3);
    assert_int_equal(booked[1], booked[2]);
    free(pixels);
}

TEST(a_profile_of_many_parts_does_not_stay_with_the_decoder)
{
    enum { PARTS = 80, PART = 65000, HEAD_BYTES = 18 };
    size_t length;
    uint8_t *pixels = photo_pixels(40, 40, 3, 1), *jpeg = photo_encode(&styles[1], pixels, 40, 40, 75, &length);
    uint8_t *data = calloc(1, length + PARTS * (PART + HEAD_BYTES)), *to = data + 2;
    assert_non_null(data);
    memcpy(data, jpeg, 2);
    for (int i = 0; i < PARTS; i++, to += HEAD_BYTES + PART) {
        const unsigned n = HEAD_BYTES - 2 + PART;
        const uint8_t head[4] = {0xff, 0xe2, (uint8_t)(n >> 8), (uint8_t)n};
        memcpy(to, head, 4);
        memcpy(to + 4, "ICC_PROFILE", 12);
        to[16] = (uint8_t)(i + 1);
        to[17] = PARTS;
    }
    memcpy(data + 2 + HEAD_BYTES + 16, "RGB ", 4); /* of its header; the rest makes no sense */
    memcpy(to, jpeg + 2, length - 2);
    length += PARTS * (PART + HEAD_BYTES);

    struct test_allocator usual = test_allocator;
    test_allocator = (struct test_allocator){allocate, resize, release};
    now = most = 0;
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    assert_non_null(decoder);
    for (int lenient = 0; lenient < 2; lenient++) {
        struct leat_error error;
        uint32_t w, h;
        const struct leat_decode_request request = {
            .data = data, .length = length, .wish = &(struct leat_image_wish){.icc = true}, .lenient = lenient};
        const int rc = leat_image_open(decoder, &request, &w, &h, &error);
        assert_int_equal(rc, lenient ? LEAT_OK : LEAT_E_DECODE);
        assert_true(most > (uint64_t)PARTS * PART); /* it was put together */
        assert_true(now <= LEAT_DECODE_BYTES);
        if (lenient)
            assert_ok(leat_decoder_end(decoder, &error));
    }
    leat_decoder_free(decoder);
    assert_int_equal(now, 0);
    test_allocator = usual;
    free(data);
    free(jpeg);
    free(pixels);
}

TEST_MAIN()
