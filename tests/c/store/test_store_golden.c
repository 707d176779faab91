/*
 * Files of released format versions stay readable, and the writer goes on writing the same bytes. The files in
 * tests/golden were written by this program from the data of made.h: `test_store_golden write FOLDER` writes those of
 * the current version.
 */
#include "../tuning.h"
#include "format/fingerprint.h"
#include "made.h"

enum { SAMPLES = 12 };

/* v1.leat; v1-rows.leat has photos with row indexes, v1-raw.leat photos that are stored as pixels, v1-pages.leat
 * checksums of pages of values, v1-converted.leat the fingerprint of another data set. That with the fast form is
 * test_forms' of tests/c/pack: it needs real photos. */
enum golden { PLAIN = 0, ROWS, RAW, PAGES, CONVERTED, GOLDEN };
static const char *const names[GOLDEN] = {"v1.leat", "v1-rows.leat", "v1-raw.leat", "v1-pages.leat",
                                          "v1-converted.leat"};

/* The data set that v1-converted.leat is of, by its sums; its classes are no part of its fingerprint. */
static struct leat_writer_source source_of_golden(void)
{
    struct leat_writer_source s = {.count = SAMPLES,
                                   .sums = {0x123456789abcdef, 0xfedcba987654321},
                                   .classes = made_classes,
                                   .n_classes = 3,
                                   .classes_apart = true};
    struct leat_store_layout layout;
    assert_int_equal(leat_store_layout_init(&layout, made_fields, MADE_FIELDS, NULL), LEAT_OK);
    leat_fingerprint_finish(layout.fields, layout.n_stored, NULL, 0, s.count, s.sums, s.fingerprint);
    leat_store_layout_destroy(&layout);
    return s;
}

static int write_golden(const char *folder, enum golden which, struct leat_error *error)
{
    struct leat_writer_options o = made_options();
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", folder, names[which]);
    o.photos = which == RAW ? LEAT_PHOTOS_RAW : LEAT_PHOTOS_ORIGINAL;
    const struct leat_writer_source source = source_of_golden();
    made_codec = which == ROWS || which == RAW ? &toy_form_codec : &toy_codec;
    made_source = which == CONVERTED ? &source : NULL;
    if (which == PAGES)
        tuning = (struct leat_store_tuning){.large = 100, .shift = 6};
    int rc = made_file(path, SAMPLES, &o, error);
    tuning = (struct leat_store_tuning){0};
    made_source = NULL;
    return rc;
}

TEST(version_1_opens_and_holds_what_was_written)
{
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
    assert_int_equal(e.info.health, LEAT_HEALTH_BROKEN);
    leat_source_close(s);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1.leat", NULL, &error));
}

static struct leat_extent image_of(struct leat_source *s, uint64_t i)
{
    struct leat_error error;
    struct leat_extent e;
    size_t failed;
    assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
    return e;
}

TEST(photos_of_version_1_may_have_a_row_index)
{
    struct leat_error error;
    struct leat_source *s;
    unsigned indexed = 0;
    assert_ok(leat_source_open(LEAT_GOLDEN "/v1-rows.leat", NULL, &s, &error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        assert_made(s, i, i);
        assert_true(image_of(s, i).info.rows_length == 0 || image_of(s, i).info.rows_length == ROWS_BYTES);
        indexed += image_of(s, i).info.rows_length > 0;
    }
    assert_true(indexed > 3);
    leat_source_close(s);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1-rows.leat", NULL, &error));
}

TEST(photos_of_version_1_may_be_pixels)
{
    static uint8_t toy[MADE_ROOM];
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_value value;
    assert_ok(leat_dataset_open(LEAT_GOLDEN "/v1-raw.leat", NULL, &d, &error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t length = made_value(0, i, toy);
        assert_ok(leat_dataset_read(d, i, 0, &value, &error));
        if (i == 5) { /* broken: as it came */
            assert_int_equal(value.ndim, 1);
            assert_int_equal(value.length, length);
            assert_memory_equal(value.data, toy, length);
        } else {
            assert_int_equal(value.ndim, 3);
            assert_int_equal(value.shape[0], i + 1);
            assert_int_equal(value.shape[1], i + 1);
            assert_int_equal(value.shape[2], 1);
            assert_int_equal(((const uint8_t *)value.data)[value.length - 1], length & 255);
        }
        leat_value_clear(&value);
    }
    leat_dataset_release(d);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1-raw.leat", NULL, &error));
}

TEST(values_of_version_1_may_have_pages)
{
    enum { RAW_FIELD = 18 };
    static uint8_t want[MADE_ROOM], got[MADE_ROOM];
    struct leat_error error;
    struct leat_source *s;
    struct leat_io_file *file;
    size_t failed;
    assert_ok(leat_source_open(LEAT_GOLDEN "/v1-pages.leat", NULL, &s, &error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        struct leat_extent whole, e;
        uint64_t begin = made_value(RAW_FIELD, i, want) / 2;
        assert_made(s, i, i);
        assert_ok(s->v->extents(s, RAW_FIELD, &i, 1, &whole, &failed, &error));
        e = whole;
        assert_true(s->v->piece(s, i, &e, begin, whole.length - begin));
        assert_ok(s->v->file(s, e.file, &file, &error));
        assert_ok(leat_io_read(file, e.offset, e.length, got, &error));
        leat_io_release(file);
        assert_ok(s->v->check_piece(s, i, &e, got, false, &error));
        assert_memory_equal(got + (whole.offset + begin - e.offset), want + begin, whole.length - begin);
    }
    leat_source_close(s);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1-pages.leat", NULL, &error));
}

TEST(a_file_of_version_1_may_have_the_fingerprint_of_another_data_set)
{
    struct leat_error error;
    struct leat_source *s;
    const struct leat_writer_source source = source_of_golden();
    assert_ok(leat_source_open(LEAT_GOLDEN "/v1-converted.leat", NULL, &s, &error));
    assert_true(s->converted && s->classes_apart);
    assert_memory_equal(leat_source_sums(s), source.sums, sizeof source.sums);
    assert_memory_not_equal(s->fingerprint, source.sums, sizeof source.sums);
    assert_int_equal(s->n_classes, 3);
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_made(s, i, i);
    leat_source_close(s);
    assert_ok(leat_verify(LEAT_GOLDEN "/v1-converted.leat", NULL, &error));
}

TEST(the_writer_still_writes_the_bytes_of_version_1)
{
    struct leat_error error;
    char folder[PATH_MAX], path[PATH_MAX + 16], golden[PATH_MAX];
    files_folder(folder);
    for (enum golden which = PLAIN; which < GOLDEN; which++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[which]);
        snprintf(golden, sizeof golden, "%s/%s", LEAT_GOLDEN, names[which]);
        assert_ok(write_golden(folder, which, &error));
        assert_same_files(golden, path);
    }
    files_remove(folder);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "write")) {
        struct leat_error error;
        int rc = LEAT_OK;
        for (enum golden which = PLAIN; which < GOLDEN && !rc; which++)
            rc = write_golden(argv[2], which, &error);
        if (rc)
            fprintf(stderr, "%s\n", error.message);
        return rc != 0;
    }
    return test_run(NULL, NULL);
}
