#include "../allocations.h"
#include "../folder.h"
#include "data/dataset.h"
#include "leat/windows.h"

enum { MOST = 40, ELEMENTS = MOST * (MOST + 1) / 2 };

static char path[PATH_MAX + 16];
static uint16_t values[ELEMENTS]; /* record n has n elements n, 41 + n, 82 + n, ...: each says its record and place */
static int64_t offsets[MOST + 2];
static struct leat_dataset *arrays;

static const struct leat_field fields[] = {
    {.name = "s", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {-1}},
    {.name = "name", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
};

static int set_up(void **state)
{
    struct leat_error error;
    struct leat_writer *writer;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    files_folder(folder);
    snprintf(path, sizeof path, "%s/records.leat", folder);
    assert_ok(leat_writer_open(path, fields, 2, &options, &writer, &error));
    for (int64_t n = 0; n <= MOST; n++) {
        offsets[n + 1] = offsets[n] + n;
        for (int64_t i = 0; i < n; i++)
            values[offsets[n] + i] = (uint16_t)(i * (MOST + 1) + n);
        assert_ok(leat_writer_add(writer,
                                  (struct leat_value_ref[]){{.data = &values[offsets[n]], .length = 2 * (uint64_t)n},
                                                            {.data = "a name", .length = 6}},
                                  NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    const struct leat_array array = {.data = values, .offsets = offsets, .offset_bytes = 8};
    assert_ok(leat_dataset_from_arrays(fields, &array, 1, MOST + 1, NULL, NULL, NULL, &arrays, &error));
    return 0;
}

static int tear_down(void **state)
{
    leat_dataset_release(arrays);
    return remove_folder(state);
}

/* Whether window `at` is elements [begin, begin + count) of record n. */
static void expect_window(const struct leat_dataset *w, uint64_t at, int n, int begin, int count)
{
    struct leat_error error;
    struct leat_value value;
    assert_true(at < leat_dataset_count(w));
    assert_ok(leat_dataset_read(w, at, 0, &value, &error));
    assert_int_equal(value.shape[0], count);
    for (int i = 0; i < count; i++)
        assert_int_equal(((const uint16_t *)value.data)[i], (begin + i) * (MOST + 1) + n);
    leat_value_clear(&value);
    assert_ok(leat_dataset_read(w, at, 1, &value, &error));
    assert_int_equal(*(const int64_t *)value.data, begin);
    leat_value_clear(&value);
}

/* The windows of one record by the words of leat/leat.h, one after the other; returns how many. */
static uint64_t expect_record(const struct leat_dataset *w, uint64_t at, int n, int length, int stride,
                              enum leat_windows_tail tail)
{
    const uint64_t first = at;
    int end = 0, begin = 0;
    for (; begin < n && end < n && begin + length <= n; begin += stride, at++) {
        expect_window(w, at, n, begin, length);
        end = begin + length;
    }
    if (end < n && tail == LEAT_WINDOWS_SHORT && begin < n)
        expect_window(w, at++, n, begin, n - begin);
    if (end < n && tail == LEAT_WINDOWS_COVER)
        expect_window(w, at++, n, n < length ? 0 : n - length, n < length ? n : length);
    return at - first;
}

TEST(windows_of_records_of_any_length_are_those_of_the_rule)
{
    struct leat_error error;
    for (int tail = LEAT_WINDOWS_SHORT; tail <= LEAT_WINDOWS_DROP; tail++)
        for (int length = 1; length <= MOST + 1; length += test_full() ? 1 : 3)
            for (int stride = 1; stride <= MOST + 2; stride += test_full() ? 1 : 3) {
                struct leat_dataset *w;
                uint64_t at = 0;
                assert_ok(leat_dataset_windows(arrays, "s", (uint64_t)length, (uint64_t)stride,
                                               (enum leat_windows_tail)tail, &w, &error));
                for (int n = 0; n <= MOST; n++)
                    at += expect_record(w, at, n, length, stride, (enum leat_windows_tail)tail);
                assert_int_equal(at, leat_dataset_count(w));
                leat_dataset_release(w);
            }
}

TEST(a_window_is_resolved_to_its_record_and_keeps_its_id)
{
    struct leat_error error;
    struct leat_dataset *whole, *w;
    struct leat_sample_ref ref;
    size_t field = 0;
    assert_ok(leat_dataset_open(path, NULL, &whole, &error));
    assert_ok(leat_dataset_windows(whole, "s", 10, 10, LEAT_WINDOWS_DROP, &w, &error));
    leat_dataset_release(whole);
    leat_dataset_locate(w, &(uint64_t){10}, 1, &ref); /* records 10 to 19 have one */
    leat_ref_resolve(&ref, &field);
    assert_int_equal(ref.sample, 20);
    assert_int_equal(ref.id, 10);
    leat_dataset_release(w);
}

TEST(what_makes_no_windows_is_refused)
{
    struct leat_error error;
    struct leat_dataset *w;
    assert_int_equal(leat_dataset_windows(arrays, "s", 0, 1, LEAT_WINDOWS_SHORT, &w, &error), LEAT_E_INVALID);
    assert_int_equal(leat_dataset_windows(arrays, "s", 1, 0, LEAT_WINDOWS_SHORT, &w, &error), LEAT_E_INVALID);
    assert_int_equal(leat_dataset_windows(arrays, "s", 1, 1, (enum leat_windows_tail)3, &w, &error), LEAT_E_INVALID);
    assert_int_equal(leat_dataset_windows(arrays, "t", 1, 1, LEAT_WINDOWS_SHORT, &w, &error), LEAT_E_NOT_FOUND);
    assert_null(w);
}

static int use(struct leat_error *error)
{
    struct leat_dataset *d = NULL, *w = NULL, *in_memory = NULL;
    struct leat_value value = {0};
    int rc = leat_dataset_open(path, NULL, &d, error);
    if (!rc)
        rc = leat_dataset_windows(d, "s", 7, 5, LEAT_WINDOWS_COVER, &w, error);
    if (!rc)
        rc = leat_dataset_windows(arrays, "s", 7, 5, LEAT_WINDOWS_DROP, &in_memory, error);
    for (size_t f = 0; f < 3 && !rc; f++) {
        rc = leat_dataset_read(w, 20, f, &value, error);
        leat_value_clear(&value);
    }
    if (!rc)
        rc = leat_dataset_column(in_memory, 0, false, false, &value, error);
    leat_value_clear(&value);
    leat_dataset_release(in_memory);
    leat_dataset_release(w);
    leat_dataset_release(d);
    return rc;
}

TEST(any_allocation_for_windows_may_fail)
{
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        fail_allocation(n);
        int rc = use(&error);
        if (!allocation_failed()) {
            assert_ok(rc);
            assert_true(n > 9);
            break;
        }
        if (rc)
            assert_int_equal(rc, LEAT_E_NOMEM);
    }
}

TEST_MAIN_IN(set_up, tear_down)
