/* Functions of the user's in a chain: what they get, where their results go, and what becomes of their failures. */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"

/* What the last call of `look` was given. */
static struct leat_native_call seen;
static struct leat_native_type seen_in, seen_out;
static double seen_numbers[4];
static char seen_text[64];

static int look(struct leat_native_call *call)
{
    seen = *call;
    seen_in = *call->in_type;
    seen_out = *call->out_type;
    memcpy(seen_numbers, call->numbers, call->n_numbers * sizeof *call->numbers);
    snprintf(seen_text, sizeof seen_text, "%s", call->text);
    for (uint64_t i = 0; i < call->out_type->bytes; i++)
        if (((uint8_t *)call->out)[i])
            return 99; /* not zeroes */
    memcpy(call->out, call->in,
           call->in_type->bytes < call->out_type->bytes ? call->in_type->bytes : call->out_type->bytes);
    return 0;
}

static int invert(struct leat_native_call *call)
{
    const uint8_t *in = call->in;
    uint8_t *out = call->out;
    for (uint64_t i = 0; i < call->in_type->bytes; i++)
        out[i] = (uint8_t)(255 - in[i]);
    return 0;
}

static int refuse_odd(struct leat_native_call *call)
{
    float first;
    memcpy(&first, call->in, sizeof first);
    memcpy(call->out, call->in, call->in_type->bytes);
    if ((int)first % 2 == 0)
        return 0;
    snprintf(call->message, call->message_room, "%g is odd", (double)first);
    return -5;
}

static int32_t add_one(const void *in, void *out, int64_t n_in, int64_t n_out, uint64_t key)
{
    if (n_in != n_out)
        return 1;
    for (int64_t i = 0; i < n_in; i++)
        ((float *)out)[i] = ((const float *)in)[i] + 1;
    return 0;
}

static int32_t count(const void *in, void *out, int64_t n_in, int64_t n_out, uint64_t key)
{
    *(int64_t *)out = n_in;
    return 0;
}

enum { LOOK, INVERT, REFUSE_ODD, ADD_ONE, COUNT };
static const struct leat_native functions[] = {
    {.call = look}, {.call = invert}, {.call = refuse_odd}, {.flat = add_one}, {.flat = count}};

/* A program of one output 'x' of the only field, with up to four operators named a, b, c, d. */
static int compile(const struct leat_field *field, const char *operators, const char *chain, struct leat_program **out,
                   struct leat_error *error)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"operators\": {%s}, \"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [%s]}}}",
             operators, chain);
    return leat_program_compile(field, 1, text, functions, sizeof functions / sizeof *functions, false, out, error);
}

static struct leat_program *must(const struct leat_field *field, const char *operators, const char *chain)
{
    struct leat_error error;
    struct leat_program *program;
    assert_ok(compile(field, operators, chain, &program, &error));
    return program;
}

static struct leat_field vector(int64_t n)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_NONE, 1, &n);
}

static struct leat_field pixels(enum leat_layout layout, int64_t a, int64_t b, int64_t c)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_U8, layout, 3, (const int64_t[]){a, b, c});
}

TEST(a_function_is_told_what_its_value_is)
{
    struct leat_field field = pixels(LEAT_LAYOUT_HWC, 4, 5, 3);
    struct leat_program *program = must(&field,
                                        "\"a\": {\"type\": \"Native\", \"function\": 0, \"numbers\": [0.5, -3], "
                                        "\"text\": \"[0.5,-3]\", \"name\": \"mine\"}",
                                        "\"a\"");
    uint8_t in[60], out[60];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)i;
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row row = {.data = in, .length = sizeof in, .key = 11, .sample = 77};
    assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, NULL), 1);
    assert_int_equal(seen.version, LEAT_NATIVE_VERSION);
    assert_int_equal(seen.size, sizeof seen);
    assert_int_equal(seen.sample, 77);
    assert_true(seen.key == leat_key_mix(11, leat_hash64("mine", 4)));
    assert_int_equal(seen.n_numbers, 2);
    assert_true(seen_numbers[0] == 0.5 && seen_numbers[1] == -3);
    assert_string_equal(seen_text, "[0.5,-3]");
    assert_int_equal(seen.text_bytes, 8);
    const int64_t shape[3] = {4, 5, 3}, strides[3] = {15, 3, 1};
    assert_int_equal(seen_in.dtype, LEAT_U8);
    assert_int_equal(seen_in.layout, LEAT_LAYOUT_HWC);
    assert_int_equal(seen_in.ndim, 3);
    assert_memory_equal(seen_in.shape, shape, sizeof shape);
    assert_memory_equal(seen_in.strides, strides, sizeof strides);
    assert_int_equal(seen_in.elements, 60);
    assert_int_equal(seen_in.bytes, 60);
    assert_memory_equal(&seen_in, &seen_out, sizeof seen_in);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

/* A mapping may fault: a function must not be abandoned in the middle. */
TEST(a_function_never_sees_the_memory_at_rest)
{
    struct leat_field field = vector(3);
    struct leat_program *program = must(&field, "\"a\": {\"type\": \"Native\", \"function\": 0}", "\"a\"");
    assert_true(leat_program_output(program, 0)->in_place);
    float in[3] = {1, 2, 3}, out[3];
    must_apply(program, in, sizeof in, 0, out);
    assert_memory_equal(in, out, sizeof in);
    assert_true(seen.in != (const void *)in && (uintptr_t)seen.in % 64 == 0);
    assert_ptr_equal(seen.out, out); /* the last step writes the row itself */
    leat_program_free(program);
}

TEST(functions_stand_anywhere_among_other_operators)
{
    struct leat_field field = vector(2000);
    struct leat_program *program = must(&field,
                                        "\"a\": {\"type\": \"Native\", \"function\": 3}, "
                                        "\"n\": {\"type\": \"Normalize\", \"mean\": 2, \"std\": 4}, "
                                        "\"d\": {\"type\": \"ToDtype\", \"dtype\": \"float64\"}",
                                        "\"n\", \"a\", \"a\", \"n\", \"a\", \"d\"");
    assert_int_equal(leat_program_output(program, 0)->dtype, LEAT_F64);
    float in[2000];
    double out[2000];
    for (int i = 0; i < 2000; i++)
        in[i] = (float)i;
    must_apply(program, in, sizeof in, 0, out);
    for (int i = 0; i < 2000; i++) {
        float v = (float)((in[i] - 2.0) / 4.0);
        v = (float)((v + 1 + 1 - 2.0) / 4.0);
        assert_true(out[i] == (double)(v + 1));
    }
    leat_program_free(program);
}

TEST(photos_come_as_hwc_and_leave_in_the_layout_that_the_chain_asks_for)
{
    enum { W = 37, H = 29 };
    static const char *const asks[] = {"NCHW", "NHWC", "channels_last"};
    uint8_t plain[W * H * 3], got[3][W * H * 3];
    unsigned char *jpeg;
    unsigned long length;
    paint(plain, W, H, 3, 1);
    encode_jpeg(plain, W, H, 3, &jpeg, &length);
    decode_jpeg_plain(jpeg, length, false, plain);
    struct leat_field field = field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    for (int i = 0; i < 3; i++) {
        char operators[512];
        snprintf(operators, sizeof operators,
                 "\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"CenterCrop\", \"size\": [%d, %d]}, "
                 "\"i\": {\"type\": \"Native\", \"function\": 1}, \"l\": {\"type\": \"ToLayout\", \"layout\": \"%s\"}",
                 H, W, asks[i]);
        struct leat_program *program =
            must(&field, operators, i ? "\"d\", \"c\", \"i\", \"l\"" : "\"d\", \"c\", \"l\", \"i\"");
        const struct leat_output *face = leat_program_output(program, 0);
        assert_true(face->decodes && !face->in_place);
        assert_int_equal(face->shape[i == 1 ? 2 : 0], 3);
        assert_int_equal(face->strides[0], i == 0 ? W * H : i == 1 ? W * 3 : 1);
        must_apply(program, jpeg, length, 0, got[i]);
        leat_program_free(program);
    }
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++) {
                int want = 255 - plain[(y * W + x) * 3 + c];
                assert_int_equal(got[0][(c * H + y) * W + x], want);
                assert_int_equal(got[1][(y * W + x) * 3 + c], want);
                assert_int_equal(got[2][(y * W + x) * 3 + c], want);
            }
    free(jpeg);
}

TEST(an_image_in_planes_stays_in_planes)
{
    struct leat_field field = pixels(LEAT_LAYOUT_CHW, 2, 6, 7);
    struct leat_program *program =
        must(&field,
             "\"c\": {\"type\": \"CenterCrop\", \"size\": [4, 5]}, \"a\": {\"type\": \"Native\", \"function\": 0}, "
             "\"l\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
             "\"c\", \"a\", \"l\"");
    uint8_t in[84], out[40];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)i;
    must_apply(program, in, sizeof in, 0, out);
    const int64_t shape[3] = {2, 4, 5};
    assert_int_equal(seen_in.layout, LEAT_LAYOUT_CHW);
    assert_memory_equal(seen_in.shape, shape, sizeof shape);
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 5; x++)
                assert_int_equal(out[(y * 5 + x) * 2 + c], in[c * 42 + (y + 1) * 7 + x + 1]);
    leat_program_free(program);
}

TEST(a_declared_result_goes_on_as_what_it_was_declared)
{
    struct leat_field field = vector(12);
    struct leat_program *program = must(&field,
                                        "\"a\": {\"type\": \"Native\", \"function\": 0, \"returns\": {\"dtype\": "
                                        "\"uint8\", \"shape\": [4, 4, 3], \"layout\": \"HWC\"}}, "
                                        "\"n\": {\"type\": \"Normalize\", \"mean\": [0, 0, 0], \"std\": [1, 1, 1]}",
                                        "\"a\", \"n\"");
    const struct leat_output *face = leat_program_output(program, 0);
    const int64_t shape[3] = {3, 4, 4};
    assert_memory_equal(face->shape, shape, sizeof shape);
    assert_int_equal(face->dtype, LEAT_F32);
    uint8_t in[48];
    float out[48];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(5 * i);
    must_apply(program, in, sizeof in, 0, out);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 16; i++)
            assert_true(out[c * 16 + i] == (float)(in[i * 3 + c] / 255.0));
    leat_program_free(program);
}

/* Larger than the blocks in which an image is turned. */
TEST(images_of_any_type_are_turned_into_the_layout_of_the_batch)
{
    enum { H = 20, W = 31, C = 5 };
    static const char *const types[] = {"uint8", "int16", "float32", "float64"};
    static const size_t sizes[] = {1, 2, 4, 8};
    static uint8_t in[H * W * C * 8], out[H * W * C * 8];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)leat_draw_u64(1, i);
    for (int t = 0; t < 8; t++) {
        size_t size = sizes[t / 2];
        struct leat_field field = field_of("x", LEAT_KIND_BYTES, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
        char operators[512];
        bool planes = t % 2;
        snprintf(
            operators, sizeof operators,
            "\"a\": {\"type\": \"Native\", \"function\": 0, \"returns\": {\"dtype\": \"%s\", \"shape\": [%d, %d, %d], "
            "\"layout\": \"%s\"}}, \"l\": {\"type\": \"ToLayout\", \"layout\": \"%s\"}",
            types[t / 2], planes ? C : H, planes ? H : W, planes ? W : C, planes ? "CHW" : "HWC",
            planes ? "NHWC" : "NCHW");
        struct leat_program *program = must(&field, operators, "\"a\", \"l\"");
        must_apply(program, in, H * W * C * size, 0, out);
        for (size_t p = 0; p < H * W; p++)
            for (size_t c = 0; c < C; c++) {
                size_t pixel = p * C + c, plane = c * H * W + p;
                assert_memory_equal(out + (planes ? pixel : plane) * size, in + (planes ? plane : pixel) * size, size);
            }
        leat_program_free(program);
    }
}

TEST(a_stored_value_of_any_length_can_become_one_of_fixed_shape)
{
    struct leat_field bytes = field_of("x", LEAT_KIND_BYTES, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    struct leat_field boxes = field_of("x", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_NONE, 2, (const int64_t[]){-1, 4});
    static const char counts[] = "\"a\": {\"type\": \"Native\", \"function\": 4, \"returns\": {\"dtype\": \"int64\"}}";
    float data[12] = {0};
    int64_t out = -1;
    struct leat_program *program = must(&bytes, counts, "\"a\"");
    const struct leat_output *face = leat_program_output(program, 0);
    assert_true(!face->ragged && !face->in_place && !face->decodes && face->ndim == 0);
    must_apply(program, data, 9, 0, &out);
    assert_int_equal(out, 9);
    must_apply(program, NULL, 0, 0, &out);
    assert_int_equal(out, 0);
    leat_program_free(program);
    program = must(&boxes, counts, "\"a\"");
    assert_true(!leat_program_output(program, 0)->ragged && !leat_program_output(program, 0)->in_place);
    must_apply(program, data, 48, 0, &out);
    assert_int_equal(out, 12);
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row cut = {.data = data, .length = 20};
    struct leat_error error;
    assert_int_equal(leat_program_apply(program, 0, scratch, &cut, 1, &out, &error), 0);
    assert_int_equal(error.code, LEAT_E_DECODE);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(a_failure_names_operator_and_output_and_the_next_rows_are_made)
{
    struct leat_field field = vector(1);
    struct leat_program *program =
        must(&field, "\"a\": {\"type\": \"Native\", \"function\": 2, \"source\": \"libodd.so:refuse\"}", "\"a\"");
    struct leat_scratch *scratch = leat_scratch_new(program);
    float values[4] = {2, 4, 7, 8}, out[4] = {0};
    struct leat_row rows[4];
    struct leat_error error;
    for (int i = 0; i < 4; i++)
        rows[i] = (struct leat_row){.data = &values[i], .length = 4};
    assert_int_equal(leat_program_apply(program, 0, scratch, rows, 4, out, &error), 2);
    assert_int_equal(error.code, LEAT_E_OPERATOR);
    assert_string_equal(error.message, "Native(libodd.so:refuse) in output 'x' failed with -5: 7 is odd");
    assert_int_equal(leat_program_apply(program, 0, scratch, rows + 3, 1, out + 3, &error), 1);
    assert_true(out[0] == 2 && out[1] == 4 && out[3] == 8);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(what_does_not_fit_is_said_when_the_program_is_compiled)
{
    static const struct {
        enum leat_kind kind;
        const char *operators, *chain;
        int code;
        const char *says;
    } cases[] = {
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": 5}", "\"a\"", LEAT_E_INVALID,
         "there is no function 5"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": -1}", "\"a\"", LEAT_E_INVALID, "index"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\"}", "\"a\"", LEAT_E_INVALID, "function must be"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": \"libc.so.6:abort\"}", "\"a\"", LEAT_E_INVALID,
         "text alone may not load"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": 0, \"numbers\": [\"1\"]}", "\"a\"",
         LEAT_E_INVALID, "numbers"},
        {LEAT_KIND_ARRAY,
         "\"a\": {\"type\": \"Native\", \"function\": 0, \"returns\": {\"dtype\": \"uint8\", \"shape\": [0]}}", "\"a\"",
         LEAT_E_INVALID, "returns"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": 0, \"returns\": {\"shape\": [1]}}", "\"a\"",
         LEAT_E_INVALID, "returns"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": 0, \"takes\": \"uint8\"}", "\"a\"", LEAT_E_TYPE,
         "takes uint8 values"},
        {LEAT_KIND_ARRAY, "\"a\": {\"type\": \"Native\", \"function\": 0, \"gives\": \"uint8\"}", "\"a\"", LEAT_E_TYPE,
         "declared as float32"},
        {LEAT_KIND_IMAGE, "\"a\": {\"type\": \"Native\", \"function\": 0}", "\"a\"", LEAT_E_TYPE,
         "put Decode() before it"},
        {LEAT_KIND_IMAGE, "\"d\": {\"type\": \"Decode\"}, \"a\": {\"type\": \"Native\", \"function\": 0}",
         "\"d\", \"a\"", LEAT_E_TYPE, "image of known size"},
    };
    const int64_t three = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_field field = vector(three);
        if (cases[i].kind == LEAT_KIND_IMAGE)
            field = field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
        struct leat_program *program;
        struct leat_error error;
        assert_int_equal(compile(&field, cases[i].operators, cases[i].chain, &program, &error), cases[i].code);
        assert_null(program);
        if (!strstr(error.message, cases[i].says))
            fail_msg("case %zu says: %s", i, error.message);
    }
}

TEST(a_table_entry_has_one_form)
{
    const struct leat_native wrong[] = {{NULL, NULL}, {.call = look, .flat = count}};
    struct leat_field field = vector(3);
    for (int i = 0; i < 2; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"operators\": {\"a\": {\"type\": \"Native\", \"function\": %d}}, \"outputs\": {\"x\": {\"field\": "
                 "\"x\", \"chain\": "
                 "[\"a\"]}}}",
                 i);
        struct leat_program *program;
        struct leat_error error;
        assert_int_equal(leat_program_compile(&field, 1, text, wrong, 2, false, &program, &error), LEAT_E_INVALID);
        assert_non_null(strstr(error.message, "one form"));
    }
}

static uint64_t hash_with(const char *arguments)
{
    struct leat_field field = vector(3);
    char operators[256];
    snprintf(operators, sizeof operators, "\"a\": {\"type\": \"Native\", %s}", arguments);
    struct leat_program *program = must(&field, operators, "\"a\"");
    uint64_t hash = leat_program_hash(program);
    leat_program_free(program);
    return hash;
}

TEST(the_hash_is_over_name_arguments_and_result_and_not_over_the_index)
{
    uint64_t hash = hash_with("\"function\": 0, \"source\": \"a.so:f\", \"text\": \"1\"");
    assert_true(hash == hash_with("\"function\": 1, \"source\": \"a.so:f\", \"text\": \"1\""));
    assert_true(hash != hash_with("\"function\": 0, \"source\": \"b.so:f\", \"text\": \"1\""));
    assert_true(hash != hash_with("\"function\": 0, \"source\": \"a.so:f\", \"text\": \"2\""));
    assert_true(hash != hash_with("\"function\": 0, \"source\": \"a.so:f\", \"text\": \"1\", \"returns\": {\"dtype\": "
                                  "\"int8\", \"shape\": [3]}"));
    assert_true(hash != hash_with("\"function\": 0, \"source\": \"a.so:f\", \"text\": \"1\", \"name\": \"second\""));
}

TEST(steps_are_measured_by_name)
{
    struct leat_field field = pixels(LEAT_LAYOUT_HWC, 4, 4, 3);
    struct leat_program *program = must(&field,
                                        "\"c\": {\"type\": \"CenterCrop\", \"size\": 2}, "
                                        "\"a\": {\"type\": \"Native\", \"function\": 1, \"source\": \"lib.so:invert\"}",
                                        "\"c\", \"a\"");
    struct leat_scratch *scratch = leat_scratch_new(program);
    uint8_t in[48] = {0}, out[12];
    struct leat_row row = {.data = in, .length = sizeof in};
    assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, NULL), 1);
    struct leat_step_time times[8];
    assert_int_equal(leat_scratch_times(scratch, times, 8), 3);
    static const char *const steps[] = {"CenterCrop", "Native(lib.so:invert)", "ToLayout"};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(times[i].step, steps[i]);
        assert_int_equal(times[i].rows, 1);
    }
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(rows_made_in_place_never_allocate)
{
    struct leat_field field = pixels(LEAT_LAYOUT_HWC, 64, 48, 3);
    struct leat_program *program =
        must(&field,
             "\"r\": {\"type\": \"RandomResizedCrop\", \"size\": 40}, \"a\": {\"type\": \"Native\", \"function\": 1}, "
             "\"p\": {\"type\": \"RandomCrop\", \"size\": 40, \"padding\": 3, \"padding_mode\": \"edge\"}",
             "\"r\", \"a\", \"p\"");
    struct leat_scratch *scratch = leat_scratch_new(program);
    uint8_t *in = calloc(64 * 48, 3), *out = malloc(40 * 40 * 3);
    uint64_t before = library_allocations();
    for (uint64_t key = 0; key < 50; key++) {
        struct leat_row row = {.data = in, .length = 64 * 48 * 3, .key = key};
        assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, out, NULL), 1);
    }
    assert_int_equal(library_allocations(), before);
    assert_int_equal(out[0], 255);
    free(in);
    free(out);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

static unsigned calls_left;
static struct test_allocator real_allocator;
static void *failing_allocate(size_t bytes)
{
    return calls_left && --calls_left ? real_allocator.allocate(bytes) : NULL;
}

TEST(memory_that_runs_out_is_an_error)
{
    struct leat_field field = pixels(LEAT_LAYOUT_HWC, 6, 6, 3);
    real_allocator = test_allocator;
    test_allocator.allocate = failing_allocate;
    unsigned failed = 0;
    for (unsigned n = 1;; n++) {
        struct leat_program *program;
        struct leat_error error;
        calls_left = n;
        int rc = compile(&field,
                         "\"c\": {\"type\": \"CenterCrop\", \"size\": 2}, "
                         "\"a\": {\"type\": \"Native\", \"function\": 0, \"numbers\": [1], \"text\": \"1\"}",
                         "\"c\", \"a\", \"c\"", &program, &error);
        struct leat_scratch *scratch = rc ? NULL : leat_scratch_new(program);
        bool done = calls_left > 0;
        if (rc)
            assert_int_equal(rc, LEAT_E_NOMEM);
        failed += !scratch;
        leat_scratch_free(scratch);
        leat_program_free(program);
        if (done)
            break;
        assert_null(scratch);
    }
    test_allocator = real_allocator;
    assert_true(failed > 10);
}

TEST_MAIN()
