/* A program that only looks like another one: what the batches of a port are read by. */
#include "base/alloc.h"
#include "program_helpers.h"

static const struct leat_field fields[] = {
    {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
    {.name = "mask", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8, .role = LEAT_ROLE_MASK},
    {.name = "planes",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_U8,
     .layout = LEAT_LAYOUT_HWC,
     .ndim = 3,
     .shape = {11, 9, 3}},
    {.name = "row", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {13}},
    {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    {.name = "boxes",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_F32,
     .ndim = 2,
     .shape = {-1, 4},
     .role = LEAT_ROLE_BOXES_XYXY},
    {.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
    {.name = "blob", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8},
};

static struct leat_program *compiled(const char *json)
{
    struct leat_program *program;
    struct leat_error error;
    assert_ok(leat_program_compile(fields, sizeof fields / sizeof *fields, json, NULL, 0, LEAT_OPEN_STACKS, &program,
                                   &error));
    return program;
}

static void assert_same_face(const struct leat_output *a, const struct leat_output *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->ragged, b->ragged);
    assert_int_equal(a->bounded, b->bounded);
    assert_int_equal(a->open, b->open);
    assert_int_equal(a->instances, b->instances);
    assert_int_equal(a->sizes, b->sizes);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->ndim, b->ndim);
    for (unsigned d = 0; d < a->ndim; d++) {
        assert_int_equal(a->shape[d], b->shape[d]);
        assert_int_equal(a->strides[d], b->strides[d]);
    }
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->axes, b->axes);
    assert_int_equal(a->row_bytes, b->row_bytes);
}

static void assert_round_trip(const char *json, size_t n)
{
    struct leat_program *program = compiled(json), *seen;
    struct leat_error error = {0};
    char *text = leat_program_faces(program);
    assert_non_null(text);
    if (getenv("SHOW"))
        puts(text);
    assert_ok(leat_program_of_faces(text, &seen, &error));
    assert_int_equal(leat_program_outputs(program), n);
    assert_int_equal(leat_program_outputs(seen), n);
    for (size_t o = 0; o < n; o++) {
        const struct leat_output *a = leat_program_output(program, o), *b = leat_program_output(seen, o);
        assert_same_face(a, b);
        if (a->open) /* the sizes of its images are those of the same output */
            assert_int_equal(leat_program_chain(program, a->chain)->sizes, leat_program_chain(seen, b->chain)->sizes);
    }
    char *again = leat_program_faces(seen);
    assert_string_equal(again, text);
    leat_free(again);
    leat_free(text);
    leat_program_free(seen);
    leat_program_free(program);
}

TEST(fields_as_stored_look_the_same)
{
    assert_round_trip(NULL, sizeof fields / sizeof *fields);
}

TEST(chains_look_the_same)
{
    assert_round_trip("{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}, \"c\": {\"type\": "
                      "\"RandomResizedCrop\", \"size\": [24, 32]}, \"l\": {\"type\": \"ToLayout\", \"layout\": "
                      "\"channels_last\"}}, \"outputs\": {\"a\": {\"field\": \"image\", \"chain\": [\"d\", \"c\"]}, "
                      "\"b\": {\"field\": \"image\", \"chain\": [\"d\", \"c\", \"l\"]}, \"row\": {\"field\": \"row\", "
                      "\"chain\": []}}}",
                      3);
}

TEST(tuples_with_targets_and_a_geometry_look_the_same)
{
    assert_round_trip("{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}, \"c\": {\"type\": "
                      "\"RandomResizedCrop\", \"size\": [24, 32]}}, \"outputs\": {\"image\": {\"fields\": [\"image\", "
                      "\"mask\", \"boxes\", \"label\"], \"chain\": [\"d\", \"c\"], \"geometry\": true}}}",
                      5);
}

TEST(images_of_open_size_look_the_same)
{
    assert_round_trip("{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}}, \"outputs\": {\"label\": "
                      "{\"field\": \"label\", \"chain\": []}, \"image\": {\"field\": \"image\", \"chain\": [\"d\"], "
                      "\"stack\": \"list\"}}}",
                      3);
    assert_round_trip("{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}}, \"outputs\": {\"image\": "
                      "{\"fields\": [\"image\", \"mask\", \"boxes\"], \"chain\": [\"d\"], \"stack\": \"pad\"}}}",
                      4);
}

TEST(results_of_functions_look_the_same_and_hidden_outputs_stay_hidden)
{
    assert_round_trip("{\"operators\": {}, \"outputs\": {\"row\": {\"field\": \"row\", \"chain\": [], \"calls\": "
                      "[{\"segment\": 1, \"kind\": 1, \"dtype\": \"float32\", \"shape\": [3, 8]}]}}}",
                      2);
}

TEST(a_program_without_outputs_looks_so)
{
    struct leat_program *seen;
    struct leat_error error;
    assert_ok(leat_program_of_faces("[]", &seen, &error));
    assert_int_equal(leat_program_outputs(seen), 0);
    leat_program_free(seen);
}

/* An array (kind 1) of float32 (dtype 11). */
#define REST "\"channels\": 0, \"axes\": 0, \"sizes_of\": 0"

TEST(what_describes_no_output_is_refused)
{
    static const char good[] =
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [2], \"strides\": [1], \"row_bytes\": 8, " REST "}]";
    static const char *const bad[] = {
        "",
        "{}",
        "1",
        "[1]",
        "[[]]",
        "[{}]",
        "[",
        "[{\"name\": \"x\"}]",
        /* sizes that its values do not have */
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [2], \"strides\": [1], \"row_bytes\": 7, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [3], \"strides\": [1], \"row_bytes\": 8, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [-2], \"strides\": [1], \"row_bytes\": 8, " REST
        "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [2], \"strides\": [2], \"row_bytes\": 8, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [2], \"strides\": [-1], \"row_bytes\": 8, " REST
        "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [2], \"strides\": [9223372036854775807], "
        "\"row_bytes\": 8, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [4294967296, 4294967296], \"strides\": [1, 1], "
        "\"row_bytes\": 0, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [], \"strides\": [], \"row_bytes\": 8, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [-1, 4], \"strides\": [4, 1], \"row_bytes\": 8, "
        "\"ragged\": true, " REST "}]",
        /* no kind, no type, too many dimensions */
        "[{\"name\": \"x\", \"kind\": 99, \"dtype\": 11, \"shape\": [2], \"strides\": [1], \"row_bytes\": 8, " REST
        "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 99, \"shape\": [2], \"strides\": [1], \"row_bytes\": 8, " REST "}]",
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], \"strides\": "
        "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], \"row_bytes\": 4, " REST "}]",
        /* images of open size whose sizes are nowhere */
        "[{\"name\": \"x\", \"kind\": 1, \"dtype\": 11, \"shape\": [-1], \"strides\": [1], \"row_bytes\": 4, "
        "\"ragged\": "
        "true, \"open\": true, " REST "}]",
    };
    struct leat_program *seen;
    struct leat_error error;
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        const char *text = i ? bad[i - 1] : good;
        const int rc = leat_program_of_faces(text, &seen, &error);
        if (!rc)
            leat_program_free(seen);
        if (rc != (i ? LEAT_E_FORMAT : LEAT_OK))
            fail_msg("%s: %s", text, leat_status_name(rc));
    }
}

TEST_MAIN()
