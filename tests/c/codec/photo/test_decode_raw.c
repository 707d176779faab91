/* Photos stored as pixels: the same rows as from the photo that they were made of, and hostile headers. */
#include "photos.h"

#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/photo.h"
#include "codec/photo/raw.h"
#include "format/source.h"

static const struct photo_style colour = {.in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}};
static const struct photo_style gray = {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}};

enum { W = 61, H = 45 };
static struct leat_error error;

/* A JPEG, and the same as pixels. */
struct pair {
    uint8_t *jpeg, *raw;
    size_t jpeg_length, raw_length;
};

static struct pair make_pair(bool is_gray, unsigned orientation)
{
    static const uint8_t exif[] = {0xff, 0xe1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0,
                                   1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 0,   0,   0,   0, 0, 0, 0, 0};
    struct pair pair;
    uint8_t *pixels = photo_pixels(W, H, is_gray ? 1 : 3, orientation), *plain;
    size_t n;
    plain = photo_encode(is_gray ? &gray : &colour, pixels, W, H, 90, &n);
    pair.jpeg_length = n + sizeof exif;
    pair.jpeg = malloc(pair.jpeg_length);
    assert_non_null(pair.jpeg);
    memcpy(pair.jpeg, plain, 2);
    memcpy(pair.jpeg + 2, exif, sizeof exif);
    pair.jpeg[2 + 28] = (uint8_t)orientation;
    memcpy(pair.jpeg + 2 + sizeof exif, plain + 2, n - 2);
    free(pixels);
    free(plain);
    struct leat_decoder *checker = leat_decoder_new(&leat_codec_photo);
    assert_non_null(checker);
    assert_ok(leat_codec_photo.pack(checker, LEAT_PHOTOS_RAW, false, pair.jpeg, pair.jpeg_length, &pair.raw,
                                    &pair.raw_length, &error));
    leat_decoder_free(checker);
    return pair;
}

static void free_pair(struct pair *pair)
{
    free(pair->jpeg);
    leat_free(pair->raw);
}

/* Rows of a box, packed; the caller frees it. */
static uint8_t *rows_of(const struct leat_decode_request *request, const uint32_t *box, uint32_t *w, uint32_t *h)
{
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    uint32_t width, height;
    const uint8_t *row;
    assert_non_null(decoder);
    assert_ok(leat_image_open(decoder, request, &width, &height, &error));
    const uint32_t x = box ? box[0] : 0, y = box ? box[1] : 0, pixel = leat_image_wish_of(request)->gray ? 1 : 4;
    *w = box ? box[2] : width;
    *h = box ? box[3] : height;
    uint8_t *out = malloc((size_t)*w * *h * pixel);
    assert_non_null(out);
    assert_ok(leat_decoder_begin(decoder, 1, x, y, *w, *h, &error));
    for (uint32_t i = 0; i < *h; i++) {
        assert_ok(leat_decoder_row(decoder, &row, &error));
        memcpy(out + (size_t)i * *w * pixel, row, (size_t)*w * pixel);
    }
    assert_ok(leat_decoder_end(decoder, &error));
    leat_decoder_free(decoder);
    return out;
}

TEST(rows_are_those_of_the_photo_in_every_orientation_and_mode)
{
    static const uint32_t box[4] = {7, 5, 20, 31};
    for (unsigned orientation = 1; orientation <= 8; orientation++)
        for (unsigned kind = 0; kind < 16; kind++) {
            struct pair pair = make_pair(kind & 1, orientation);
            struct leat_decode_request came = {.data = pair.jpeg,
                                               .length = pair.jpeg_length,
                                               .wish = &(struct leat_image_wish){.gray = kind & 2, .exif = kind & 4},
                                               .scan_to_end = true};
            struct leat_decode_request raw = came;
            raw.data = pair.raw;
            raw.length = pair.raw_length;
            raw.form = LEAT_FORM_RAW;
            uint32_t w, h, v, g;
            uint8_t *a = rows_of(&came, kind & 8 ? box : NULL, &w, &h),
                    *b = rows_of(&raw, kind & 8 ? box : NULL, &v, &g);
            assert_int_equal(w, v);
            assert_int_equal(h, g);
            assert_memory_equal(a, b, (size_t)w * h * (kind & 2 ? 1 : 4));
            free(a);
            free(b);
            free_pair(&pair);
        }
}

TEST(the_header_says_what_the_photo_was)
{
    for (unsigned is_gray = 0; is_gray < 2; is_gray++) {
        struct pair pair = make_pair(is_gray, 3);
        struct leat_raw_photo raw;
        assert_true(leat_raw_photo_get(pair.raw, pair.raw_length, &raw));
        assert_int_equal(raw.width, W);
        assert_int_equal(raw.height, H);
        assert_int_equal(raw.channels, is_gray ? 1 : 3);
        assert_int_equal(raw.orientation, 3);
        assert_int_equal(raw.bytes, W * H * raw.channels);
        free_pair(&pair);
    }
}

TEST(bytes_that_are_no_such_photo_are_an_error)
{
    struct pair pair = make_pair(false, 1);
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    uint32_t w, h;
    uint8_t *bytes = malloc(pair.raw_length + 1);
    assert_non_null(bytes);
    struct leat_decode_request request = {.data = bytes, .form = LEAT_FORM_RAW};
    static const struct {
        unsigned at;
        uint8_t value;
    } bad[] = {{0, 0},    {3, 'X'}, {4, W + 1}, {4, 0},  {5, 1},  {7, 255}, {8, H - 1}, {8, 0},
               {11, 255}, {12, 0},  {12, 1},    {12, 2}, {12, 4}, {13, 0},  {13, 9},    {14, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(bytes, pair.raw, pair.raw_length);
        bytes[bad[i].at] = bad[i].value;
        request.length = pair.raw_length;
        assert_int_equal(leat_image_open(decoder, &request, &w, &h, &error), LEAT_E_DECODE);
    }
    for (size_t length = 0; length <= pair.raw_length + 1; length++) {
        uint8_t *exact = malloc(length ? length : 1); /* what lies behind it is not ours */
        memcpy(exact, pair.raw, length < pair.raw_length ? length : pair.raw_length);
        request.data = exact;
        request.length = length;
        int rc = leat_image_open(decoder, &request, &w, &h, &error);
        assert_int_equal(rc, length == pair.raw_length ? LEAT_OK : LEAT_E_DECODE);
        if (!rc)
            assert_ok(leat_decoder_end(decoder, &error));
        free(exact);
    }
    leat_decoder_free(decoder);
    free(bytes);
    free_pair(&pair);
}

/* A product that does not fit 64 bits, and more pixels than any photo may have. */
TEST(sizes_beyond_all_bounds_are_refused)
{
    uint8_t header[LEAT_RAW_HEADER];
    struct leat_raw_photo raw;
    leat_raw_photo_put(header, &(struct leat_raw_photo){UINT32_MAX, UINT32_MAX, 3, 1, NULL, 0});
    assert_false(leat_raw_photo_get(header, sizeof header, &raw));
    assert_false(leat_raw_photo_get(header, UINT64_MAX, &raw));
    struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
    const uint32_t side = LEAT_MAX_SIDE + 1;
    const struct leat_decode_request request = {
        .data = calloc(1, side + LEAT_RAW_HEADER), .length = side + LEAT_RAW_HEADER, .form = LEAT_FORM_RAW};
    uint32_t w, h;
    leat_raw_photo_put((uint8_t *)(uintptr_t)request.data, &(struct leat_raw_photo){side, 1, 1, 1, NULL, 0});
    assert_int_equal(leat_image_open(decoder, &request, &w, &h, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "65536"));
    free((void *)(uintptr_t)request.data);
    leat_decoder_free(decoder);
}

TEST(a_photo_that_breaks_off_has_no_pixels)
{
    struct pair pair = make_pair(false, 1);
    struct leat_decoder *checker = leat_decoder_new(&leat_codec_photo);
    uint8_t *out;
    size_t n;
    assert_int_equal(
        leat_codec_photo.pack(checker, LEAT_PHOTOS_RAW, false, pair.jpeg, pair.jpeg_length - 40, &out, &n, &error),
        LEAT_E_DECODE);
    assert_null(out);
    assert_int_equal(
        leat_codec_photo.pack(checker, LEAT_PHOTOS_RAW, false, pair.raw, pair.raw_length, &out, &n, &error),
        LEAT_E_DECODE);
    assert_null(out);
    leat_decoder_free(checker);
    free_pair(&pair);
}

TEST_MAIN()
