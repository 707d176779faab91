/*
 * Programs over whole photos, of every format, on the instruction set that LEAT_ISA names (meson.build runs this on
 * all): odd sizes, large scales, grey, orientation, padding; that every byte of a row is written; and what bad input
 * gives.
 */
#include "program_helpers.h"

#include <malloc.h>
#include <spng.h>
#include <webp/encode.h>

#include "base/alloc.h"
#include "base/elementary.h"
#include "codec/photo/photo.h"

struct photo {
    uint8_t *data;
    size_t length;
};

enum format { PNG, WEBP, JPEG };

/* A photo and the pixels that a decoder makes of it. */
static struct photo make_photo(enum format format, uint32_t w, uint32_t h, uint32_t channels, uint8_t *pixels)
{
    struct photo photo = {NULL, 0};
    paint(pixels, w, h, channels, w + 7 * h);
    if (format == PNG) {
        spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
        struct spng_ihdr header = {.width = w, .height = h, .bit_depth = 8, .color_type = channels == 3 ? 2 : 0};
        int code;
        assert_int_equal(spng_set_option(spng, SPNG_ENCODE_TO_BUFFER, 1), 0);
        assert_int_equal(spng_set_ihdr(spng, &header), 0);
        assert_int_equal(spng_encode_image(spng, pixels, (size_t)w * h * channels, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
                         0);
        photo.data = spng_get_png_buffer(spng, &photo.length, &code);
        assert_non_null(photo.data);
        spng_ctx_free(spng);
    } else if (format == WEBP) {
        uint8_t *data = NULL;
        assert_int_equal(channels, 3);
        photo.length = WebPEncodeLosslessRGB(pixels, (int)w, (int)h, (int)w * 3, &data);
        photo.data = malloc(photo.length);
        memcpy(photo.data, data, photo.length);
        WebPFree(data);
    } else {
        unsigned long length;
        encode_jpeg(pixels, w, h, channels, &photo.data, &length);
        photo.length = length;
        decode_jpeg_plain(photo.data, length, channels == 1, pixels);
    }
    return photo;
}

/* Applies a program of one output to a row, twice over different bytes: all of the row is written, and nothing beyond.
 * Returns the row; the caller frees it. */
static void *apply_twice(const struct leat_program *program, struct leat_row row)
{
    size_t bytes = leat_program_output(program, 0)->row_bytes;
    uint8_t *outs[2];
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (int i = 0; i < 2; i++) {
        outs[i] = malloc(bytes + 64);
        memset(outs[i], i ? 0xa5 : 0x5a, bytes + 64);
        struct leat_error error = {0};
        if (leat_program_apply(program, 0, scratch, &row, 1, outs[i], &error) != 1)
            fail_msg("apply: %s", error.message);
        for (size_t k = 0; k < 64; k++)
            assert_int_equal(outs[i][bytes + k], i ? 0xa5 : 0x5a);
    }
    assert_memory_equal(outs[0], outs[1], bytes);
    leat_scratch_free(scratch);
    free(outs[1]);
    return outs[0];
}

static struct leat_field photo_field(void)
{
    return field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
}

/* Scales up to 300, one pixel, one row, one column; grey and colour; mirrored; bytes and floats. */
TEST(photos_of_every_format_and_size_equal_simple_code)
{
    static const struct {
        uint32_t w, h, out_w, out_h;
    } sizes[] = {{1, 1, 1, 1},       {1, 1, 5, 7},         {3000, 2, 10, 10},  {2, 3000, 10, 10},
                 {700, 500, 31, 24}, {900, 3, 3, 3},       {17, 13, 224, 5},   {640, 480, 113, 85},
                 {64, 64, 64, 64},   {330, 330, 224, 224}, {6000, 4, 1000, 4}, {4, 600, 9, 100}};
    struct leat_field field = photo_field();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int format = PNG; format <= JPEG; format++)
            for (uint32_t channels = 1; channels <= (format == WEBP ? 1 : 3); channels += 2) {
                uint32_t w = sizes[i].w, h = sizes[i].h, out_w = sizes[i].out_w, out_h = sizes[i].out_h,
                         made = format == WEBP ? 3 : channels;
                uint8_t *pixels = malloc((size_t)w * h * 3), *want = malloc((size_t)out_w * out_h * 3);
                struct photo photo = make_photo((enum format)format, w, h, made, pixels);
                char chain[400];
                bool real = i % 2, nhwc = i % 3 == 0;
                snprintf(
                    chain, sizeof chain,
                    "{\"type\": \"Decode\", \"mode\": \"%s\"}, {\"type\": \"Resize\", \"size\": [%u, %u]}, {\"type\": "
                    "\"RandomHorizontalFlip\", \"p\": 1}%s, {\"type\": \"ToLayout\", \"layout\": \"%s\"}",
                    made == 1 ? "GRAY" : "RGB", out_h, out_w,
                    real ? ", {\"type\": \"Normalize\", \"mean\": [0.25], \"std\": [0.125]}" : "",
                    nhwc ? "NHWC" : "NCHW");
                struct leat_program *program = must_compile(&field, chain);
                void *out = apply_twice(
                    program, (struct leat_row){.data = photo.data, .length = photo.length, .scan_to_end = i & 1});
                reference_resize(pixels, w, h, made, want, out_w, out_h);
                for (uint32_t y = 0; y < out_h; y++)
                    for (uint32_t x = 0; x < out_w; x++)
                        for (uint32_t c = 0; c < made; c++) {
                            size_t at = nhwc ? ((size_t)y * out_w + x) * made + c : ((size_t)c * out_h + y) * out_w + x;
                            int v = want[((size_t)y * out_w + out_w - 1 - x) * made + c];
                            bool same = real ? ((float *)out)[at] == (float)((v / 255.0 - 0.25) / 0.125)
                                             : ((uint8_t *)out)[at] == v;
                            if (!same)
                                fail_msg("format %d, %u channels, %u x %u -> %u x %u: y %u, x %u, channel %u", format,
                                         made, w, h, out_w, out_h, y, x, c);
                        }
                leat_program_free(program);
                free(photo.data);
                free(pixels);
                free(want);
                free(out);
            }
}

/* As numpy.pad has it: the index in [0, n) that stands at `at`. */
static int64_t simple_index(int mode, int64_t at, int64_t n)
{
    while (at < 0 || at >= n) {
        if (mode == 0)
            at = at < 0 ? 0 : n - 1;
        else if (n == 1)
            at = 0;
        else
            at = at < 0 ? -at - (mode == 2) : 2 * n - 2 - at + (mode == 2);
    }
    return at;
}

TEST(padding_by_the_images_own_pixels_equals_simple_code)
{
    static const char *const modes[] = {"edge", "reflect", "symmetric"};
    static const struct {
        enum leat_dtype dtype;
        enum leat_layout layout;
        uint32_t channels, w, h;
    } kinds[] = {{LEAT_U8, LEAT_LAYOUT_HWC, 3, 9, 13},  {LEAT_U8, LEAT_LAYOUT_CHW, 3, 9, 13},
                 {LEAT_U8, LEAT_LAYOUT_HWC, 1, 1, 5},   {LEAT_U8, LEAT_LAYOUT_HWC, 5, 3, 2},
                 {LEAT_U8, LEAT_LAYOUT_HWC, 4, 40, 30}, {LEAT_F32, LEAT_LAYOUT_CHW, 2, 7, 2},
                 {LEAT_U8, LEAT_LAYOUT_NONE, 3, 37, 21}}; /* NONE: a PNG */
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int mode = 0; mode < 3; mode++)
            for (uint64_t key = 0; key < 12; key++) {
                uint32_t w = kinds[k].w, h = kinds[k].h, channels = kinds[k].channels;
                bool chw = kinds[k].layout == LEAT_LAYOUT_CHW, png = kinds[k].layout == LEAT_LAYOUT_NONE;
                struct leat_field field =
                    png ? photo_field()
                        : field_of("x", LEAT_KIND_ARRAY, kinds[k].dtype, kinds[k].layout, 3,
                                   chw ? (const int64_t[]){channels, h, w} : (const int64_t[]){h, w, channels});
                uint8_t *image = malloc((size_t)w * h * channels);
                struct photo photo = {NULL, 0};
                if (png)
                    photo = make_photo(PNG, w, h, channels, image);
                else
                    paint(image, w, h, channels, key);
                size_t n = (size_t)w * h * channels, size = leat_dtype_size(kinds[k].dtype);
                uint8_t *stored = malloc(n * size);
                for (size_t i = 0; i < n; i++) {
                    float f = image[i];
                    memcpy(stored + i * size, size == 4 ? (void *)&f : (void *)&image[i], size);
                }
                char chain[600], crop[200];
                snprintf(crop, sizeof crop,
                         "{\"size\": [%u, %u], \"padding\": [3, 5, 2, 1], \"pad_if_needed\": true, \"padding_mode\": "
                         "\"%s\"}",
                         h + 9, w + 4, modes[mode]);
                snprintf(chain, sizeof chain,
                         "%s{\"type\": \"RandomCrop\", %s, {\"type\": \"RandomHorizontalFlip\"}, {\"type\": "
                         "\"CenterCrop\", \"size\": [4, 5]}, "
                         "{\"type\": \"ToDtype\", \"dtype\": \"float64\", \"scale\": false}, {\"type\": \"ToLayout\", "
                         "\"layout\": \"NHWC\"}",
                         png ? "{\"type\": \"Decode\"}, " : "", crop + 1);
                struct leat_program *program = must_compile(&field, chain);
                struct leat_row row = {
                    .data = png ? photo.data : stored, .length = png ? photo.length : n * size, .key = key};
                double *out = apply_twice(program, row);
                struct leat_move box, flip;
                assert_int_equal(draw_of(&leat_op_random_crop, crop, "x/RandomCrop/0", key, w, h, &box), 0);
                assert_int_equal(draw_of(&leat_op_random_horizontal_flip, "{}", "x/RandomHorizontalFlip/0", key, w + 4,
                                         h + 9, &flip),
                                 0);
                int64_t left = leat_round_even((w + 4 - 5) / 2.0), top = leat_round_even((h + 9 - 4) / 2.0);
                for (int64_t y = 0; y < 4; y++)
                    for (int64_t x = 0; x < 5; x++)
                        for (uint32_t c = 0; c < channels; c++) {
                            int64_t in_crop = flip.flip ? (int64_t)w + 3 - (left + x) : left + x;
                            int64_t sx = simple_index(mode, box.x + in_crop, w),
                                    sy = simple_index(mode, box.y + top + y, h);
                            size_t at = chw ? (size_t)((c * h + sy) * w + sx) : (size_t)((sy * w + sx) * channels + c);
                            if (out[(y * 5 + x) * channels + c] != image[at])
                                fail_msg("kind %zu, %s, key %d: y %d, x %d, channel %u: %g, not %d", k, modes[mode],
                                         (int)key, (int)y, (int)x, c, out[(y * 5 + x) * channels + c], image[at]);
                        }
                leat_program_free(program);
                free(photo.data);
                free(image);
                free(stored);
                free(out);
            }
}

/* Bytes of an EXIF segment that says orientation 6: the stored image, turned clockwise, is the photo. */
static struct photo with_orientation_6(struct photo photo)
{
    static const uint8_t app1[] = {0xff, 0xe1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0,
                                   1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, 6,   0,   0,   0, 0, 0, 0, 0};
    struct photo turned = {malloc(photo.length + sizeof app1), photo.length + sizeof app1};
    memcpy(turned.data, photo.data, 2);
    memcpy(turned.data + 2, app1, sizeof app1);
    memcpy(turned.data + 2 + sizeof app1, photo.data + 2, photo.length - 2);
    return turned;
}

TEST(a_turned_photo_is_resized_as_it_is_seen)
{
    enum { W = 150, H = 90, OUT_W = 40, OUT_H = 70 };
    uint8_t *pixels = malloc(W * H * 3), *turned = malloc(W * H * 3), *want = malloc(OUT_W * OUT_H * 3);
    struct photo plain = make_photo(JPEG, W, H, 3, pixels), photo = with_orientation_6(plain);
    for (int y = 0; y < W; y++)
        for (int x = 0; x < H; x++)
            memcpy(turned + (y * H + x) * 3, pixels + ((H - 1 - x) * W + y) * 3, 3);
    reference_resize(turned, H, W, 3, want, OUT_W, OUT_H);
    struct leat_field field = photo_field();
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"Decode\", \"exif\": true}, {\"type\": \"Resize\", \"size\": [70, "
                             "40]}, {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}");
    for (int scan = 0; scan < 2; scan++) {
        uint8_t *out =
            apply_twice(program, (struct leat_row){.data = photo.data, .length = photo.length, .scan_to_end = scan});
        assert_memory_equal(out, want, OUT_W * OUT_H * 3);
        free(out);
    }
    leat_program_free(program);
    free(plain.data);
    free(photo.data);
    free(pixels);
    free(turned);
    free(want);
}

/* The crop needs the upper half; the lower one is cut off. */
TEST(damage_below_a_crop_is_found_only_when_scanning_to_the_end)
{
    uint8_t *pixels = malloc(200 * 400 * 3), out[32 * 32 * 3];
    struct photo photo = make_photo(JPEG, 200, 400, 3, pixels);
    struct leat_field field = photo_field();
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"Decode\"}, {\"type\": \"CenterCrop\", \"size\": 32}");
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (int scan = 0; scan < 2; scan++) {
        struct leat_row rows[2] = {{.data = photo.data, .length = photo.length * 3 / 4, .scan_to_end = scan},
                                   {.data = photo.data, .length = photo.length, .scan_to_end = scan}};
        struct leat_error error = {0};
        assert_int_equal(leat_program_apply(program, 0, scratch, rows, 1, out, &error), !scan);
        assert_int_equal(error.code, scan ? LEAT_E_DECODE : 0);
        assert_int_equal(leat_program_apply(program, 0, scratch, rows + 1, 1, out, &error),
                         1); /* the scratch goes on */
    }
    leat_scratch_free(scratch);
    leat_program_free(program);
    free(photo.data);
    free(pixels);
}

/* A side of 70000 would ask a resize for weights without bound, were it longer still. */
TEST(a_photo_with_a_side_beyond_65535_is_refused)
{
    uint8_t *pixels = malloc(70000), out[3 * 4];
    struct leat_field field = photo_field();
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"Decode\"}, {\"type\": \"Resize\", \"size\": [2, 2]}");
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (int tall = 0; tall < 2; tall++) {
        struct photo photo = make_photo(PNG, tall ? 1 : 70000, tall ? 70000 : 1, 1, pixels);
        struct leat_row row = {.data = photo.data, .length = photo.length};
        struct leat_error error = {0};
        struct leat_value_info info;
        assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, &error), 0);
        assert_int_equal(error.code, LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "65535 along a side"));
        assert_int_equal(leat_codec_photo.probe(photo.data, photo.length, &info, &error), LEAT_E_DECODE);
        free(photo.data);
    }
    leat_scratch_free(scratch);
    leat_program_free(program);
    free(pixels);
}

/* Its last axis is no axis of channels, whatever its length. */
TEST(arrays_of_three_axes_and_no_layout_are_converted_as_arrays)
{
    enum { N = 2 * 3 * 500 };
    static float values[N];
    static double want[N];
    for (int i = 0; i < N; i++)
        want[i] = (values[i] = (float)i / 7 - 100) * 2 + 1;
    static const enum leat_layout layouts[] = {LEAT_LAYOUT_NONE, LEAT_LAYOUT_HWC};
    for (int i = 0; i < 2; i++) { /* 500 channels are no image either */
        struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_F32, layouts[i], 3, (const int64_t[]){2, 3, 500});
        struct leat_program *program = must_compile(
            &field,
            "{\"type\": \"ToDtype\", \"dtype\": \"float64\"}, {\"type\": \"Normalize\", \"mean\": -0.5, \"std\": 0.5}");
        double *out = apply_twice(program, (struct leat_row){.data = values, .length = sizeof values});
        assert_memory_equal(out, want, sizeof want);
        free(out);
        leat_program_free(program);
    }
}

/* The index says how much room there is; the payload, which another hand may have written, how much it takes. */
TEST(a_fast_photo_that_is_not_what_its_index_says_is_not_delivered)
{
    uint8_t pixels[40 * 30 * 3], *fast;
    struct photo jpeg = make_photo(JPEG, 40, 30, 3, pixels);
    struct leat_decoder *checker = leat_decoder_new(&leat_codec_photo);
    struct leat_error error;
    size_t n;
    assert_ok(leat_codec_photo.pack(checker, LEAT_PHOTOS_FAST, false, jpeg.data, jpeg.length, &fast, &n, &error));
    const struct leat_field field = field_of("image", LEAT_KIND_IMAGE, LEAT_U8, 0, 0, NULL);
    struct leat_program *program;
    assert_ok(leat_program_compile(&field, 1, NULL, NULL, 0, false, &program, &error));
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row row = {
        .data = fast, .length = n, .info = {.form = LEAT_FORM_FAST, .original = (uint32_t)jpeg.length}};
    uint8_t *out = malloc(jpeg.length); /* no byte more, for AddressSanitizer */
    assert_ok(leat_program_apply_ragged(program, 0, scratch, &row, out, &error));
    assert_memory_equal(out, jpeg.data, jpeg.length);
    uint8_t *small = calloc(1, jpeg.length), *zeros = calloc(1, jpeg.length);
    for (int more = -1; more <= 1; more += 2) {
        row.info.original = (uint32_t)((int64_t)jpeg.length + more);
        assert_int_equal(leat_program_apply_ragged(program, 0, scratch, &row, small, &error), LEAT_E_DECODE);
        assert_non_null(strstr(error.message, "that its index says"));
        assert_memory_equal(small, zeros, jpeg.length);
    }
    row.info.original = (uint32_t)jpeg.length;
    row.length--; /* its parts no longer add up: the fault of the sample, so that on_error applies */
    assert_int_equal(leat_program_apply_ragged(program, 0, scratch, &row, small, &error), LEAT_E_DECODE);
    free(out);
    free(small);
    free(zeros);
    leat_scratch_free(scratch);
    leat_program_free(program);
    leat_decoder_free(checker);
    leat_free(fast);
    free(jpeg.data);
}

static uint64_t taken, most_taken;

static void *take(size_t bytes)
{
    void *p = malloc(bytes);
    taken += malloc_usable_size(p);
    most_taken = taken > most_taken ? taken : most_taken;
    return p;
}

static void give(void *p)
{
    taken -= p ? malloc_usable_size(p) : 0;
    free(p);
}

static void *change(void *old, size_t bytes)
{
    taken -= old ? malloc_usable_size(old) : 0;
    void *p = realloc(old, bytes);
    taken += malloc_usable_size(p);
    most_taken = taken > most_taken ? taken : most_taken;
    return p;
}

TEST(whole_images_between_operators_are_in_what_is_said_of_decoding)
{
    /* an image is above LEAT_KEEP_BYTES, which a thread keeps */
    enum { W = 1400, H = 1030, IMAGE = W * H * 3, ABOUT = 1 << 18 };
    static const struct {
        const char *chain;
        uint64_t least; /* of what is said */
    } cases[] = {
        {"{\"type\": \"GaussianBlur\", \"kernel_size\": 5}", 2 * IMAGE},
        {"{\"type\": \"GaussianBlur\", \"kernel_size\": [1, 101], \"sigma\": 20}", 2 * IMAGE + W * 3 * 100},
        {"{\"type\": \"ColorJitter\", \"contrast\": 0.5}", IMAGE},
        {"{\"type\": \"RandomRotation\", \"degrees\": [45, 45], \"expand\": true}", 2 * IMAGE + IMAGE / 2},
        {"{\"type\": \"Resize\", \"size\": [1400, 1400]}, {\"type\": \"GaussianBlur\", \"kernel_size\": 3}",
         2 * 1400 * 1400 * 3},
        {"{\"type\": \"CenterCrop\", \"size\": 400}, {\"type\": \"GaussianBlur\", \"kernel_size\": 3}", 0},
        /* colors stay in the buffer that they are in */
        {"{\"type\": \"Resize\", \"size\": [1400, 1400]}, {\"type\": \"Resize\", \"size\": [16, 16]}, {\"type\": "
         "\"ColorJitter\", \"contrast\": 0.5}, {\"type\": \"Resize\", \"size\": [20, 20]}, {\"type\": \"Resize\", "
         "\"size\": [1400, 1400]}",
         2 * 1400 * 1400 * 3},
        {"{\"type\": \"RandomZoomOut\", \"side_range\": [2, 2], \"p\": 1}, {\"type\": \"GaussianBlur\", "
         "\"kernel_size\": 3}, {\"type\": \"CenterCrop\", \"size\": 8}",
         4 * IMAGE},
    };
    const bool stored = *state != NULL;
    const int64_t shape[] = {H, W, 3};
    struct leat_field field = stored ? field_of("image", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, shape)
                                     : field_of("image", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    struct test_allocator usual = test_allocator;
    uint8_t *pixels = malloc(IMAGE), *jpeg, out[3 * 8 * 8];
    unsigned long length;
    paint(pixels, W, H, 3, 1);
    encode_jpeg(pixels, W, H, 3, &jpeg, &length);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char chain[400];
        struct leat_error error = {0};
        struct leat_row row = {.data = stored ? pixels : jpeg, .length = stored ? IMAGE : length, .key = 7};
        snprintf(chain, sizeof chain, "%s%s, {\"type\": \"Resize\", \"size\": [8, 8]}",
                 stored ? "" : "{\"type\": \"Decode\"}, ", cases[i].chain);
        struct leat_program *program = must_compile(&field, chain);
        const uint64_t said = leat_program_decode_bytes(program, 0, &row, 0);
        test_allocator = (struct test_allocator){take, change, give};
        taken = most_taken = 0;
        struct leat_scratch *scratch = leat_scratch_new(program);
        for (int turn = 0; turn < (test_full() ? 2 : 1); turn++) {
            assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, &error), 1);
            if (taken > leat_program_scratch_bytes(program) + ABOUT)
                fail_msg("%s: a thread keeps %llu bytes, of %llu", cases[i].chain, (unsigned long long)taken,
                         (unsigned long long)leat_program_scratch_bytes(program));
        }
        leat_scratch_free(scratch);
        test_allocator = usual;
        const bool asked = !stored || leat_program_output(program, 0)->grows; /* else a thread has it for all rows */
        if ((asked && said < cases[i].least / (stored ? 2 : 1)) || (!asked && said) ||
            most_taken > said + leat_program_scratch_bytes(program) + ABOUT)
            fail_msg("%s: %llu bytes, of %llu", cases[i].chain, (unsigned long long)most_taken,
                     (unsigned long long)said);
        leat_program_free(program);
    }
    free(pixels);
    free(jpeg);
}

int main(void)
{
    test_add((struct CMUnitTest){"... and of stored ones, whose size is drawn, too",
                                 whole_images_between_operators_are_in_what_is_said_of_decoding, NULL, NULL, "stored"});
    return test_run(NULL, NULL);
}
