/* Headers of NumPy's files. */
#include "../allocations.h"
#include "../folder.h"
#include "format/npy.h"

static uint8_t bytes[1 << 10];
static struct leat_npy_header header;

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

static const char *read_header(const char *text)
{
    return leat_npy_header_read(bytes, make(text), &header);
}

TEST(a_header_gives_the_type_and_the_shape_of_a_row)
{
    assert_null(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 172), }   \n"));
    assert_int_equal(header.dtype, LEAT_F32);
    assert_int_equal(header.rows, 7);
    assert_int_equal(header.ndim, 1);
    assert_int_equal(header.shape[0], 172);
    assert_int_equal(header.row_bytes, 4 * 172);
    assert_null(read_header("{'shape': (3,), 'fortran_order': True, 'descr': '<f8'}"));
    assert_int_equal(header.dtype, LEAT_F64);
    assert_int_equal(header.ndim, 0);
    assert_int_equal(header.row_bytes, 8);
    assert_null(read_header("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2, 3)}"));
    assert_int_equal(header.rows, 0);
    assert_int_equal(header.row_bytes, 6);
}

TEST(what_is_no_array_of_numbers_in_rows_is_refused)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (7, 2)}", "another type than numbers"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (7, 2)}", "another type than numbers"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (7, 2)}", "another type than numbers"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (7,)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (7, 2)}", "Fortran order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "a single number"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0)}", "without elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, -2)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 99999999999999999999)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': False}", "no header"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (7,)}", "no header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), 'more': 1}", "no header"},
        {"", "no header"},
        {"{", "no header"},
        {"{}", "no header"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *what = read_header(cases[i].text);
        if (!what || !strstr(what, cases[i].what))
            fail_msg("%s: %s", cases[i].text, what ? what : "it is good");
    }
}

TEST(a_header_that_ends_anywhere_is_none)
{
    const size_t n = make("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 172), }   \n");
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc(cut + 1);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_non_null(leat_npy_header_read(copy, cut, &header));
        free(copy);
    }
}

TEST(rows_are_there_mapped_or_read_and_a_cut_file_is_an_error)
{
    struct leat_error error;
    struct leat_npy npy;
    char path[PATH_MAX + 32];
    const float rows[6] = {1, 2, 3, 4, 5, 6};
    for (size_t pad = 0; pad < 4; pad++) {
        char text[128];
        snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }%*s", (int)pad, "");
        const size_t n = make(text);
        memcpy(bytes + n, rows, sizeof rows);
        files_write(folder, "a.npy", bytes, n + sizeof rows);
        snprintf(path, sizeof path, "%s/a.npy", folder);
        assert_ok(leat_npy_open(path, &npy, &error));
        assert_int_equal((uintptr_t)npy.rows % sizeof(float), 0);
        assert_memory_equal(npy.rows, rows, sizeof rows);
        leat_npy_close(&npy);
        files_write(folder, "a.npy", bytes, n + sizeof rows - 1);
        assert_int_equal(leat_npy_open(path, &npy, &error), LEAT_E_CORRUPT);
        assert_non_null(strstr(error.message, "3 rows of 8 bytes"));
    }
    files_write_text(folder, "a.npy", "1 2 3\n");
    assert_int_equal(leat_npy_open(path, &npy, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "no header of NumPy: features are a file of numpy.save"));
    snprintf(path, sizeof path, "%s/none.npy", folder);
    assert_int_equal(leat_npy_open(path, &npy, &error), LEAT_E_NOT_FOUND);
}

TEST(each_allocation_may_fail)
{
    struct leat_error error;
    struct leat_npy npy;
    char path[PATH_MAX + 32];
    const size_t n = make("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), } ");
    files_write(folder, "b.npy", bytes, n + 24);
    snprintf(path, sizeof path, "%s/b.npy", folder);
    for (int64_t k = 0;; k++) {
        fail_allocation(k);
        const int rc = leat_npy_open(path, &npy, &error);
        const bool failed = allocation_failed();
        if (!rc)
            leat_npy_close(&npy);
        if (!failed)
            break;
        assert_true(rc == LEAT_E_NOMEM || rc == LEAT_OK);
    }
}

TEST_MAIN_IN(make_folder, remove_folder)
