/* Chains outside of a loader: that they give what a program gives, and images of open size. */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"

#define ONE(operators, ids)                                                                                            \
    "{\"operators\": {" operators "}, \"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [" ids "]}}}"

static struct leat_chain *open_chain(const struct leat_field *field, const char *program)
{
    struct leat_chain *chain;
    struct leat_error error;
    assert_ok(leat_chain_open(field, program, NULL, 0, &chain, &error));
    return chain;
}

static struct leat_field image_field(void)
{
    return field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
}

TEST(a_chain_gives_what_a_program_gives)
{
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){20, 30, 3});
    struct leat_program *program = must_compile(&field, "{\"type\": \"RandomResizedCrop\", \"size\": [8, 9]}, "
                                                        "{\"type\": \"Normalize\", \"mean\": [0.5], \"std\": [0.2]}");
    struct leat_chain *chain =
        open_chain(&field, ONE("\"a\": {\"type\": \"RandomResizedCrop\", \"size\": [8, 9]}, "
                               "\"b\": {\"type\": \"Normalize\", \"mean\": [0.5], \"std\": [0.2]}",
                               "\"a\", \"b\""));
    struct leat_chain_result r;
    leat_chain_describe(chain, &r);
    assert_int_equal(r.dtype, LEAT_F32);
    assert_int_equal(r.layout, LEAT_LAYOUT_CHW);
    assert_false(r.open);
    assert_int_equal(r.ndim, 3);
    assert_int_equal(r.shape[0], 3);
    assert_int_equal(r.shape[2], 9);
    assert_int_equal(r.strides[1], 9);
    static uint8_t pixels[20 * 30 * 3];
    paint(pixels, 30, 20, 3, 5);
    for (uint64_t key = 0; key < 20; key++) {
        float wanted[3 * 8 * 9];
        struct leat_value value;
        struct leat_error error;
        must_apply(program, pixels, sizeof pixels, key, wanted);
        assert_ok(leat_chain_apply(chain, pixels, sizeof pixels, key, LEAT_NO_SAMPLE, &value, &error));
        assert_int_equal(value.length, sizeof wanted);
        assert_memory_equal(value.data, wanted, sizeof wanted);
        leat_value_clear(&value);
    }
    leat_chain_free(chain);
    leat_program_free(program);
}

TEST(an_image_says_how_large_it_is_and_what_its_targets_drew)
{
    const int64_t open[] = {-1, -1, 3}, known[] = {20, 30, 3};
    struct leat_field any = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, open),
                      one = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, known);
    static uint8_t pixels[20 * 30 * 3];
    struct leat_chain_result r;
    struct leat_value value, wanted;
    struct leat_error error;
    paint(pixels, 30, 20, 3, 5);
    const char *const programs[] = {
        ONE("\"a\": {\"type\": \"RandomCrop\", \"size\": [8, 9]}", "\"a\""),
        ONE("\"a\": {\"type\": \"RandomHorizontalFlip\"}, \"b\": {\"type\": \"ToDtype\", \"dtype\": \"float32\"}",
            "\"a\", \"b\""),
        ONE("\"a\": {\"type\": \"RandomInvert\", \"p\": 1}", "\"a\""),
        ONE("\"a\": {\"type\": \"ToDtype\", \"dtype\": \"float32\"}", "\"a\"")};
    for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
        struct leat_chain *a = open_chain(&any, programs[k]), *b = open_chain(&one, programs[k]);
        for (uint64_t key = 0; key < 20; key++) {
            assert_ok(leat_chain_apply_image(a, pixels, sizeof pixels, 20, 30, NULL, 0, key, 1, &value, &error));
            assert_ok(leat_chain_apply(b, pixels, sizeof pixels, key, 1, &wanted, &error));
            assert_int_equal(value.length, wanted.length);
            assert_memory_equal(value.shape, wanted.shape, 3 * sizeof *value.shape);
            assert_memory_equal(value.data, wanted.data, value.length);
            leat_value_clear(&value);
            leat_value_clear(&wanted);
        }
        assert_int_equal(leat_chain_apply_image(a, pixels, sizeof pixels, 20, 31, NULL, 0, 1, 1, &value, &error),
                         LEAT_E_INVALID);
        assert_int_equal(leat_chain_apply_image(a, pixels, 19 * 30 * 3 + 1, 19, 30, NULL, 0, 1, 1, &value, &error),
                         LEAT_E_INVALID);
        assert_int_equal(leat_chain_apply_image(a, pixels, sizeof pixels, 0, 0, NULL, 0, 1, 1, &value, &error),
                         LEAT_E_INVALID);
        assert_int_equal(leat_chain_apply_image(a, pixels, sizeof pixels, 20, 30, "m", 1, 1, 1, &value, &error),
                         LEAT_E_INVALID);
        leat_chain_free(a);
        leat_chain_free(b);
    }
    struct leat_chain *aimed = open_chain(&any, ONE("\"a\": {\"type\": \"RandomIoUCrop\"}", "\"a\""));
    leat_chain_describe(aimed, &r);
    assert_true(r.moves && r.open);
    assert_int_equal(leat_chain_apply(aimed, pixels, sizeof pixels, 1, 1, &value, &error), LEAT_E_INVALID);
    assert_ok(leat_chain_apply_image(aimed, pixels, sizeof pixels, 20, 30, NULL, 0, 1, 1, &value, &error));
    assert_true(value.length <= sizeof pixels);
    leat_value_clear(&value);
    leat_chain_free(aimed);
}

TEST(several_images_of_one_are_those_of_a_program)
{
    const int64_t shape[] = {20, 30, 3};
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, shape);
    struct leat_chain *five = open_chain(&field, ONE("\"a\": {\"type\": \"FiveCrop\", \"size\": [8, 9]}", "\"a\"")),
                      *crop = open_chain(&field, ONE("\"a\": {\"type\": \"CenterCrop\", \"size\": [8, 9]}", "\"a\""));
    static uint8_t pixels[20 * 30 * 3];
    struct leat_value value, middle;
    struct leat_error error;
    paint(pixels, 30, 20, 3, 5);
    assert_ok(leat_chain_apply(five, pixels, sizeof pixels, 1, 1, &value, &error));
    assert_ok(leat_chain_apply(crop, pixels, sizeof pixels, 1, 1, &middle, &error));
    assert_int_equal(value.length, 5 * middle.length);
    assert_memory_equal((const uint8_t *)value.data + 4 * middle.length, middle.data, middle.length);
    leat_value_clear(&value);
    leat_value_clear(&middle);
    leat_chain_free(five);
    leat_chain_free(crop);
}

TEST(a_chain_may_end_in_images_of_open_size)
{
    struct leat_field field = image_field();
    struct leat_chain *rows = open_chain(
                          &field,
                          ONE("\"a\": {\"type\": \"Decode\"}, \"b\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
                              "\"a\", \"b\"")),
                      *planes = open_chain(&field, ONE("\"a\": {\"type\": \"Decode\"}", "\"a\""));
    struct leat_chain_result r;
    leat_chain_describe(rows, &r);
    assert_true(r.open);
    assert_int_equal(r.layout, LEAT_LAYOUT_HWC);
    assert_int_equal(r.shape[0], -1);
    assert_int_equal(r.shape[2], 3);
    struct leat_chain *last =
        open_chain(&field, ONE("\"a\": {\"type\": \"Decode\"}, \"b\": {\"type\": \"ToLayout\", \"layout\": "
                               "\"channels_last\"}",
                               "\"a\", \"b\""));
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t w = 20 + 7 * i, h = 40 - 5 * i;
        uint8_t *pixels = malloc((size_t)w * h * 3), *wanted = malloc((size_t)w * h * 3);
        unsigned char *jpeg;
        unsigned long length;
        struct leat_value value;
        struct leat_error error;
        paint(pixels, w, h, 3, i);
        encode_jpeg(pixels, w, h, 3, &jpeg, &length);
        decode_jpeg_plain(jpeg, length, false, wanted);
        assert_ok(leat_chain_apply(rows, jpeg, length, 0, 7, &value, &error));
        assert_int_equal(value.shape[0], h);
        assert_int_equal(value.shape[1], w);
        assert_int_equal(value.length, (size_t)w * h * 3);
        assert_memory_equal(value.data, wanted, value.length);
        leat_value_clear(&value);
        assert_ok(leat_chain_apply(planes, jpeg, length, 0, 7, &value, &error));
        assert_int_equal(value.shape[0], 3);
        assert_int_equal(value.shape[1], h);
        for (size_t p = 0; p < (size_t)w * h; p++)
            assert_int_equal(((const uint8_t *)value.data)[w * h + p], wanted[3 * p + 1]);
        leat_value_clear(&value);
        assert_ok(leat_chain_apply(last, jpeg, length, 0, 7, &value, &error));
        assert_int_equal(value.shape[2], 3);
        assert_memory_equal(value.data, wanted, value.length);
        leat_value_clear(&value);
        assert_int_equal(leat_chain_apply(rows, jpeg, length / 2, 0, 7, &value, &error), LEAT_E_DECODE);
        assert_null(value.owned);
        free(jpeg);
        free(pixels);
        free(wanted);
    }
    leat_chain_free(rows);
    leat_chain_free(last);
    leat_chain_free(planes);
}

TEST(a_loader_s_program_still_refuses_images_of_open_size)
{
    struct leat_field field = image_field();
    struct leat_program *program;
    struct leat_error error;
    assert_int_equal(compile_chain(&field, "{\"type\": \"Decode\"}", &program, &error), LEAT_E_TYPE);
    assert_non_null(strstr(error.message, "open size"));
}

TEST(values_of_any_length_and_of_a_wrong_one)
{
    struct leat_field open = field_of("x", LEAT_KIND_ARRAY, LEAT_I32, LEAT_LAYOUT_NONE, 2, (const int64_t[]){-1, 2});
    struct leat_field fixed = field_of("x", LEAT_KIND_ARRAY, LEAT_I32, LEAT_LAYOUT_NONE, 1, (const int64_t[]){4});
    const char *text = ONE("\"a\": {\"type\": \"ToDtype\", \"dtype\": \"float64\"}", "\"a\"");
    struct leat_chain *ragged = open_chain(&open, text), *dense = open_chain(&fixed, text);
    const int32_t numbers[] = {1, -2, 3, -4, 5, 6};
    struct leat_value value;
    struct leat_error error;
    for (size_t n = 0; n <= 3; n++) {
        assert_ok(leat_chain_apply(ragged, numbers, n * 8, 0, LEAT_NO_SAMPLE, &value, &error));
        assert_int_equal(value.shape[0], n);
        for (size_t i = 0; i < 2 * n; i++)
            assert_true(((const double *)value.data)[i] == numbers[i]);
        leat_value_clear(&value);
    }
    assert_int_equal(leat_chain_apply(ragged, numbers, 9, 0, LEAT_NO_SAMPLE, &value, &error), LEAT_E_DECODE);
    assert_int_equal(leat_chain_apply(dense, numbers, 24, 0, LEAT_NO_SAMPLE, &value, &error), LEAT_E_INVALID);
    assert_int_equal(leat_chain_apply(dense, numbers, 15, 0, LEAT_NO_SAMPLE, &value, NULL), LEAT_E_INVALID);
    assert_ok(leat_chain_apply(dense, numbers, 16, 0, LEAT_NO_SAMPLE, &value, &error));
    assert_true(((const double *)value.data)[3] == -4);
    leat_value_clear(&value);
    leat_chain_free(ragged);
    leat_chain_free(dense);
}

TEST(what_cannot_be_a_chain_says_why)
{
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_I32, LEAT_LAYOUT_NONE, 0, NULL);
    struct leat_chain *chain;
    struct leat_error error;
    const char *two =
        "{\"outputs\": {\"x\": {\"field\": \"x\", \"chain\": []}, \"y\": {\"field\": \"x\", \"chain\": []}}}";
    assert_int_equal(leat_chain_open(&field, two, NULL, 0, &chain, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "one output"));
    assert_null(chain);
    assert_int_equal(leat_chain_open(&field, ONE("\"a\": {\"type\": \"Decode\"}", "\"a\""), NULL, 0, &chain, &error),
                     LEAT_E_TYPE);
    leat_chain_free(NULL);
}

TEST(when_any_one_allocation_fails_an_error_says_so)
{
    struct leat_field field = image_field();
    struct leat_error error;
    static uint8_t pixels[40 * 30 * 3];
    unsigned char *jpeg;
    unsigned long length;
    int failed = 0, rc = LEAT_E_NOMEM;
    paint(pixels, 40, 30, 3, 1);
    encode_jpeg(pixels, 40, 30, 3, &jpeg, &length);
    for (int64_t n = 0; rc; n++, failed += rc != 0) {
        struct leat_chain *chain;
        struct leat_value value = {0};
        fail_allocation(n);
        rc = leat_chain_open(
            &field, ONE("\"a\": {\"type\": \"Decode\"}, \"b\": {\"type\": \"Resize\", \"size\": 20}", "\"a\", \"b\""),
            NULL, 0, &chain, &error);
        assert_true(!rc == !!chain);
        if (!rc)
            rc = leat_chain_apply(chain, jpeg, length, 0, LEAT_NO_SAMPLE, &value, &error);
        allocation_failed();
        assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
        assert_true(!rc == !!value.owned);
        leat_value_clear(&value);
        leat_chain_free(chain);
        assert_true(n < 1000);
    }
    assert_true(failed > 5);
    free(jpeg);
}

TEST_MAIN()
