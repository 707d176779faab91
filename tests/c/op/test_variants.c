/* Sizes that are drawn per batch: which variant a key has, what the variants share, and what bad text gives. */
#include "program_helpers.h"

static struct leat_field image_field(void)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){64, 64, 3});
}

#define CROP(SIZE) "{\"type\": \"RandomCrop\", \"size\": " SIZE "}"

TEST(a_key_has_the_variant_of_its_draw)
{
    struct leat_field field = image_field();
    struct leat_program *program =
        must_compile(&field, CROP("{\"per_batch\": 0, \"sizes\": [8, [16, 20], 12], \"weights\": "
                                  "[1, 0, 3]}") ", {\"type\": \"RandomHorizontalFlip\"}");
    assert_true(leat_program_varies(program));
    assert_int_equal(leat_program_output(program, 0)->row_bytes, 16 * 20 * 3);
    unsigned counts[3] = {0};
    uint64_t instance = leat_hash64("x/RandomCrop/0", 14);
    uint8_t pixels[64 * 64 * 3], out[16 * 20 * 3], want[16 * 20 * 3];
    paint(pixels, 64, 64, 3, 1);
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (uint64_t key = 0; key < 4000; key++) {
        const struct leat_program *variant = leat_program_of_batch(program, 0, key);
        int64_t side = leat_program_output(variant, 0)->shape[1];
        unsigned which = leat_draw_unit(leat_key_mix(key, instance), 0) < 0.25 ? 0 : 2;
        assert_int_equal(side, which ? 12 : 8);
        counts[which]++;
        if (key % 100)
            continue;
        struct leat_program *fixed = must_compile(&field, which ? CROP("12") ", {\"type\": \"RandomHorizontalFlip\"}"
                                                                : CROP("8") ", {\"type\": \"RandomHorizontalFlip\"}");
        struct leat_row row = {.data = pixels, .length = sizeof pixels, .key = key + 7};
        assert_int_equal(leat_program_apply(variant, 0, scratch, &row, 1, out, NULL), 1); /* the root's scratch */
        must_apply(fixed, pixels, sizeof pixels, key + 7, want);
        assert_memory_equal(out, want, (size_t)(side * side * 3));
        leat_program_free(fixed);
    }
    assert_true(abs((int)counts[0] - 1000) < 120);
    leat_scratch_free(scratch);
    leat_program_free(program);
    program = must_compile(&field, CROP("12"));
    assert_true(!leat_program_varies(program) && leat_program_of_batch(program, 0, 5) == program);
    leat_program_free(program);
}

TEST(the_hash_is_over_sizes_weights_and_names)
{
    static const char *const sizes[] = {"{\"per_batch\": 0, \"sizes\": [8, 9]}",
                                        "{\"per_batch\": 0, \"sizes\": [9, 8]}",
                                        "{\"per_batch\": 0, \"sizes\": [8, 10]}",
                                        "{\"per_batch\": 0, \"sizes\": [8, 9], \"weights\": [1, 2]}",
                                        "{\"per_batch\": 0, \"sizes\": [8, 9], \"name\": \"size\"}",
                                        "9"};
    struct leat_field field = image_field();
    uint64_t hashes[6];
    for (int i = 0; i < 6; i++) {
        char chain[300];
        snprintf(chain, sizeof chain, CROP("%s"), sizes[i]);
        struct leat_program *program = must_compile(&field, chain);
        hashes[i] = leat_program_hash(program);
        for (int k = 0; k < i; k++)
            assert_true(hashes[k] != hashes[i]);
        leat_program_free(program);
    }
    struct leat_program *other = must_compile(&field, CROP("{\"per_batch\": 7, \"sizes\": [8, 9]}"));
    assert_true(leat_program_hash(other) == hashes[0]); /* a number only tells one from another */
    leat_program_free(other);
}

TEST(bad_sizes_are_refused)
{
    static const struct {
        const char *chain, *message;
    } cases[] = {
        {CROP("{\"per_batch\": 0}"), "needs \"sizes\", a list of 1 to 256 sizes"},
        {CROP("{\"per_batch\": 0, \"sizes\": []}"), "needs \"sizes\""},
        {CROP("{\"per_batch\": 0, \"sizes\": 8}"), "needs \"sizes\""},
        {CROP("{\"sizes\": [8]}"), "RandomCrop: size must be"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, \"a\"]}"), "RandomCrop: size must be"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, {\"per_batch\": 1, \"sizes\": [4]}]}"), "RandomCrop: size must be"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 100]}"), "an image no smaller than the crop"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 9], \"weights\": [1]}"), "as many \"weights\" as sizes"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 9], \"weights\": [0, 0]}"), "a weight above 0"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 9], \"weights\": [2, -1]}"), "numbers from 0"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 9], \"name\": 3}"), "a \"name\" that is text"},
        {CROP("{\"per_batch\": 0, \"sizes\": [8, 9]}") ", " CROP("{\"per_batch\": 0, \"sizes\": [8, 7]}"),
         "what the others of its number have"},
    };
    struct leat_field field = image_field();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_error error = {0};
        struct leat_program *program;
        assert_int_not_equal(compile_chain(&field, cases[i].chain, &program, &error), LEAT_OK);
        if (!strstr(error.message, cases[i].message))
            fail_msg("case %zu: %s", i, error.message);
    }
}

#define FLIP(P, MORE) "{\"type\": \"RandomHorizontalFlip\", \"p\": " P MORE "}"

TEST(operators_come_and_go_with_the_epoch_and_others_draw_as_they_would)
{
    struct leat_field field = image_field();
    struct leat_program *program = must_compile(
        &field, FLIP("1", ", \"epochs\": [0, 3]") ", " FLIP("0.5", "") ", " FLIP("1", ", \"epochs\": [5, null]"));
    struct leat_program *whole = must_compile(&field, FLIP("1", "") ", " FLIP("0.5", ""));
    assert_true(!leat_program_varies(program));
    uint8_t pixels[64 * 64 * 3], made[7][64 * 64 * 3], want[64 * 64 * 3];
    paint(pixels, 64, 64, 3, 1);
    struct leat_scratch *scratch = leat_scratch_new(program);
    for (uint64_t key = 0; key < 40; key++) {
        struct leat_row row = {.data = pixels, .length = sizeof pixels, .key = key};
        for (uint64_t epoch = 0; epoch < 7; epoch++)
            assert_int_equal(
                leat_program_apply(leat_program_of_batch(program, epoch, key), 0, scratch, &row, 1, made[epoch], NULL),
                1);
        must_apply(whole, pixels, sizeof pixels, key, want);
        for (uint64_t epoch = 0; epoch < 7; epoch++) /* mirrored once more up to epoch 2, and from 5 on */
            assert_int_equal(memcmp(made[epoch], want, sizeof want) == 0, epoch < 3 || epoch >= 5);
        assert_memory_equal(made[3], made[4], sizeof want);
    }
    leat_scratch_free(scratch);
    leat_program_free(whole);
    leat_program_free(program);
    struct leat_error error = {0};
    assert_int_equal(compile_chain(&field, FLIP("1", ", \"epochs\": [3, 3]"), &program, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "[first, end]"));
    assert_int_equal(compile_chain(&field, "{\"type\": \"ToDtype\", \"dtype\": \"float32\", \"epochs\": [3, null]}",
                                   &program, &error),
                     LEAT_E_TYPE);
    assert_non_null(strstr(error.message, "of another type or shape in some epochs"));
    assert_int_equal(compile_chain(&field,
                                   "{\"type\": \"Resize\", \"size\": [4, 8], \"epochs\": [0, 1]}, {\"type\": "
                                   "\"Resize\", \"size\": [8, 4], \"epochs\": [1, null]}",
                                   &program, &error),
                     LEAT_E_TYPE); /* as many bytes */
    assert_non_null(strstr(error.message, "of another type or shape in some epochs"));
}

TEST_MAIN()
