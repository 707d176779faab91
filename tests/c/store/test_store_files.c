/* A file holds what was put into it: every kind of field, classes, metadata, marks; one file or shards. */
#include "made.h"
#include "store/manifest.h"

static char folder[PATH_MAX];

static int make_folder(void **state)
{
    (void)state;
    files_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    files_remove(folder);
    return 0;
}

static const char *in(const char *name)
{
    static char path[4][PATH_MAX + 64];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void every_field_type_comes_back_as_it_was(void **state)
{
    (void)state;
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    enum { N = 500 };
    assert_ok(made_file(in("a.leat"), N, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->count, N);
    assert_int_equal(s->n_fields, MADE_FIELDS + 5);
    for (size_t f = 0; f < MADE_FIELDS; f++) {
        assert_string_equal(s->fields[f].name, made_fields[f].name);
        assert_int_equal(s->fields[f].kind, made_fields[f].kind);
        assert_int_equal(s->fields[f].layout, made_fields[f].layout);
        assert_int_equal(s->fields[f].flags, made_fields[f].flags);
        assert_int_equal(s->fields[f].ndim, made_fields[f].ndim);
        assert_memory_equal(s->fields[f].shape, made_fields[f].shape, sizeof s->fields[f].shape);
    }
    assert_int_equal(s->n_classes, 3);
    assert_string_equal(s->classes[2], made_classes[2]);
    assert_string_equal(s->metadata, o.metadata);
    for (uint64_t i = 0; i < N; i++)
        assert_made(s, i, i);
    leat_source_close(s);
}

static void what_is_known_of_a_photo_stands_beside_it(void **state)
{
    (void)state;
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    size_t failed;
    assert_ok(made_file(in("a.leat"), 30, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    for (uint64_t i = 0; i < 30; i++) {
        struct leat_extent e;
        const void *rows[5];
        assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
        assert_int_equal(e.width, i + 1);
        assert_int_equal(e.height, i + 1);
        assert_int_equal(e.channels, 3);
        assert_int_equal(e.image_kind, LEAT_IMAGE_PNG);
        assert_int_equal(e.health, i % 11 == 5 ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
        for (size_t d = 0; d < 5; d++)
            assert_ok(s->v->rows(s, MADE_FIELDS + d, &i, 1, &rows[d], &failed, &error));
        assert_int_equal(leat_get_u32(rows[0]), e.width);
        assert_int_equal(leat_get_u32(rows[1]), e.height);
        assert_int_equal(*(const uint8_t *)rows[2], e.channels);
        assert_int_equal(*(const uint8_t *)rows[3], e.image_kind);
        assert_int_equal(*(const uint8_t *)rows[4], e.health);
    }
    assert_string_equal(s->fields[MADE_FIELDS].name, "image.width");
    assert_string_equal(s->fields[MADE_FIELDS + 4].name, "image.health");
    leat_source_close(s);
}

static void an_empty_data_set_is_a_file_too(void **state)
{
    (void)state;
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    assert_ok(made_file(in("a.leat"), 0, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->count, 0);
    uint64_t i = 0;
    const void *row;
    size_t failed;
    assert_int_equal(s->v->rows(s, 1, &i, 1, &row, &failed, &error), LEAT_E_RANGE);
    leat_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_field_type_comes_back_as_it_was, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_known_of_a_photo_stands_beside_it, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_empty_data_set_is_a_file_too, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
