/* Headers of NumPy's files, and rows of them. */
#include "../allocations.h"
#include "../folder.h"
#include "format/npy.h"
#include "format/npy_rows.h"

static uint8_t bytes[1 << 10];

/* A file of version 1 with this header; returns its bytes without any elements. */
static size_t make(const char *text)
{
    const size_t n = strlen(text);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)n;
    bytes[9] = (uint8_t)(n >> 8);
    memcpy(bytes + 10, text, n);
    return 10 + n;
}

TEST(headers_of_arrays_are_read_by_a_grammar)
{
    static const struct {
        const char *text;
        bool good, pickled;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", true, false},
        {"{\"shape\": (2L, 3L), 'descr': u'>i8', 'fortran_order': True}\n", true, false},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': ()}", true, false},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", false, true},
        {"{'descr': [('a', '<f4'), ('b', [('c', 'O', (2,))])], 'fortran_order': False, 'shape': (2,)}", false, true},
        {"{'descr': [('O', '<f4')], 'fortran_order': False, 'shape': (2,)}", false, true},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (3,)}", false, false},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 99999999999999999999)}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), 'more': 1}", false, false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", false, false},
        {"", false, false},
        {"{", false, false},
        {"{}", false, false},
        {"{'descr': [[[[[[[[[[[[[[[[[[[[[[[[[[[[", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_npy npy;
        const size_t n = make(cases[i].text);
        assert_int_equal(!leat_npy_read(bytes, n, &npy), cases[i].good);
        assert_int_equal(npy.pickled, cases[i].pickled);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *copy = malloc(cut + 1);
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            assert_non_null(leat_npy_read(copy, cut, &npy));
            free(copy);
        }
    }
}

/* Opens a file of a header and some values. */
static int open_rows(const char *text, struct leat_npy_rows *rows, struct leat_error *error)
{
    char path[PATH_MAX + 32];
    const size_t n = make(text);
    files_write(folder, "rows.npy", bytes, n + 128);
    snprintf(path, sizeof path, "%s/rows.npy", folder);
    return leat_npy_rows_open(path, rows, error);
}

TEST(a_header_gives_the_type_and_the_shape_of_a_row)
{
    struct leat_npy_rows rows;
    struct leat_error error;
    assert_ok(open_rows("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", &rows, &error));
    assert_int_equal(rows.dtype, LEAT_F32);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ndim, 1);
    assert_int_equal(rows.shape[0], 3);
    assert_int_equal(rows.row_bytes, 12);
    leat_npy_rows_close(&rows);
    assert_ok(open_rows("{'shape': (3,), 'fortran_order': True, 'descr': '<f8'}", &rows, &error));
    assert_int_equal(rows.dtype, LEAT_F64);
    assert_int_equal(rows.ndim, 0);
    assert_int_equal(rows.row_bytes, 8);
    leat_npy_rows_close(&rows);
    assert_ok(open_rows("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 1,1,1,1,1,1,2,3)}", &rows, &error));
    assert_int_equal(rows.count, 0);
    assert_int_equal(rows.ndim, LEAT_MAX_DIMS);
    assert_int_equal(rows.row_bytes, 6);
    leat_npy_rows_close(&rows);
}

TEST(what_is_no_array_of_numbers_in_rows_is_refused)
{
    static const struct {
        const char *text, *what;
    } cases[] = {{"{'descr': '|O', 'fortran_order': False, 'shape': (7, 2)}", "it holds objects, which are pickles"},
                 {"{'descr': '>f4', 'fortran_order': False, 'shape': (7, 2)}", "the other byte order"},
                 {"{'descr': '<c8', 'fortran_order': False, 'shape': (7, 2)}", "its dtype is none of leat's"},
                 {"{'descr': '<f4', 'fortran_order': True, 'shape': (7, 2)}", "Fortran order"},
                 {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "a single number"},
                 {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0)}", "its rows have no elements"},
                 {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 8)}", "too large"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_npy_rows rows;
        struct leat_error error;
        assert_int_equal(open_rows(cases[i].text, &rows, &error), LEAT_E_FORMAT);
        if (!strstr(error.message, cases[i].what))
            fail_msg("%s: %s", cases[i].text, error.message);
    }
}

TEST(rows_are_there_mapped_or_read_and_a_cut_file_is_an_error)
{
    struct leat_error error;
    struct leat_npy_rows npy;
    char path[PATH_MAX + 32];
    const float rows[6] = {1, 2, 3, 4, 5, 6};
    for (size_t pad = 0; pad < 4; pad++) {
        char text[128];
        snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }%*s", (int)pad, "");
        const size_t n = make(text);
        memcpy(bytes + n, rows, sizeof rows);
        files_write(folder, "a.npy", bytes, n + sizeof rows);
        snprintf(path, sizeof path, "%s/a.npy", folder);
        assert_ok(leat_npy_rows_open(path, &npy, &error));
        assert_int_equal((uintptr_t)npy.values % sizeof(float), 0);
        assert_memory_equal(npy.values, rows, sizeof rows);
        leat_npy_rows_close(&npy);
        files_write(folder, "a.npy", bytes, n + sizeof rows - 1);
        assert_int_equal(leat_npy_rows_open(path, &npy, &error), LEAT_E_CORRUPT);
        assert_non_null(strstr(error.message, "3 rows of 8 bytes"));
    }
    files_write_text(folder, "a.npy", "1 2 3\n");
    assert_int_equal(leat_npy_rows_open(path, &npy, &error), LEAT_E_FORMAT);
    assert_non_null(
        strstr(error.message, "it does not begin as an array file of NumPy does; features are a file of numpy.save"));
    snprintf(path, sizeof path, "%s/none.npy", folder);
    assert_int_equal(leat_npy_rows_open(path, &npy, &error), LEAT_E_NOT_FOUND);
}

TEST(each_allocation_may_fail)
{
    struct leat_error error;
    struct leat_npy_rows npy;
    char path[PATH_MAX + 32];
    const size_t n = make("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), } ");
    files_write(folder, "b.npy", bytes, n + 24);
    snprintf(path, sizeof path, "%s/b.npy", folder);
    for (int64_t k = 0;; k++) {
        fail_allocation(k);
        const int rc = leat_npy_rows_open(path, &npy, &error);
        const bool failed = allocation_failed();
        if (!rc)
            leat_npy_rows_close(&npy);
        if (!failed)
            break;
        assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK);
    }
}

TEST_MAIN_IN(make_folder, remove_folder)
