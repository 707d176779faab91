/*
 * Files of released format versions stay readable, and the writer goes on writing the same bytes. The files in
 * tests/golden were written by this program from the data of made.h: `test_store_golden write FOLDER` writes those of
 * the current version.
 */
#include "made.h"

enum { SAMPLES = 12 };

static int write_golden(const char *path, struct leat_error *error)
{
    struct leat_writer_options o = made_options();
    return made_file(path, SAMPLES, &o, error);
}

static void version_1_opens_and_holds_what_was_written(void **state)
{
    (void)state;
    struct leat_error error;
    struct leat_source *s;
    assert_ok(leat_source_open(LEAT_GOLDEN "/v1.leat", NULL, &s, &error));
    assert_int_equal(s->count, SAMPLES);
    assert_int_equal(s->n_fields, MADE_FIELDS + 5);
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_made(s, i, i);
    assert_int_equal(s->n_classes, 3);
    assert_string_equal(s->metadata, "{\"made\": [1, 2]}");
    struct leat_extent e;
    size_t failed;
    uint64_t broken = 5;
    assert_ok(s->v->extents(s, 0, &broken, 1, &e, &failed, &error));
    assert_int_equal(e.health, LEAT_HEALTH_BROKEN);
    leat_source_close(s);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1.leat", NULL, &error));
}

static void the_writer_still_writes_the_bytes_of_version_1(void **state)
{
    (void)state;
    struct leat_error error;
    char folder[PATH_MAX], path[PATH_MAX + 16];
    files_folder(folder);
    snprintf(path, sizeof path, "%s/v1.leat", folder);
    assert_ok(write_golden(path, &error));
    assert_same_files(LEAT_GOLDEN "/v1.leat", path);
    files_remove(folder);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "write")) {
        struct leat_error error;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/v1.leat", argv[2]);
        int rc = write_golden(path, &error);
        if (rc)
            fprintf(stderr, "%s\n", error.message);
        return rc != 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_opens_and_holds_what_was_written),
        cmocka_unit_test(the_writer_still_writes_the_bytes_of_version_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
