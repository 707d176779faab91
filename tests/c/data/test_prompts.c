/* Prompts of a data set in groups: read in place, as a data set, and what is refused. */
#include "../allocations.h"
#include "../folder.h"
#include "data/dataset.h"
#include "leat/prompts.h"
#include "leat/windows.h"

enum { N = 300, SHARED = 200, OWN = 9, MOST_TOKENS = SHARED + OWN };

static char path[PATH_MAX + 16];
static int32_t tokens[N * MOST_TOKENS];
static int64_t offsets[N + 1];
static struct leat_dataset *arrays;

static const struct leat_field fields[] = {
    {.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 1, .shape = {-1}},
    {.name = "number", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
};

/* Prompt i has the beginning of i % 7, and its own tokens. */
static int set_up(void **state)
{
    struct leat_error error;
    struct leat_writer *writer;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    files_folder(folder);
    snprintf(path, sizeof path, "%s/prompts.leat", folder);
    assert_ok(leat_writer_open(path, fields, 2, &options, &writer, &error));
    for (int64_t i = 0; i < N; i++) {
        const int64_t n = SHARED + i % OWN;
        offsets[i + 1] = offsets[i] + n;
        for (int64_t k = 0; k < n; k++)
            tokens[offsets[i] + k] = (int32_t)(k < SHARED ? i % 7 * 1000 + k : i * 31 + k);
        assert_ok(leat_writer_add(writer,
                                  (struct leat_value_ref[]){{.data = &tokens[offsets[i]], .length = 4 * (uint64_t)n},
                                                            {.data = &i, .length = 8}},
                                  NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    const struct leat_array array = {.data = tokens, .offsets = offsets, .offset_bytes = 8};
    assert_ok(leat_dataset_from_arrays(fields, &array, 1, N, NULL, NULL, NULL, &arrays, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(arrays);
    return remove_folder(state);
}

static struct leat_prompts *group(struct leat_dataset *d, uint64_t block)
{
    const struct leat_prompts_options options = {.field = "tokens", .block = block};
    struct leat_prompts *p;
    struct leat_error error;
    assert_ok(leat_prompts_group(d, &options, &p, &error));
    return p;
}

static int64_t number_at(const struct leat_dataset *d, uint64_t position, size_t field)
{
    struct leat_error error;
    struct leat_value value;
    assert_ok(leat_dataset_read(d, position, field, &value, &error));
    const int64_t number = *(const int64_t *)value.data;
    leat_value_clear(&value);
    return number;
}

TEST(groups_of_a_file_are_those_of_memory_and_have_the_fields_of_both)
{
    struct leat_error error;
    struct leat_dataset *file, *d;
    assert_ok(leat_dataset_open(path, NULL, &file, &error));
    struct leat_prompts *p = group(file, 1), *q = group(arrays, 1);
    uint64_t n, n_groups, other;
    const uint32_t *order = leat_prompts_order(p, &n);
    const struct leat_prompts_group *groups = leat_prompts_groups(p, &n_groups);
    assert_int_equal(n, N);
    assert_int_equal(n_groups, 7);
    assert_memory_equal(order, leat_prompts_order(q, &other), N * sizeof *order);
    assert_ok(leat_prompts_dataset(p, &d, &error));
    leat_prompts_release(p);
    leat_dataset_release(file);
    for (uint64_t g = 0, i = 0; g < n_groups; g++) {
        assert_int_equal(groups[g].prefix, SHARED);
        for (; i < groups[g].first + groups[g].count; i++) {
            struct leat_value value;
            assert_int_equal(number_at(d, i, 1), order[i]);
            assert_int_equal(order[i] % 7, g);
            assert_int_equal(number_at(d, i, 2), g);
            assert_int_equal(number_at(d, i, 3), SHARED);
            assert_ok(leat_dataset_read(d, i, 0, &value, &error));
            assert_memory_equal(value.data, &tokens[offsets[order[i]]], value.length);
            leat_value_clear(&value);
        }
    }
    leat_dataset_release(d);
    leat_prompts_release(q);
}

TEST(prompts_of_a_view_and_of_parts_of_values_are_those_that_it_has)
{
    struct leat_error error;
    struct leat_dataset *view, *parts;
    int64_t positions[N / 3];
    for (int64_t i = 0; i < N / 3; i++)
        positions[i] = N - 1 - 3 * i;
    assert_ok(leat_dataset_select(arrays, positions, N / 3, &view, &error));
    struct leat_prompts *p = group(view, 16);
    uint64_t n;
    const uint32_t *order = leat_prompts_order(p, &n);
    for (uint64_t i = 1; i < n; i++)
        assert_true(positions[order[i - 1]] % 7 <= positions[order[i]] % 7);
    assert_int_equal(leat_prompts_groups(p, &n)[0].prefix, SHARED / 16 * 16);
    leat_prompts_release(p);
    leat_dataset_release(view);
    assert_ok(leat_dataset_windows(arrays, "tokens", 50, 50, LEAT_WINDOWS_SHORT, &parts, &error));
    p = group(parts, 1);
    assert_true(leat_prompts_tokens(p)->grouped < leat_prompts_tokens(p)->all / 4);
    assert_int_equal(leat_prompts_tokens(p)->all, offsets[N]);
    leat_prompts_release(p);
    leat_dataset_release(parts);
}

TEST(the_fingerprint_follows_from_what_was_grouped_and_how)
{
    struct leat_error error;
    uint8_t prints[4][16];
    static uint32_t decode[N];
    for (int i = 0; i < 4; i++) {
        const struct leat_prompts_options options = {.field = "tokens",
                                                     .block = i == 1 ? 2 : 1,
                                                     .seed = i == 2,
                                                     .decode = i == 3 ? decode : NULL,
                                                     .n_decode = N};
        struct leat_prompts *p;
        struct leat_dataset *d;
        assert_ok(leat_prompts_group(arrays, &options, &p, &error));
        assert_ok(leat_prompts_dataset(p, &d, &error));
        leat_dataset_fingerprint(d, prints[i]);
        leat_dataset_release(d);
        leat_prompts_release(p);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(prints[i], prints[k], 16);
    }
}

static int stop_at(void *user, uint64_t done, uint64_t total)
{
    assert_int_equal(total, 2 * N);
    return done >= *(const uint64_t *)user;
}

TEST(what_cannot_be_grouped_is_refused_and_work_is_stopped)
{
    struct leat_error error;
    struct leat_prompts *p;
    static uint32_t decode[N];
    uint64_t at;
    const struct leat_prompts_options wrong[] = {
        {.field = "prompt", .block = 1},
        {.field = "number", .block = 1},
        {.field = "tokens", .block = 0},
        {.field = "tokens", .block = 1, .decode = decode, .n_decode = N - 1},
        {.field = "tokens", .block = 1, .progress = stop_at, .user = &at},
        {.field = "tokens", .block = 1, .progress = stop_at, .user = &at},
    };
    static const int codes[] = {LEAT_E_NOT_FOUND, LEAT_E_TYPE,      LEAT_E_INVALID,
                                LEAT_E_INVALID,   LEAT_E_CANCELLED, LEAT_E_CANCELLED};
    struct leat_dataset *d;
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        at = i == 4 ? 0 : N + 1; /* while they are read; when they are sorted */
        assert_int_equal(leat_prompts_group(d, &wrong[i], &p, &error), codes[i]);
        assert_null(p);
    }
    leat_dataset_release(d);
    p = group(arrays, 1);
    struct leat_dataset *once, *twice;
    assert_ok(leat_prompts_dataset(p, &once, &error));
    leat_prompts_release(p);
    p = group(once, 1);
    assert_int_equal(leat_prompts_dataset(p, &twice, &error), LEAT_E_INVALID);
    leat_prompts_release(p);
    leat_dataset_release(once);
}

TEST(a_damaged_prompt_is_named)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_prompts *p;
    const struct leat_prompts_options options = {.field = "tokens", .block = 1};
    FILE *f = fopen(path, "r+b");
    uint8_t bytes[4 * SHARED];
    long at = 0;
    assert_non_null(f);
    for (; fread(bytes, 1, sizeof bytes, f) == sizeof bytes; fseek(f, ++at, SEEK_SET))
        if (!memcmp(bytes, &tokens[offsets[5]], sizeof bytes))
            break;
    bytes[7] ^= 1;
    fseek(f, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    fflush(f);
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    assert_int_equal(leat_prompts_group(d, &options, &p, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.sample, 5);
    assert_non_null(strstr(error.file, "prompts.leat"));
    leat_dataset_release(d);
    bytes[7] ^= 1;
    fseek(f, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
}

TEST(what_a_cache_saves_rises_with_its_size_to_all_that_is_shared)
{
    struct leat_error error;
    struct leat_prompts_saved small, large;
    struct leat_prompts *p = group(arrays, 1);
    assert_ok(leat_prompts_simulate(p, 2 * MOST_TOKENS, 1, &small, &error));
    assert_ok(leat_prompts_simulate(p, UINT64_C(1) << 40, 1, &large, &error));
    const struct leat_prompts_tokens *t = leat_prompts_tokens(p);
    assert_int_equal(large.lying, t->all - t->least);
    assert_int_equal(large.sorted, large.lying);
    assert_int_equal(large.grouped, large.lying);
    assert_int_equal(small.sorted, large.sorted);
    assert_true(small.lying < small.sorted / 10);
    assert_int_equal(leat_prompts_simulate(p, 1, 0, &small, &error), LEAT_E_INVALID);
    leat_prompts_release(p);
}

static int use(struct leat_error *error)
{
    const struct leat_prompts_options options = {.field = "tokens", .block = 1};
    struct leat_dataset *d = NULL, *grouped = NULL, *parts = NULL;
    struct leat_prompts *p = NULL, *q = NULL;
    struct leat_prompts_saved saved;
    struct leat_value value = {0};
    int rc = leat_dataset_open(path, NULL, &d, error);
    rc = rc ? rc : leat_prompts_group(d, &options, &p, error);
    rc = rc ? rc : leat_prompts_dataset(p, &grouped, error);
    for (size_t f = 0; f < 4 && !rc; f++) {
        rc = leat_dataset_read(grouped, 20, f, &value, error);
        leat_value_clear(&value);
    }
    rc = rc ? rc : leat_prompts_simulate(p, 1000, 16, &saved, error);
    rc = rc ? rc : leat_dataset_windows(d, "tokens", 30, 30, LEAT_WINDOWS_SHORT, &parts, error);
    rc = rc ? rc : leat_prompts_group(parts, &(struct leat_prompts_options){.field = "tokens", .block = 1}, &q, error);
    leat_prompts_release(q);
    leat_dataset_release(parts);
    leat_prompts_release(p);
    leat_dataset_release(grouped);
    leat_dataset_release(d);
    return rc;
}

TEST(any_allocation_for_grouped_prompts_may_fail)
{
    int64_t step = 1;
    for (int64_t n = 0;; n += step) {
        struct leat_error error = {.code = 0};
        fail_allocation(n);
        int rc = use(&error);
        if (!allocation_failed()) {
            assert_ok(rc);
            assert_true(n > 30);
            break;
        }
        if (rc && rc != LEAT_E_NOMEM)
            fail_msg("allocation %" PRId64 ": %s: %s", n, leat_status_name(rc), error.message);
        step = n < 200 || test_full() ? 1 : 37; /* then come those of single values */
    }
}

TEST_MAIN_IN(set_up, tear_down)
