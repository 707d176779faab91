/* Programs: what compiles, what a compiled program says of itself, and that its rows are what simple code makes. */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"

static struct leat_field photo_field(void)
{
    return field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
}

static struct leat_field raw_field(int64_t h, int64_t w, int64_t c)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){h, w, c});
}

#define TRAIN                                                                                                          \
    "{\"type\": \"Decode\"}, {\"type\": \"RandomResizedCrop\", \"size\": 96}, {\"type\": \"RandomHorizontalFlip\"}, "  \
    "{\"type\": \"Normalize\", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}"

static const double MEAN[3] = {0.485, 0.456, 0.406}, STD[3] = {0.229, 0.224, 0.225};

TEST(the_training_chain_equals_simple_code)
{
    enum { W = 233, H = 171, OUT = 96 };
    uint8_t *pixels = malloc(W * H * 3), *crop = malloc(W * H * 3), *small = malloc(OUT * OUT * 3);
    float *got = malloc(3 * OUT * OUT * sizeof(float));
    unsigned char *jpeg;
    unsigned long length;
    paint(pixels, W, H, 3, 1);
    encode_jpeg(pixels, W, H, 3, &jpeg, &length);
    decode_jpeg_plain(jpeg, length, false, pixels);
    struct leat_field field = photo_field();
    struct leat_program *program = must_compile(&field, TRAIN);
    for (uint64_t key = 0; key < 20; key++) {
        must_apply(program, jpeg, length, key, got);
        struct leat_move box, flip;
        assert_int_equal(
            draw_of(&leat_op_random_resized_crop, "{\"size\": 96}", "x/RandomResizedCrop/0", key, W, H, &box), 0);
        assert_int_equal(
            draw_of(&leat_op_random_horizontal_flip, "{}", "x/RandomHorizontalFlip/0", key, OUT, OUT, &flip), 0);
        for (int64_t y = 0; y < box.h; y++)
            memcpy(crop + y * box.w * 3, pixels + ((box.y + y) * W + box.x) * 3, (size_t)box.w * 3);
        reference_resize(crop, (size_t)box.w, (size_t)box.h, 3, small, OUT, OUT);
        for (int y = 0; y < OUT; y++)
            for (int x = 0; x < OUT; x++)
                for (int c = 0; c < 3; c++) {
                    int v = small[(y * OUT + (flip.flip ? OUT - 1 - x : x)) * 3 + c];
                    float want = (float)((v / 255.0 - MEAN[c]) / STD[c]), value = got[(c * OUT + y) * OUT + x];
                    if (value != want)
                        fail_msg("key %d, y %d, x %d, channel %d: %f, but simple code gives %f", (int)key, y, x, c,
                                 value, want);
                }
    }
    leat_program_free(program);
    free(pixels);
    free(crop);
    free(small);
    free(got);
    free(jpeg);
}

/* Crop after resize reads only what it needs of the photo; padding before a resize takes two passes. */
TEST(other_orders_of_operators_equal_simple_code)
{
    enum { W = 203, H = 155, PAD = 4 };
    static const char *const chains[] = {
        "{\"type\": \"Decode\"}, {\"type\": \"Resize\", \"size\": 64}, {\"type\": \"CenterCrop\", \"size\": 48}, "
        "{\"type\": \"ToDtype\", \"dtype\": \"float32\", \"scale\": true}, "
        "{\"type\": \"Normalize\", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}",
        "{\"type\": \"Decode\"}, {\"type\": \"CenterCrop\", \"size\": [163, 211]}, {\"type\": \"Resize\", \"size\": "
        "[48, 48]}, "
        "{\"type\": \"Normalize\", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}"};
    uint8_t *pixels = malloc(W * H * 3), *padded = calloc((W + 2 * PAD) * (H + 2 * PAD), 3),
            *small = malloc(83 * 64 * 3);
    float got[3 * 48 * 48];
    unsigned char *jpeg;
    unsigned long length;
    paint(pixels, W, H, 3, 5);
    encode_jpeg(pixels, W, H, 3, &jpeg, &length);
    decode_jpeg_plain(jpeg, length, false, pixels);
    for (int y = 0; y < H; y++)
        memcpy(padded + ((y + PAD) * (W + 2 * PAD) + PAD) * 3, pixels + y * W * 3, W * 3);
    struct leat_field field = photo_field();
    for (int i = 0; i < 2; i++) {
        struct leat_program *program = must_compile(&field, chains[i]);
        must_apply(program, jpeg, length, 1, got);
        int stride = i ? 48 : 83, left = i ? 0 : 18, top = i ? 0 : 8; /* 64 * 203 / 155 = 83; (83 - 48) / 2 to even */
        if (i)
            reference_resize(padded, W + 2 * PAD, H + 2 * PAD, 3, small, 48, 48);
        else
            reference_resize(pixels, W, H, 3, small, 83, 64);
        for (int y = 0; y < 48; y++)
            for (int x = 0; x < 48; x++)
                for (int c = 0; c < 3; c++) {
                    int v = small[((y + top) * stride + x + left) * 3 + c];
                    float want = (float)((v / 255.0 - MEAN[c]) / STD[c]);
                    if (got[(c * 48 + y) * 48 + x] != want)
                        fail_msg("chain %d, y %d, x %d, channel %d: %f, not %f", i, y, x, c, got[(c * 48 + y) * 48 + x],
                                 want);
                }
        leat_program_free(program);
    }
    free(pixels);
    free(padded);
    free(small);
    free(jpeg);
}

/* At 1/2 and smaller a photo is another one, but nearly the same where it is smooth. */
TEST(dct_scaling_gives_nearly_the_same_photo)
{
    enum { W = 800, H = 640, OUT = 96 };
    uint8_t *pixels = malloc(W * H * 3), a[3 * OUT * OUT], b[3 * OUT * OUT];
    for (int i = 0; i < W * H; i++) {
        double x = i % W, y = i / W;
        for (int c = 0; c < 3; c++)
            pixels[3 * i + c] = (uint8_t)(128 + 60 * sin(x / 60 + c) + 50 * cos(y / 50));
    }
    unsigned char *jpeg;
    unsigned long length;
    encode_jpeg(pixels, W, H, 3, &jpeg, &length);
    struct leat_field field = photo_field();
    struct leat_program *plain =
        must_compile(&field, "{\"type\": \"Decode\"}, {\"type\": \"RandomResizedCrop\", \"size\": 96}");
    struct leat_program *scaled = must_compile(
        &field, "{\"type\": \"Decode\", \"dct_scaling\": true}, {\"type\": \"RandomResizedCrop\", \"size\": 96}");
    assert_true(leat_program_hash(plain) != leat_program_hash(scaled));
    unsigned differ = 0;
    for (uint64_t key = 0; key < 12; key++) {
        must_apply(plain, jpeg, length, key, a);
        must_apply(scaled, jpeg, length, key, b);
        for (size_t i = 0; i < sizeof a; i++)
            if (abs(a[i] - b[i]) > 6)
                fail_msg("key %d, value %zu: %d and %d", (int)key, i, a[i], b[i]);
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differ > 0);
    leat_program_free(plain);
    leat_program_free(scaled);
    free(pixels);
    free(jpeg);
}

TEST(values_as_stored_keep_their_layout)
{
    struct leat_field fields[] = {raw_field(4, 5, 3), field_of("text", LEAT_KIND_STR, LEAT_U8, 0, 0, NULL),
                                  field_of("boxes", LEAT_KIND_ARRAY, LEAT_F32, 0, 2, (const int64_t[]){-1, 4}),
                                  field_of("name", LEAT_KIND_STR, LEAT_U8, 0, 0, NULL)};
    fields[3].flags = LEAT_FIELD_DERIVED;
    struct leat_error error;
    struct leat_program *program;
    assert_ok(leat_program_compile(fields, 4, NULL, NULL, 0, false, &program, &error));
    assert_int_equal(leat_program_outputs(program), 3);
    const struct leat_output *o = leat_program_output(program, 0);
    assert_true(o->in_place && !o->ragged && !o->keyed && !o->decodes);
    assert_int_equal(o->row_bytes, 60);
    assert_int_equal(o->shape[2], 3);
    o = leat_program_output(program, 1);
    assert_true(o->ragged && !o->in_place && o->kind == LEAT_KIND_STR && o->ndim == 1 && o->shape[0] == -1 &&
                o->row_bytes == 1);
    o = leat_program_output(program, 2);
    assert_true(o->ragged && !o->in_place && o->kind == LEAT_KIND_ARRAY && o->shape[1] == 4 && o->row_bytes == 16);
    assert_int_equal(leat_program_ragged_bytes(program, 2, 48), 48);
    float boxes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row row = {.data = boxes, .length = sizeof boxes};
    assert_ok(leat_program_apply_ragged(program, 2, scratch, &row, out, &error));
    assert_memory_equal(boxes, out, sizeof boxes);
    row.length = 31;
    assert_int_equal(leat_program_apply_ragged(program, 2, scratch, &row, out, &error), LEAT_E_DECODE);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(an_image_ends_in_nchw_unless_asked)
{
    struct leat_field field = raw_field(6, 5, 3);
    uint8_t pixels[90], out[90];
    paint(pixels, 5, 6, 3, 7);
    static const char *const chains[] = {"{\"type\": \"ToDtype\", \"dtype\": \"uint8\"}",
                                         "{\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
                                         "{\"type\": \"ToLayout\", \"layout\": \"channels_last\"}"};
    for (int i = 0; i < 3; i++) {
        struct leat_program *program = must_compile(&field, chains[i]);
        const struct leat_output *o = leat_program_output(program, 0);
        int64_t shapes[3][3] = {{3, 6, 5}, {6, 5, 3}, {3, 6, 5}}, strides[3][3] = {{30, 5, 1}, {15, 3, 1}, {1, 15, 3}};
        assert_memory_equal(o->shape, shapes[i], sizeof shapes[i]);
        assert_memory_equal(o->strides, strides[i], sizeof strides[i]);
        must_apply(program, pixels, 90, 0, out);
        for (int y = 0; y < 6; y++)
            for (int x = 0; x < 5; x++)
                for (int c = 0; c < 3; c++) {
                    int64_t at = i == 1 ? y * strides[i][0] + x * strides[i][1] + c * strides[i][2]
                                        : c * strides[i][0] + y * strides[i][1] + x * strides[i][2];
                    assert_int_equal(out[at], pixels[(y * 5 + x) * 3 + c]);
                }
        leat_program_free(program);
    }
}

/* Crops with padding, centre crops and flips in any order, against code that moves one pixel at a time. */
TEST(crops_pads_and_flips_equal_simple_code)
{
    enum { H = 13, W = 9 };
    static const struct {
        enum leat_dtype dtype;
        enum leat_layout layout;
        int channels;
    } kinds[] = {{LEAT_U8, LEAT_LAYOUT_HWC, 3}, {LEAT_U8, LEAT_LAYOUT_HWC, 1},  {LEAT_U8, LEAT_LAYOUT_CHW, 3},
                 {LEAT_U8, LEAT_LAYOUT_HWC, 4}, {LEAT_U16, LEAT_LAYOUT_HWC, 3}, {LEAT_F32, LEAT_LAYOUT_CHW, 2},
                 {LEAT_U8, LEAT_LAYOUT_HWC, 7}, {LEAT_U8, LEAT_LAYOUT_HWC, 2}};
    static const char *const layouts[] = {"NCHW", "NHWC"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int layout = 0; layout < 2; layout++)
            for (uint64_t key = 0; key < 12; key++) {
                int channels = kinds[k].channels;
                size_t size = leat_dtype_size(kinds[k].dtype);
                bool chw = kinds[k].layout == LEAT_LAYOUT_CHW;
                struct leat_field field =
                    field_of("x", LEAT_KIND_ARRAY, kinds[k].dtype, kinds[k].layout, 3,
                             chw ? (const int64_t[]){channels, H, W} : (const int64_t[]){H, W, channels});
                char chain[600];
                snprintf(chain, sizeof chain,
                         "{\"type\": \"RandomCrop\", \"size\": [10, 11], \"padding\": [1, 2], \"pad_if_needed\": true, "
                         "\"fill\": 9}, "
                         "{\"type\": \"RandomHorizontalFlip\"}, {\"type\": \"RandomCrop\", \"size\": 7}, "
                         "{\"type\": \"CenterCrop\", \"size\": [5, 10]}, {\"type\": \"ToLayout\", \"layout\": \"%s\"}",
                         layouts[layout]);
                struct leat_program *program = must_compile(&field, chain);
                assert_true(leat_program_output(program, 0)->keyed && leat_program_output(program, 0)->in_place);
                uint8_t image[H * W * 7 * 4], out[5 * 10 * 7 * 4];
                for (size_t i = 0; i < H * W * (size_t)channels; i++) {
                    float f = (float)(i * 37 % 251);
                    uint16_t u = (uint16_t)(i * 37 % 65521);
                    uint8_t b = (uint8_t)(i * 37 % 251);
                    memcpy(image + i * size, size == 4 ? (void *)&f : size == 2 ? (void *)&u : (void *)&b, size);
                }
                memset(out, 0xee, sizeof out);
                must_apply(program, image, H * W * (size_t)channels * size, key, out);
                struct leat_move first, flip, second;
                draw_of(&leat_op_random_crop, "{\"size\": [10, 11], \"padding\": [1, 2], \"pad_if_needed\": true}",
                        "x/RandomCrop/0", key, W, H, &first);
                draw_of(&leat_op_random_horizontal_flip, "{}", "x/RandomHorizontalFlip/0", key, 11, 10, &flip);
                draw_of(&leat_op_random_crop, "{\"size\": 7}", "x/RandomCrop/1", key, 11, 10, &second);
                for (int y = 0; y < 5; y++)
                    for (int x = 0; x < 10; x++)
                        for (int c = 0; c < channels; c++) {
                            double want = 0; /* the padding of CenterCrop: one column at the left, two at the right */
                            int64_t sx = x - 1, sy = y + 1;
                            if (sx >= 0 && sx < 7) {
                                sx += second.x, sy += second.y;
                                sx = (flip.flip ? 10 - sx : sx) + first.x, sy += first.y;
                                int64_t at = chw ? (c * H + sy) * W + sx : (sy * W + sx) * channels + c;
                                want = sx < 0 || sx >= W || sy < 0 || sy >= H
                                           ? 9
                                           : (double)(at * 37 % (size == 2 ? 65521 : 251));
                            }
                            const uint8_t *p =
                                out + size * (size_t)(layout ? (y * 10 + x) * channels + c : (c * 5 + y) * 10 + x);
                            float f;
                            uint16_t u;
                            memcpy(&f, p, size == 4 ? 4 : 0);
                            memcpy(&u, p, size == 2 ? 2 : 0);
                            double got = size == 4 ? (double)f : size == 2 ? u : *p;
                            if (got != want)
                                fail_msg("kind %d, layout %d, key %d, y %d x %d c %d: %g, not %g", (int)k, layout,
                                         (int)key, y, x, c, got, want);
                        }
                leat_program_free(program);
            }
}

TEST(errors_name_output_operator_and_what_fits)
{
    struct leat_field photo = photo_field(), bytes = field_of("x", LEAT_KIND_BYTES, LEAT_U8, 0, 0, NULL),
                      text = field_of("x", LEAT_KIND_STR, LEAT_U8, 0, 0, NULL), raw = raw_field(32, 32, 3),
                      ints = field_of("x", LEAT_KIND_ARRAY, LEAT_I32, 0, 1, (const int64_t[]){13});
    const struct {
        const struct leat_field *field;
        const char *chain;
        int code;
        const char *says;
    } cases[] = {
        {&bytes, "{\"type\": \"Normalize\", \"mean\": [0.5], \"std\": [0.5]}", LEAT_E_TYPE,
         "Normalize in output 'x' takes a uint8 image or a float array, but gets bytes: put Decode() before it"},
        {&photo, "{\"type\": \"Resize\", \"size\": 8}", LEAT_E_TYPE,
         "but gets an encoded photo: put Decode() before it"},
        {&text, "{\"type\": \"Decode\"}", LEAT_E_TYPE,
         "Decode in output 'x' takes an encoded photo, as the first operator of its chain, but gets text."},
        {&photo, "{\"type\": \"Decode\"}", LEAT_E_TYPE, "put Resize([height, width])"},
        {&photo, "{\"type\": \"Decode\"}, {\"type\": \"Resize\", \"size\": 8}", LEAT_E_TYPE, "open size"},
        {&photo, "{\"type\": \"Decode\"}, {\"type\": \"Decode\"}", LEAT_E_TYPE, "as the first operator"},
        {&raw, "{\"type\": \"RandomCrop\", \"size\": 33}", LEAT_E_TYPE, "pad_if_needed"},
        {&raw, "{\"type\": \"Normalize\", \"mean\": [127, 127, 127], \"std\": [1, 1, 1]}", LEAT_E_TYPE,
         "counts as 0 to 1"},
        {&raw, "{\"type\": \"Normalize\", \"mean\": [0.1, 0.2], \"std\": [1, 1]}", LEAT_E_TYPE,
         "as many channels as mean"},
        {&raw, "{\"type\": \"ToDtype\", \"dtype\": \"float32\"}, {\"type\": \"Resize\", \"size\": 8}", LEAT_E_TYPE,
         "before Normalize and ToDtype"},
        {&ints, "{\"type\": \"RandomHorizontalFlip\"}", LEAT_E_TYPE, "a int32 array [13]"},
        {&ints, "{\"type\": \"Normalize\", \"mean\": [0.1], \"std\": [1]}", LEAT_E_TYPE,
         "a uint8 image or a float array"},
        {&raw, "{\"type\": \"RandomCrop\", \"size\": 8, \"sizes\": 3}", LEAT_E_INVALID,
         "RandomCrop has no argument \"sizes\""},
        {&raw, "{\"type\": \"RandomCrop\"}", LEAT_E_INVALID, "RandomCrop: size must be given"},
        {&raw, "{\"type\": \"RandomCrop\", \"size\": 0}", LEAT_E_INVALID, "RandomCrop: size must be"},
        {&raw, "{\"type\": \"RandomCrop\", \"size\": 8, \"padding_mode\": \"wrap\"}", LEAT_E_INVALID,
         "one of \"constant\", \"edge\""},
        {&raw, "{\"type\": \"RandomHorizontalFlip\", \"p\": 1.5}", LEAT_E_INVALID, "between 0 and 1"},
        {&raw, "{\"type\": \"Rotate\"}", LEAT_E_INVALID, "unknown type, \"Rotate\""},
        {&raw, "{\"type\": \"ToDtype\", \"dtype\": \"float8\"}", LEAT_E_INVALID, "dtype must be"},
        {&raw, "{\"type\": \"Normalize\", \"mean\": [0.5], \"std\": [0]}", LEAT_E_INVALID, "std must be above 0"},
        {&raw, "{\"type\": \"Resize\", \"size\": 9, \"max_size\": 8}", LEAT_E_INVALID, "max_size must be above size"},
        {&raw, "{\"type\": \"ToLayout\", \"layout\": \"HWC\"}", LEAT_E_INVALID, "\"channels_last\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error = {0};
        struct leat_program *program;
        int rc = compile_chain(cases[i].field, cases[i].chain, &program, &error);
        if (rc != cases[i].code || !strstr(error.message, cases[i].says))
            fail_msg("case %d: %d: %s", (int)i, rc, error.message);
        assert_null(program);
    }
}

TEST(json_that_is_no_program_is_an_error)
{
    struct leat_field field = raw_field(8, 8, 3);
    static const struct {
        const char *json;
        int code;
    } cases[] = {
        {"", LEAT_E_INVALID},
        {"[]", LEAT_E_INVALID},
        {"{}", LEAT_E_INVALID},
        {"{\"outputs\": []}", LEAT_E_INVALID},
        {"{\"outputs\": {\"a\": 3}}", LEAT_E_INVALID},
        {"{\"outputs\": {\"a\": {\"field\": \"nothing\", \"chain\": []}}}", LEAT_E_NOT_FOUND},
        {"{\"outputs\": {\"a\": {\"field\": \"x\", \"chain\": [\"o\"]}}}", LEAT_E_INVALID},
        {"{\"outputs\": {\"a\": {\"field\": \"x\", \"chain\": [3]}}}", LEAT_E_INVALID},
        {"{\"operators\": 3, \"outputs\": {\"a\": {\"field\": \"x\", \"chain\": []}}}", LEAT_E_INVALID},
        {"{\"operators\": {\"o\": 3}, \"outputs\": {\"a\": {\"field\": \"x\", \"chain\": []}}}", LEAT_E_INVALID},
        {"{\"outputs\": {\"a\": {\"field\": \"x\", \"chain\": []}, \"a\": {\"field\": \"x\", \"chain\": []}}}",
         LEAT_E_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error = {0};
        struct leat_program *program;
        int rc = leat_program_compile(&field, 1, cases[i].json, NULL, 0, false, &program, &error);
        if (rc != cases[i].code)
            fail_msg("case %d: %d: %s", (int)i, rc, error.message);
    }
}

TEST(inserting_a_normalize_changes_no_crop_and_a_shared_operator_draws_once)
{
    struct leat_field field = raw_field(40, 40, 3);
    static const char *const texts[] = {
        "{\"operators\": {\"c\": {\"type\": \"RandomCrop\", \"size\": 8}}, \"outputs\": {\"b\": {\"field\": \"x\", "
        "\"chain\": [\"c\"]}, "
        "\"a\": {\"field\": \"x\", \"chain\": [\"c\"]}}}",
        "{\"operators\": {\"c\": {\"type\": \"RandomCrop\", \"size\": 8}, \"d\": {\"type\": \"ToDtype\", \"dtype\": "
        "\"uint8\"}}, "
        "\"outputs\": {\"b\": "
        "{\"field\": \"x\", \"chain\": [\"d\", \"c\"]}, \"a\": {\"field\": \"x\", \"chain\": [\"d\", \"c\"]}}}",
        "{\"operators\": {\"c\": {\"type\": \"RandomCrop\", \"size\": 8}, \"e\": {\"type\": \"RandomCrop\", \"size\": "
        "8}}, \"outputs\": "
        "{\"b\": "
        "{\"field\": \"x\", \"chain\": [\"c\"]}, \"a\": {\"field\": \"x\", \"chain\": [\"e\"]}}}"};
    uint8_t image[40 * 40 * 3], out[3][2][8 * 8 * 3];
    paint(image, 40, 40, 3, 3);
    uint64_t hashes[3];
    for (int t = 0; t < 3; t++) {
        struct leat_program *program;
        struct leat_error error;
        assert_ok(leat_program_compile(&field, 1, texts[t], NULL, 0, false, &program, &error));
        hashes[t] = leat_program_hash(program);
        assert_string_equal(leat_program_output(program, 0)->name, "b");
        struct leat_scratch *scratch = leat_scratch_new(program);
        struct leat_row row = {.data = image, .length = sizeof image, .key = 77};
        for (size_t o = 0; o < 2; o++)
            assert_int_equal(leat_program_apply(program, o, scratch, &row, 1, out[t][o], &error), 1);
        leat_scratch_free(scratch);
        leat_program_free(program);
    }
    assert_memory_equal(out[0][0], out[0][1], sizeof out[0][0]);
    assert_memory_equal(out[0][0], out[1][0], sizeof out[0][0]);
    assert_memory_equal(out[0][0], out[2][1], sizeof out[0][0]); /* 'a' comes first in the alphabet */
    assert_memory_not_equal(out[2][0], out[2][1], sizeof out[0][0]);
    assert_true(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
}

/* States carry the hash of their plan: those of programs that people have must stay. */
TEST(what_decode_is_told_hashes_as_it_always_did)
{
    static const struct {
        const char *arguments;
        uint64_t hash;
    } golden[] = {
        {"", UINT64_C(0x2c69e7d2ccc8e35b)},
        {", \"mode\": \"GRAY\", \"exif\": true", UINT64_C(0xea4b4b3b585f2391)},
        {", \"strict\": false", UINT64_C(0x2e366edd53b64c2d)},
        {", \"dtype\": \"uint16\"", UINT64_C(0x2084e4cc72dc0a43)},
        {", \"alpha\": \"blend\", \"background\": [1, 2, 3]", UINT64_C(0x40177a754e9adc1e)},
        {", \"frame\": 300, \"exif\": true, \"dct_scaling\": true", UINT64_C(0x0e4c6cf6c1f3ba53)},
        {", \"icc\": \"srgb\"", UINT64_C(0x4cc2b855d42c26c5)},
    };
    const struct leat_field field = field_of("image", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        char chain[200];
        struct leat_program *program;
        struct leat_error error;
        snprintf(chain, sizeof chain, "{\"type\": \"Decode\"%s}, {\"type\": \"CenterCrop\", \"size\": 8}",
                 golden[i].arguments);
        const int rc = compile_chain(&field, chain, &program, &error);
        if (rc == LEAT_E_UNSUPPORTED) /* no Little CMS on this machine */
            continue;
        assert_ok(rc);
        const uint64_t hash = leat_program_hash(program);
        leat_program_free(program);
        if (hash != golden[i].hash)
            fail_msg("Decode%s hashes to %016" PRIx64, golden[i].arguments, hash);
    }
}

TEST(steady_state_allocates_nothing)
{
    enum { W = 300, H = 200 };
    uint8_t *pixels = malloc(W * H * 3);
    float *out = malloc(3 * 96 * 96 * sizeof(float));
    unsigned char *jpeg;
    unsigned long length;
    paint(pixels, W, H, 3, 1);
    encode_jpeg(pixels, W, H, 3, &jpeg, &length);
    struct leat_field field = photo_field();
    struct leat_program *program = must_compile(&field, TRAIN);
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_error error;
    uint64_t before = 0;
    for (uint64_t key = 0; key < 200; key++) {
        if (key == 100)
            before = library_allocations();
        struct leat_row row = {.data = jpeg, .length = length, .key = key % 100};
        assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, &error), 1);
    }
    assert_int_equal(library_allocations(), before);
    struct leat_step_time times[8];
    assert_int_equal(leat_scratch_times(scratch, times, 8), 2);
    assert_string_equal(times[0].step, "Decode");
    assert_string_equal(times[1].step, "RandomResizedCrop+RandomHorizontalFlip+Normalize");
    assert_true(times[0].rows == 200 && times[0].ns > 0 && times[1].ns > 0);
    leat_scratch_free(scratch);
    leat_program_free(program);
    free(pixels);
    free(out);
    free(jpeg);
}

/* Outputs made in place run under leat_guarded: from the first row on, nothing may be allocated. */
TEST(rows_made_in_place_never_allocate)
{
    struct leat_field field = raw_field(64, 48, 3);
    static const char *const chains[] = {"{\"type\": \"RandomCrop\", \"size\": 40}, {\"type\": "
                                         "\"RandomHorizontalFlip\"}, {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
                                         "{\"type\": \"RandomResizedCrop\", \"size\": 32, \"scale\": [0.01, 1]}, "
                                         "{\"type\": \"ToDtype\", \"dtype\": \"float16\"}",
                                         "{\"type\": \"RandomHorizontalFlip\"}, {\"type\": \"Resize\", \"size\": 7}, "
                                         "{\"type\": \"RandomCrop\", \"size\": 9, \"padding\": "
                                         "3}, {\"type\": \"Resize\", \"size\": 50}",
                                         "{\"type\": \"ToDtype\", \"dtype\": \"float32\"}, {\"type\": \"RandomCrop\", "
                                         "\"size\": 50, \"padding\": 3}, {\"type\": "
                                         "\"Normalize\", \"mean\": [0.5], \"std\": [0.1]}"};
    uint8_t *image = malloc(64 * 48 * 3), *out = malloc(64 * 64 * 3 * 4);
    paint(image, 48, 64, 3, 3);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct leat_program *program = must_compile(&field, chains[i]);
        struct leat_scratch *scratch = leat_scratch_new(program);
        struct leat_error error;
        uint64_t before = library_allocations();
        for (uint64_t key = 0; key < 50; key++) {
            struct leat_row row = {.data = image, .length = 64 * 48 * 3, .key = key};
            assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, &error), 1);
        }
        assert_int_equal(library_allocations(), before);
        leat_scratch_free(scratch);
        leat_program_free(program);
    }
    free(image);
    free(out);
}

/* Images and arrays of bytes that stay in the order in which they lie, in rows that follow each other in memory and in
 * rows that do not. */
TEST(bytes_that_keep_their_order_equal_simple_code)
{
    enum { N = 5, H = 6, W = 7 };
    static const struct {
        const char *chain;
        enum leat_layout layout;
        unsigned channels;
    } cases[] = {
        {"{\"type\": \"Normalize\", \"mean\": [0.3], \"std\": [0.7]}", LEAT_LAYOUT_CHW, 1},
        {"{\"type\": \"Normalize\", \"mean\": [0.3, 0.4, 0.5], \"std\": [0.7, 0.6, 0.5]}", LEAT_LAYOUT_CHW, 3},
        {"{\"type\": \"Normalize\", \"mean\": [0.3, 0.4, 0.5], \"std\": [0.7, 0.6, 0.5]}, {\"type\": \"ToLayout\", "
         "\"layout\": \"NHWC\"}",
         LEAT_LAYOUT_HWC, 3},
        {"{\"type\": \"ToDtype\", \"dtype\": \"float32\", \"scale\": true}", LEAT_LAYOUT_NONE, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned channels = cases[i].channels;
        const bool planes = cases[i].layout == LEAT_LAYOUT_CHW, plain = cases[i].layout == LEAT_LAYOUT_NONE;
        const int64_t shape[] = {planes ? channels : H, planes ? H : W, planes ? W : channels};
        struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, cases[i].layout, 3, shape);
        const size_t each = (size_t)H * W * channels;
        uint8_t *pixels = malloc(2 * N * each);
        float *out = malloc(N * each * sizeof *out);
        paint(pixels, W, 2 * N * H, channels, i);
        struct leat_program *program = must_compile(&field, cases[i].chain);
        struct leat_scratch *scratch = leat_scratch_new(program);
        struct leat_error error;
        for (size_t apart = 1; apart <= 2; apart++) {
            struct leat_row rows[N] = {{0}};
            for (size_t r = 0; r < N; r++)
                rows[r] = (struct leat_row){.data = pixels + r * apart * each, .length = each, .key = r};
            assert_int_equal(leat_program_apply(program, 0, scratch, rows, N, out, &error), N);
            for (size_t k = 0; k < N * each; k++) {
                size_t channel = plain ? 0 : planes ? k % each / (H * W) : k % channels;
                double unit = pixels[k / each * apart * each + k % each] / 255.0;
                double wanted = plain ? unit : (unit - (0.3 + 0.1 * (double)channel)) / (0.7 - 0.1 * (double)channel);
                assert_true(fabs(out[k] - wanted) < 1e-6);
            }
        }
        leat_scratch_free(scratch);
        leat_program_free(program);
        free(pixels);
        free(out);
    }
}

TEST_MAIN()
