/* Operators on residues and lists of any length: what they make, how long that is, and where its memory comes from. */
#include "../allocations.h"
#include "program_helpers.h"

static const int64_t any[] = {-1};

static struct leat_field residues(void)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_NONE, 1, any);
}

/* One row of a ragged output, in memory of the right length, so that a byte behind it is found. */
static void *make_row(const struct leat_program *program, const void *data, size_t length, uint64_t key, size_t *bytes)
{
    struct leat_scratch *scratch = leat_scratch_new(program);
    assert_non_null(scratch);
    const struct leat_row row = {.data = data, .length = length, .key = key};
    struct leat_error error = {0};
    *bytes = (size_t)leat_program_ragged_bytes(program, 0, length);
    void *made = malloc(*bytes ? *bytes : 1);
    assert_ok(leat_program_apply_ragged(program, 0, scratch, &row, made, &error));
    leat_scratch_free(scratch);
    return made;
}

static uint64_t key_of(uint64_t row_key, const char *instance)
{
    return leat_key_mix(row_key, leat_hash64(instance, strlen(instance)));
}

static void fill(uint8_t *letters, size_t n, const char *from)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = (uint8_t)from[leat_draw_below(n, i, strlen(from))];
}

TEST(a_strand_is_reversed_and_complemented_or_stays)
{
    static const char codes[] = "ACGTURYSWKMBDHVNacguryswkmbdhvn-*", others[] = "TGCAAYRSWMKVHDBNtgcayrswmkvhdbn-*";
    static uint8_t in[2000];
    struct leat_field field = residues();
    struct leat_program *program = must_compile(&field, "{\"type\": \"ReverseComplement\", \"p\": 0.5}");
    unsigned turned = 0;
    fill(in, sizeof in, codes);
    for (uint64_t key = 0; key < 40; key++) {
        size_t bytes, n = (size_t)(key % 2 ? leat_draw_below(1, key, sizeof in) : key);
        uint8_t *made = make_row(program, in, n, key, &bytes);
        assert_int_equal(bytes, n);
        const bool turns = leat_draw_unit(key_of(key, "x/ReverseComplement/0"), 0) < 0.5;
        turned += turns;
        for (size_t i = 0; i < n; i++)
            assert_int_equal(made[i], turns ? others[strchr(codes, in[n - 1 - i]) - codes] : in[i]);
        free(made);
    }
    assert_in_range(turned, 10, 30);
    leat_program_free(program);
}

TEST(a_slice_begins_at_each_place_and_a_short_list_stays_whole)
{
    const int64_t three[] = {7, 8, 9};
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_I64, LEAT_LAYOUT_NONE, 1, any);
    struct leat_program *program = must_compile(&field, "{\"type\": \"RandomSlice\", \"n\": 2}");
    size_t bytes;
    unsigned seen[2] = {0};
    for (uint64_t key = 0; key < 200; key++) {
        int64_t *made = make_row(program, three, sizeof three, key, &bytes);
        assert_int_equal(bytes, 2 * sizeof *made);
        const uint64_t at = leat_draw_below(key_of(key, "x/RandomSlice/0"), 0, 2);
        assert_memory_equal(made, three + at, bytes);
        seen[at]++;
        free(made);
    }
    assert_in_range(seen[0], 70, 130);
    for (size_t n = 0; n <= 2; n++) {
        int64_t *made = make_row(program, n ? three : NULL, n * sizeof *three, 5, &bytes);
        assert_int_equal(bytes, n * sizeof *three);
        assert_memory_equal(made, three, bytes);
        free(made);
    }
    leat_program_free(program);
}

TEST(letters_become_the_tokens_of_a_table_between_those_of_begin_and_end)
{
    static const char letters[] = "LAGVSERTIDPKQNFYMHWCXBUZO.-";
    static uint8_t in[3000];
    struct leat_field field = residues();
    struct leat_program *program = must_compile(&field, "{\"type\": \"Lookup\", \"table\": \"esm2\"}");
    fill(in, sizeof in, "LAGVSERTIDPKQNFYMHWCXBUZO.-Jl*");
    for (size_t n = 0; n < 1200; n += 1 + n / 2) {
        size_t bytes;
        int64_t *made = make_row(program, in, n, 0, &bytes);
        assert_int_equal(bytes, (n + 2) * sizeof *made);
        assert_int_equal(made[0], 0);
        assert_int_equal(made[n + 1], 2);
        for (size_t i = 0; i < n; i++) {
            const char *at = strchr(letters, in[i]);
            assert_int_equal(made[i + 1], at ? 4 + (at - letters) : 3);
        }
        free(made);
    }
    leat_program_free(program);
}

TEST(null_takes_a_token_from_a_table_that_has_it)
{
    const uint8_t in[] = "Lax";
    struct leat_field field = residues();
    struct leat_error error = {0};
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"Lookup\", \"table\": \"esm2\", \"bos\": null, \"eos\": 7, \"upper\": true, "
                             "\"unknown\": null}");
    size_t bytes;
    int64_t *made = make_row(program, in, 3, 0, &bytes);
    assert_int_equal(bytes, 4 * sizeof *made);
    assert_memory_equal(made, ((const int64_t[]){4, 5, 24, 7}), bytes);
    struct leat_scratch *scratch = leat_scratch_new(program);
    const struct leat_row row = {.data = "LAJA", .length = 4};
    int64_t room[5];
    assert_int_equal(leat_program_apply_ragged(program, 0, scratch, &row, room, &error), LEAT_E_OPERATOR);
    assert_non_null(strstr(error.message, "byte 74 ('J') at place 2 has no entry"));
    free(made);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(tokens_of_any_size_come_from_a_table)
{
    const uint8_t in[] = "abba";
    struct leat_field field = residues();
    struct leat_error error = {0};
    size_t bytes;
    struct leat_program *program = must_compile(
        &field, "{\"type\": \"Lookup\", \"table\": {\"a\": 255, \"b\": 9007199254740991}, \"bos\": 70000}");
    int64_t *made = make_row(program, in, 4, 0, &bytes);
    assert_int_equal(bytes, 5 * sizeof *made);
    assert_memory_equal(made, ((const int64_t[]){70000, 255, 9007199254740991, 9007199254740991, 255}), bytes);
    struct leat_scratch *scratch = leat_scratch_new(program);
    const struct leat_row row = {.data = "ab\1", .length = 3};
    int64_t room[4];
    assert_int_equal(leat_program_apply_ragged(program, 0, scratch, &row, room, &error), LEAT_E_OPERATOR);
    assert_non_null(strstr(error.message, "byte 1 at place 2 has no entry"));
    free(made);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(a_mask_of_the_loss_is_as_long_as_the_tokens)
{
    struct leat_field field = residues();
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"Lookup\", \"table\": \"nucleotide\", \"bos\": 2, \"eos\": 0, "
                             "\"loss_mask\": \"ACG\", \"part\": \"loss_mask\"}");
    assert_int_equal(leat_program_output(program, 0)->dtype, LEAT_BOOL);
    size_t bytes;
    uint8_t *made = make_row(program, "AcTgNG-", 7, 0, &bytes);
    assert_int_equal(bytes, 9);
    assert_memory_equal(made, ((const uint8_t[]){0, 1, 1, 0, 1, 0, 1, 0, 0}), bytes);
    free(made);
    leat_program_free(program);
}

#define CHAIN                                                                                                          \
    "{\"type\": \"RandomSlice\", \"n\": 60000}, {\"type\": \"ReverseComplement\", \"p\": 1}, "                         \
    "{\"type\": \"Lookup\", \"table\": \"nucleotide\", \"bos\": 2}, "                                                  \
    "{\"type\": \"MaskTokens\", \"mask_id\": 127, \"vocab_size\": 128, \"special_ids\": [2]}, "                        \
    "{\"type\": \"ToDtype\", \"dtype\": \"int32\"}"

/* Each operator alone, on what the one before made. */
TEST(a_chain_makes_of_a_long_list_what_its_operators_make_one_by_one)
{
    static const char *const chain[] = {
        "{\"type\": \"RandomSlice\", \"n\": 60000}", "{\"type\": \"ReverseComplement\", \"p\": 1}",
        "{\"type\": \"Lookup\", \"table\": \"nucleotide\", \"bos\": 2}",
        "{\"type\": \"MaskTokens\", \"mask_id\": 127, \"vocab_size\": 128, \"special_ids\": [2]}",
        "{\"type\": \"ToDtype\", \"dtype\": \"int32\"}"};
    enum { N = 100000 };
    uint8_t *in = malloc(N);
    fill(in, N, "ACGTN");
    struct leat_field field = residues(), tokens = field_of("x", LEAT_KIND_ARRAY, LEAT_I64, LEAT_LAYOUT_NONE, 1, any);
    struct leat_program *whole = must_compile(&field, CHAIN);
    for (size_t n = 100; n <= N; n *= 10) {
        size_t bytes = n, made_bytes, each;
        void *made = make_row(whole, in, n, 11, &made_bytes), *value = in;
        const struct leat_row row = {.data = in, .length = n};
        assert_int_equal(leat_program_decode_bytes(whole, 0, &row, 0) > 0, n == N); /* 60,001 tokens of 8 bytes */
        for (size_t k = 0; k < sizeof chain / sizeof *chain; k++, bytes = each) {
            struct leat_program *one = must_compile(k < 3 ? &field : &tokens, chain[k]);
            void *next = make_row(one, value, bytes, 11, &each);
            if (value != in)
                free(value);
            value = next;
            leat_program_free(one);
        }
        assert_int_equal(made_bytes, bytes);
        assert_memory_equal(made, value, bytes);
        free(made);
        free(value);
    }
    leat_program_free(whole);
    free(in);
}

TEST(tokens_and_labels_of_one_call_are_those_of_calls_of_their_own)
{
    static const char text[] =
        "{\"operators\": {\"s\": {\"type\": \"RandomSlice\", \"n\": 700}, \"l\": {\"type\": \"Lookup\", \"table\": "
        "\"esm2\"}, "
        "\"m\": {\"type\": \"MaskTokens\", \"mask_id\": 32, \"vocab_size\": 33, \"name\": \"m\"}, "
        "\"n\": {\"type\": \"MaskTokens\", \"mask_id\": 32, \"vocab_size\": 33, \"name\": \"m\", \"part\": "
        "\"labels\"}}, "
        "\"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [\"s\", \"l\", \"m\"]}, "
        "\"y\": {\"field\": \"x\", \"chain\": [\"s\", \"l\", \"n\"]}, \"z\": {\"field\": \"x\", \"chain\": [\"l\", "
        "\"n\"]}}}";
    enum { N = 900, MADE = 702 };
    struct leat_field field = residues();
    struct leat_program *program;
    struct leat_error error;
    uint8_t in[N];
    static int64_t alone[2][MADE], both[2][MADE];
    fill(in, N, "LAGVSERT");
    assert_ok(leat_program_compile(&field, 1, text, NULL, 0, false, &program, &error));
    assert_int_equal(leat_program_beside(program, 0), 1);
    assert_true(leat_program_is_beside(program, 1) && !leat_program_is_beside(program, 2)); /* z is of the whole list */
    struct leat_scratch *scratch = leat_scratch_new(program);
    const struct leat_row row = {.data = in, .length = N, .key = 9};
    for (size_t o = 0; o < 2; o++)
        assert_ok(leat_program_apply_ragged(program, o, scratch, &row, alone[o], &error));
    assert_ok(leat_program_apply_list(program, 0, scratch, &row, both[0], both[1], &error));
    assert_memory_equal(alone, both, sizeof both);
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST(rows_of_lists_are_padded_and_cut_to_one_length)
{
    struct leat_field field = residues();
    struct leat_error error = {0};
    int64_t made[6];
    for (int cut = 0; cut < 2; cut++) {
        char chain[256];
        snprintf(
            chain, sizeof chain,
            "{\"type\": \"Lookup\", \"table\": \"esm2\"}, {\"type\": \"PadTo\", \"n\": 6, \"fill\": 1, \"cut\": %s}",
            cut ? "true" : "false");
        struct leat_program *program = must_compile(&field, chain);
        assert_false(leat_program_output(program, 0)->ragged);
        must_apply(program, "LA", 2, 0, made);
        assert_memory_equal(made, ((const int64_t[]){0, 4, 5, 2, 1, 1}), sizeof made);
        must_apply(program, "LAGV", 4, 0, made);
        assert_memory_equal(made, ((const int64_t[]){0, 4, 5, 6, 7, 2}), sizeof made);
        struct leat_scratch *scratch = leat_scratch_new(program);
        const struct leat_row row = {.data = "LAGVLL", .length = 6};
        assert_int_equal(leat_program_apply(program, 0, scratch, &row, 1, made, &error), cut);
        if (cut)
            assert_memory_equal(made, ((const int64_t[]){0, 4, 5, 6, 7, 4}), sizeof made);
        else
            assert_int_equal(error.code, LEAT_E_DECODE);
        leat_scratch_free(scratch);
        leat_program_free(program);
    }
}

TEST(lists_of_fixed_length_stay_so)
{
    const int64_t four[] = {4};
    struct leat_field field = field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_NONE, 1, four);
    struct leat_program *program =
        must_compile(&field, "{\"type\": \"RandomSlice\", \"n\": 3}, {\"type\": \"ReverseComplement\"}, "
                             "{\"type\": \"Lookup\", \"table\": \"nucleotide\", \"eos\": 0}");
    const struct leat_output *output = leat_program_output(program, 0);
    assert_true(!output->ragged && output->ndim == 1 && output->shape[0] == 4);
    int64_t made[4];
    must_apply(program, "AAAA", 4, 0, made);
    assert_true((made[0] == 'A' || made[0] == 'T') && made[1] == made[0] && made[2] == made[0] && !made[3]);
    leat_program_free(program);
}

TEST(arguments_and_types_that_do_not_fit_are_refused)
{
    static const char *const wrong[] = {"{\"type\": \"RandomSlice\"}",
                                        "{\"type\": \"RandomSlice\", \"n\": 0}",
                                        "{\"type\": \"ReverseComplement\", \"p\": 2}",
                                        "{\"type\": \"Lookup\"}",
                                        "{\"type\": \"Lookup\", \"table\": \"esm3\"}",
                                        "{\"type\": \"Lookup\", \"table\": {}}",
                                        "{\"type\": \"Lookup\", \"table\": {\"AB\": 1}}",
                                        "{\"type\": \"Lookup\", \"table\": {\"\": 1}}",
                                        "{\"type\": \"Lookup\", \"table\": {\"A\": -1}}",
                                        "{\"type\": \"Lookup\", \"table\": {\"A\": 0.5}}",
                                        "{\"type\": \"Lookup\", \"table\": [1, 2]}",
                                        "{\"type\": \"Lookup\", \"table\": \"esm2\", \"bos\": -1}",
                                        "{\"type\": \"Lookup\", \"table\": \"esm2\", \"loss_mask\": 7}",
                                        "{\"type\": \"Lookup\", \"table\": \"esm2\", \"part\": \"loss_mask\"}"};
    struct leat_field field = residues(), wide = field_of("x", LEAT_KIND_ARRAY, LEAT_I32, LEAT_LAYOUT_NONE, 1, any);
    struct leat_program *program;
    struct leat_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(compile_chain(&field, wrong[i], &program, &error), LEAT_E_INVALID);
    static const char *const misfits[] = {"{\"type\": \"ReverseComplement\"}",
                                          "{\"type\": \"Lookup\", \"table\": \"esm2\"}"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(compile_chain(&wide, misfits[i], &program, &error), LEAT_E_TYPE);
        assert_non_null(strstr(error.message, "takes a list of residues"));
    }
}

TEST(memory_that_runs_out_for_a_long_row_is_an_error_of_that_row)
{
    enum { N = 60000 };
    static uint8_t in[N];
    static int32_t made[N + 1];
    struct leat_field field = residues();
    fill(in, N, "ACGT");
    struct leat_program *program = must_compile(&field, CHAIN);
    struct leat_scratch *scratch = leat_scratch_new(program);
    const struct leat_row row = {.data = in, .length = N, .key = 3};
    struct leat_error error = {0};
    fail_allocation(0);
    assert_int_equal(leat_program_apply_ragged(program, 0, scratch, &row, made, &error), LEAT_E_NOMEM);
    assert_true(allocation_failed());
    assert_ok(leat_program_apply_ragged(program, 0, scratch, &row, made, &error));
    leat_scratch_free(scratch);
    leat_program_free(program);
}

TEST_MAIN()
