#include "../allocations.h"
#include "../folder.h"
#include "data/dataset.h"
#include "native.h"

static char path[PATH_MAX + 16], photos[PATH_MAX + 16];
enum { N = 300 };

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/data.leat", folder);
    native_write(path, 0, N, 0);
    for (int i = 0; i < 300; i++) { /* more than the listing's first room */
        char name[32];
        snprintf(name, sizeof name, "photos/%c/%03d.jpg", 'a' + i % 2, i);
        files_write_text(folder, name, "x");
    }
    files_write_text(folder, "photos/readme", "makes a notice");
    snprintf(photos, sizeof photos, "%s/photos", folder);
    return 0;
}

/* Everything that a data set is asked for. Outputs of what failed must be NULL or empty. */
static int use(const char *which, size_t varying, size_t fixed, struct leat_error *error)
{
    struct leat_dataset *d = NULL, *joined = NULL, *selected = NULL, *sliced = NULL, *parts[2] = {NULL, NULL};
    struct leat_value value = {0};
    char *about = NULL;
    int64_t positions[200];
    for (int i = 0; i < 200; i++)
        positions[i] = (i * 7) % N;
    int rc = leat_dataset_open(which, NULL, &d, error);
    if (!rc)
        rc = leat_dataset_select(d, positions, 200, &selected, error);
    if (!rc)
        rc = leat_dataset_slice(selected, 3, 190, 2, &sliced, error);
    if (!rc)
        rc = leat_dataset_split(d, (double[]){0.5, 0.25}, 2, 9, parts, error);
    if (!rc)
        rc = leat_dataset_concat((struct leat_dataset *[]){d, sliced, parts[1]}, 3, &joined, error);
    if (!rc)
        rc = leat_dataset_read(joined, 20, varying, &value, error);
    leat_value_clear(&value);
    if (!rc)
        rc = leat_dataset_read(joined, 20, fixed, &value, error);
    leat_value_clear(&value);
    if (!rc)
        rc = leat_dataset_column(joined, varying, true, false, &value, error);
    leat_value_clear(&value);
    if (!rc)
        rc = leat_dataset_column(joined, fixed, false, false, &value, error);
    leat_value_clear(&value);
    if (!rc)
        rc = leat_dataset_about(joined, &about, error);
    assert_true(!rc == (about != NULL));
    leat_free(about);
    leat_dataset_release(joined);
    leat_dataset_release(parts[0]);
    leat_dataset_release(parts[1]);
    leat_dataset_release(sliced);
    leat_dataset_release(selected);
    leat_dataset_release(d);
    return rc;
}

static void each_fails_once(const char *which, size_t varying, size_t fixed)
{
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        fail_allocation(n);
        int rc = use(which, varying, fixed, &error);
        if (!allocation_failed()) {
            assert_ok(rc);
            assert_true(n > 9);
            break;
        }
        /* Without memory for an index or a notice one goes on without. */
        if (rc) {
            assert_int_equal(rc, LEAT_E_NOMEM);
            assert_int_equal(error.code, LEAT_E_NOMEM);
            assert_true(strlen(error.message) > 0);
        }
    }
}

TEST(any_allocation_for_a_folder_may_fail)
{
    each_fails_once(photos, 0, 1);
}

TEST(any_allocation_for_a_file_may_fail)
{
    each_fails_once(path, TEXT, X);
}

TEST(any_allocation_for_chosen_fields_may_fail)
{
    const struct leat_field chosen[] = {{.name = "label"}, {.name = "image"}};
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.fields = chosen;
    options.n_fields = 2;
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        struct leat_dataset *d = NULL;
        struct leat_value value = {0};
        fail_allocation(n);
        int rc = leat_dataset_open(photos, &options, &d, &error);
        if (!rc)
            rc = leat_dataset_read(d, N - 1, 0, &value, &error);
        const bool failed = allocation_failed();
        assert_true(!rc || (failed && rc == LEAT_E_NOMEM && error.message[0]));
        if (!rc)
            assert_int_equal(*(const int64_t *)value.data, 1);
        leat_value_clear(&value);
        leat_dataset_release(d);
        if (!failed)
            break;
    }
}

TEST_MAIN_IN(set_up, remove_folder)
