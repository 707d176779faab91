/* Data sets put side by side, with some of their fields; and their samples, copied into a file. */
#include "../allocations.h"
#include "../folder.h"
#include "native.h"

enum { N = 150 };
static char path[PATH_MAX + 16], copied[PATH_MAX + 16];
static int calls;
static uint64_t most, broken = UINT64_MAX;

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.leat", folder);
    snprintf(copied, sizeof copied, "%s/copied.leat", folder);
    native_write(path, 0, N, 0);
    return 0;
}

static int compute(void *user, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    int rc = LEAT_OK;
    calls++;
    most = n > most ? n : most;
    for (size_t i = 0; i < n && !rc; i++)
        for (size_t f = 0; f < n_fields && !rc; f++) {
            const int64_t square = (int64_t)(samples[i] * samples[i]);
            char text[32];
            const size_t length = (size_t)snprintf(text, sizeof text, "computed %d", (int)samples[i]);
            if (samples[i] == broken) {
                *failed = i;
                snprintf(error->message, sizeof error->message, "broken");
                return error->code = LEAT_E_DECODE;
            }
            rc = fields[f] ? leat_values_put(out, f, i, text, length)
                           : leat_values_put(out, f, i, &square, sizeof square);
        }
    if (rc)
        snprintf(error->message, sizeof error->message, "no memory");
    return rc ? error->code = rc : rc;
}

static int open_made(struct leat_dataset **out, struct leat_error *error)
{
    static const struct leat_field fields[] = {{.name = "square", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                               {.name = "told", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}};
    return leat_dataset_from_source(fields, 2, N, "1", compute, NULL, NULL, out, error);
}

static const char *const no_names[] = {"", ""};
static const char *const taken[] = {"x", "told", "square", "text"};

/* Samples of the file beside computed ones, in four fields. */
static int open_beside(struct leat_dataset **out, struct leat_error *error)
{
    struct leat_dataset *parts[2] = {NULL, NULL};
    *out = NULL;
    int rc = leat_dataset_open(path, NULL, &parts[0], error);
    rc = rc ? rc : open_made(&parts[1], error);
    rc = rc ? rc : leat_dataset_zip(parts, no_names, 2, false, taken, 4, out, error);
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
    return rc;
}

TEST(the_fields_of_data_sets_side_by_side_are_chosen_by_name)
{
    struct leat_error error;
    struct leat_dataset *d;
    size_t n;
    assert_ok(open_beside(&d, &error));
    const struct leat_field *fields = leat_dataset_fields(d, &n);
    static const char *const expected[] = {"x", "text", "square", "told"};
    assert_int_equal(n, 4);
    for (size_t f = 0; f < n; f++)
        assert_string_equal(fields[f].name, expected[f]);
    struct leat_value value;
    assert_ok(leat_dataset_read(d, 7, 3, &value, &error));
    assert_int_equal(value.length, 10);
    assert_memory_equal(value.data, "computed 7", 10);
    leat_value_clear(&value);
    leat_dataset_release(d);
}

TEST(a_field_that_is_not_there_or_stands_twice_is_an_error)
{
    struct leat_error error;
    struct leat_dataset *parts[2], *d;
    assert_ok(leat_dataset_open(path, NULL, &parts[0], &error));
    parts[1] = parts[0];
    assert_int_equal(leat_dataset_zip(parts, no_names, 2, false, NULL, 0, &d, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "two zipped fields are named 'x'"));
    static const char *const unknown[] = {"x", "y"};
    assert_int_equal(leat_dataset_zip(parts, no_names, 1, false, unknown, 2, &d, &error), LEAT_E_NOT_FOUND);
    assert_non_null(strstr(error.message, "\"y\""));
    assert_int_equal(leat_dataset_zip(parts, no_names, 1, false, unknown, 0, &d, &error), LEAT_E_INVALID);
    assert_null(d);
    leat_dataset_release(parts[0]);
}

static int copy(struct leat_dataset *d, struct leat_error *error)
{
    static const size_t all[] = {0, 1, 2, 3};
    struct leat_writer *writer = NULL;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    size_t n;
    options.num_threads = 1;
    options.overwrite = true;
    int rc = leat_writer_open(copied, leat_dataset_fields(d, &n), 4, &options, &writer, error);
    rc = rc ? rc : leat_dataset_write(d, all, 4, 0, leat_dataset_count(d), writer, error);
    rc = rc ? rc : leat_writer_finish(writer, error);
    leat_writer_free(writer, false);
    return rc;
}

TEST(computed_values_are_copied_together_and_are_those_that_are_read)
{
    struct leat_error error;
    struct leat_dataset *d, *back;
    assert_ok(open_beside(&d, &error));
    calls = 0;
    most = 0;
    assert_ok(copy(d, &error));
    assert_int_equal(calls, 3);
    assert_int_equal(most, 64);
    assert_ok(leat_dataset_open(copied, NULL, &back, &error));
    assert_int_equal(leat_dataset_count(back), N);
    for (uint64_t i = 0; i < N; i++)
        for (size_t f = 0; f < 4; f++) {
            struct leat_value a, b;
            assert_ok(leat_dataset_read(d, i, f, &a, &error));
            assert_ok(leat_dataset_read(back, i, f, &b, &error));
            assert_int_equal(a.length, b.length);
            assert_memory_equal(a.data, b.data, a.length);
            leat_value_clear(&a);
            leat_value_clear(&b);
        }
    leat_dataset_release(back);
    leat_dataset_release(d);
}

TEST(a_value_that_cannot_be_computed_is_an_error_that_names_its_sample)
{
    struct leat_error error;
    struct leat_dataset *d;
    assert_ok(open_beside(&d, &error));
    broken = 131;
    assert_int_equal(copy(d, &error), LEAT_E_DECODE);
    assert_int_equal(error.sample, 131);
    broken = UINT64_MAX;
    leat_dataset_release(d);
}

TEST(any_allocation_may_fail_when_fields_are_chosen_and_samples_copied)
{
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        struct leat_dataset *d;
        fail_allocation(n);
        int rc = open_beside(&d, &error);
        rc = rc ? rc : copy(d, &error);
        leat_dataset_release(d);
        if (!allocation_failed()) {
            assert_ok(rc);
            assert_true(n > 20);
            break;
        }
        if (rc) {
            assert_int_equal(rc, LEAT_E_NOMEM);
            assert_int_equal(error.code, LEAT_E_NOMEM);
        }
    }
}

TEST_MAIN_IN(set_up, remove_folder)
