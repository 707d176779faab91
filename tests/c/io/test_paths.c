/* Patterns of paths, without memory; what is asked of a path before it is opened. */
#include "../allocations.h"
#include "../folder.h"
#include "io/paths.h"

static const char *const NAMES[] = {"b-1.x", "b-0.x", "b-0.x.leat-index", "b-0.x.partial", "a.x"};

static int set_up(void **state)
{
    make_folder(state);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        files_write_text(folder, NAMES[i], "x");
    return chdir(folder);
}

TEST(each_allocation_of_expanding_paths_may_fail)
{
    static const char *const given[] = {"a.x", "b-*", "c-{08..11}.{0..1}"};
    static const char *const want[] = {"a.x",    "b-0.x",  "b-1.x",  "c-08.0", "c-08.1", "c-09.0",
                                       "c-09.1", "c-10.0", "c-10.1", "c-11.0", "c-11.1"};
    struct leat_error error;
    char **paths;
    size_t n;
    int64_t failed = 0;
    for (bool done = false; !done; failed++) {
        fail_allocation(failed);
        const int rc = leat_paths_expand(given, 3, &paths, &n, &error);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        if (!done) {
            assert_null(paths);
            assert_int_equal(n, 0);
            assert_non_null(strstr(error.message, "no memory for the names of"));
        }
    }
    assert_true(failed > 15); /* each name has one of its own */
    assert_int_equal(n, sizeof want / sizeof *want);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(paths[i], want[i]);
    leat_free(paths);
}

TEST(a_shard_whose_manifest_is_there_is_left_out)
{
    static const char *const given[][3] = {{"d*.leat", "x", "d.00001.leat"},
                                           {"d.000??.leat", "e.leat", "e.00000.leat"}};
    static const char *const want[][4] = {{"d.20240101.leat", "d.leat", "d.x.leat", "x"},
                                          {"d.00000.leat", "d.00001.leat", "e.leat", "e.00000.leat"}};
    struct leat_error error;
    files_write_text(folder, "d.leat",
                     LEAT_MANIFEST_HEAD
                     ", \"shards\": [{\"file\": \"d.00000.leat\"}, {\"file\": \"d.00001.leat\"}, {}, 1]}");
    files_write_text(folder, "d.20240101.leat", "x"); /* a data set of its own */
    files_write_text(folder, "e.leat", "no manifest");
    files_write_text(folder, "d.00000.leat", "x");
    files_write_text(folder, "d.00001.leat", "x");
    files_write_text(folder, "d.x.leat", "x");
    for (size_t i = 0; i < 2; i++) {
        char **paths;
        size_t n;
        assert_int_equal(leat_paths_expand(given[i], 3, &paths, &n, &error), LEAT_OK);
        assert_int_equal(n, 4);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(paths[k], want[i][k]);
        leat_free(paths);
    }
}

TEST(a_pattern_that_no_file_fits_and_a_range_that_falls_leave_nothing)
{
    static const char *const wrong[][2] = {{"a.x", "z*"}, {"b-*", "c-{2..1}"}};
    static const int codes[] = {LEAT_E_NOT_FOUND, LEAT_E_INVALID};
    struct leat_error error;
    for (int i = 0; i < 2; i++) {
        char **paths = (char **)wrong;
        size_t n = 7;
        assert_int_equal(leat_paths_expand(wrong[i], 2, &paths, &n, &error), codes[i]);
        assert_null(paths);
        assert_int_equal(n, 0);
        assert_non_null(strstr(error.message, wrong[i][1]));
    }
}

TEST(a_look_at_a_path_tells_folders_files_and_pointers_of_git_lfs)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
    struct leat_error error;
    uint8_t head[64];
    bool is_folder;
    size_t n;
    assert_int_equal(leat_path_look(".", &is_folder, head, sizeof head, &n, &error), LEAT_OK);
    assert_true(is_folder && !n);
    assert_int_equal(leat_path_look("a.x", &is_folder, head, sizeof head, &n, &error), LEAT_OK);
    assert_true(!is_folder && n == 1 && head[0] == 'x');
    assert_int_equal(leat_path_look("none", &is_folder, head, sizeof head, &n, &error), LEAT_E_NOT_FOUND);
    files_write_text(folder, "p.x", pointer);
    assert_int_equal(leat_path_look("p.x", &is_folder, head, sizeof head, &n, &error), LEAT_E_FORMAT);
    assert_non_null(strstr(error.message, "p.x is a pointer of Git LFS"));
    fail_allocation(0);
    const int rc = leat_path_look("a.x", &is_folder, head, sizeof head, &n, &error);
    assert_true(allocation_failed());
    assert_int_equal(rc, LEAT_E_NOMEM);
}

TEST_MAIN_IN(set_up, remove_folder)
