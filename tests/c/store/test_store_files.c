/* A file holds what was put into it: every kind of field, classes, metadata, marks; one file or shards. */
#include "../folder.h"
#include "made.h"
#include "store/manifest.h"

/* Samples of three groups, with so many bytes more. */
enum { MANY = 4500, EXTRA = 3800 };

static int set_up(void **state)
{
    made_extra = 0;
    files_folder(folder);
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

static const char *in(const char *name)
{
    static char path[4][PATH_MAX + 64];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

TEST_IN_FOLDER(every_field_type_comes_back_as_it_was)
{
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

TEST_IN_FOLDER(what_is_known_of_a_photo_stands_beside_it)
{
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
        assert_int_equal(e.info.size[0], i + 1);
        assert_int_equal(e.info.size[1], i + 1);
        assert_int_equal(e.info.channels, 3);
        assert_int_equal(e.info.kind, LEAT_IMAGE_PNG);
        assert_int_equal(e.info.health, i % 11 == 5 ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
        for (size_t d = 0; d < 5; d++)
            assert_ok(s->v->rows(s, MADE_FIELDS + d, &i, 1, NULL, &rows[d], &failed, &error));
        assert_int_equal(leat_get_u32(rows[0]), e.info.size[0]);
        assert_int_equal(leat_get_u32(rows[1]), e.info.size[1]);
        assert_int_equal(*(const uint8_t *)rows[2], e.info.channels);
        assert_int_equal(*(const uint8_t *)rows[3], e.info.kind);
        assert_int_equal(*(const uint8_t *)rows[4], e.info.health);
    }
    assert_string_equal(s->fields[MADE_FIELDS].name, "image.width");
    assert_string_equal(s->fields[MADE_FIELDS + 4].name, "image.health");
    leat_source_close(s);
}

TEST_IN_FOLDER(an_empty_data_set_is_a_file_too)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    assert_ok(made_file(in("a.leat"), 0, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->count, 0);
    uint64_t i = 0;
    const void *row;
    size_t failed;
    assert_int_equal(s->v->rows(s, 1, &i, 1, NULL, &row, &failed, &error), LEAT_E_RANGE);
    leat_source_close(s);
}

TEST_IN_FOLDER(the_bytes_are_the_same_for_any_number_of_threads)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    made_extra = EXTRA;
    o.num_threads = 1;
    assert_ok(made_file(in("1.leat"), MANY, &o, &error));
    for (unsigned n = 2; n <= 5; n++) {
        o.num_threads = n;
        assert_ok(made_file(in("n.leat"), MANY, &o, &error));
        assert_same_files(in("1.leat"), in("n.leat"));
        unlink(in("n.leat"));
    }
    struct leat_source *s;
    assert_ok(leat_source_open(in("1.leat"), NULL, &s, &error));
    for (uint64_t i = 0; i < MANY; i += 61)
        assert_made(s, i, i);
    assert_made(s, MANY - 1, MANY - 1);
    leat_source_close(s);
}

/* Columns of fixed size: enough rows for several groups, read in an order that jumps between them. */
TEST_IN_FOLDER(columns_given_at_once_equal_samples_given_one_by_one)
{
    enum { N = 70000 * 3 };
    static const struct leat_field fields[3] = {
        {.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16},
        {.name = "b", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 1, .shape = {7}},
        {.name = "c", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    };
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    uint16_t *a = malloc(N * sizeof *a);
    float *b = malloc(N * 7 * sizeof *b);
    int64_t *c = malloc(N * sizeof *c);
    for (size_t i = 0; i < N; i++) {
        a[i] = (uint16_t)leat_mix64(i);
        c[i] = (int64_t)leat_mix64(i + 1);
        for (size_t k = 0; k < 7; k++)
            b[7 * i + k] = (float)(i * 7 + k);
    }
    assert_ok(writer_open_with(in("rows.leat"), fields, 3, &o, NULL, &w, &error));
    for (size_t i = 0; i < N; i++) {
        struct leat_value_ref values[3] = {{&a[i], 2, NULL}, {&b[7 * i], 28, NULL}, {&c[i], 8, NULL}};
        uint64_t id;
        assert_ok(leat_writer_add(w, values, &id, &error));
        assert_int_equal(id, i);
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_ok(writer_open_with(in("columns.leat"), fields, 3, &o, NULL, &w, &error));
    for (size_t i = 0, n = 1; i < N; i += n, n = n * 3 + 1) {
        const void *columns[3] = {a + i, b + 7 * i, c + i};
        assert_ok(leat_writer_add_columns(w, columns, n < N - i ? n : N - i, &error));
    }
    assert_int_equal(leat_writer_count(w), N);
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_same_files(in("rows.leat"), in("columns.leat"));

    struct leat_source *s;
    uint64_t samples[1000];
    const void *rows[1000], *column;
    size_t failed;
    for (int recheck = LEAT_RECHECK_FIRST; recheck <= LEAT_RECHECK_NEVER; recheck++) {
        struct leat_open_options open_options = LEAT_OPEN_OPTIONS_INIT;
        open_options.recheck = (enum leat_recheck)recheck;
        assert_ok(leat_source_open(in("rows.leat"), &open_options, &s, &error));
        for (int round = 0; round < 20; round++) {
            for (uint64_t i = 0; i < 1000; i++)
                samples[i] = leat_draw_below((uint64_t)round, i, N);
            assert_ok(s->v->rows(s, 0, samples, 1000, NULL, rows, &failed, &error));
            for (size_t i = 0; i < 1000; i++)
                assert_int_equal(leat_get_u16(rows[i]), a[samples[i]]);
            assert_ok(s->v->rows(s, 1, samples, 1000, NULL, rows, &failed, &error));
            for (size_t i = 0; i < 1000; i++) {
                assert_memory_equal(rows[i], &b[7 * samples[i]], 28);
                assert_int_equal((uintptr_t)rows[i] % 4, 0);
            }
            assert_ok(s->v->rows(s, 2, samples, 1000, NULL, rows, &failed, &error));
            for (size_t i = 0; i < 1000; i++) {
                assert_int_equal(leat_get_u64(rows[i]), c[samples[i]]);
                assert_int_equal((uintptr_t)rows[i] % 8, 0);
            }
        }
        assert_ok(s->v->column(s, 2, &column, &error));
        assert_null(column); /* more than one group: not in one piece */
        samples[5] = N;
        assert_int_equal(s->v->rows(s, 0, samples, 1000, NULL, rows, &failed, &error), LEAT_E_RANGE);
        assert_int_equal(failed, 5);
        leat_source_close(s);
    }
    o.overwrite = true;
    assert_ok(writer_open_with(in("rows.leat"), fields, 3, &o, NULL, &w, &error));
    const void *columns[3] = {a, b, c};
    assert_ok(leat_writer_add_columns(w, columns, 5000, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_source_open(in("rows.leat"), NULL, &s, &error));
    assert_ok(s->v->column(s, 2, &column, &error));
    assert_memory_equal(column, c, 5000 * 8);
    leat_source_close(s);
    free(a);
    free(b);
    free(c);
}

TEST_IN_FOLDER(a_sample_larger_than_a_group_is_a_group_of_its_own)
{
    static const struct leat_field field = {.name = "x", .kind = LEAT_KIND_BYTES};
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    const size_t big = 20u << 20;
    uint8_t *data = malloc(big), *back = malloc(big);
    for (size_t i = 0; i < big; i++)
        data[i] = (uint8_t)(i * 7 >> 3);
    const size_t lengths[] = {10, big, 0, big - 5, 3};
    assert_ok(writer_open_with(in("a.leat"), &field, 1, &o, NULL, &w, &error));
    for (size_t i = 0; i < 5; i++)
        assert_ok(leat_writer_add(w, &(struct leat_value_ref){data, lengths[i], NULL}, NULL, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    struct leat_source *s;
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    for (uint64_t i = 0; i < 5; i++) {
        struct leat_extent e;
        size_t failed;
        struct leat_io_file *file;
        assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
        assert_int_equal(e.length, lengths[i]);
        assert_ok(s->v->file(s, e.file, &file, &error));
        assert_ok(leat_io_read(file, e.offset, e.length, back, &error));
        leat_io_release(file);
        assert_int_equal(memcmp(back, data, e.length), 0);
        assert_int_equal(leat_hash64(back, e.length), e.checksum);
    }
    leat_source_close(s);
    free(data);
    free(back);
}

/* ---- photos ---------------------------------------------------------------------------------- */

TEST_IN_FOLDER(a_broken_photo_is_marked_and_keeps_its_id)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    struct leat_writer_progress p;
    struct leat_bad_sample bad;
    assert_ok(made_open(in("a.leat"), &o, &w, &error));
    for (uint64_t i = 0; i < 40; i++)
        assert_ok(made_add(w, i, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_progress(w, &p);
    assert_int_equal(p.samples, 40);
    assert_int_equal(p.broken, 4);
    assert_int_equal(p.skipped, 0);
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "a/%zu-\xc3\xa4.toy", 5 + 11 * i);
        assert_true(leat_writer_bad(w, i, &bad));
        assert_int_equal(bad.index, 5 + 11 * i);
        assert_false(bad.skipped);
        assert_string_equal(bad.name, name);
        assert_string_equal(bad.reason, "the toy photo is broken");
    }
    assert_false(leat_writer_bad(w, 4, &bad));
    leat_writer_free(w, false);
    struct leat_source *s;
    struct leat_source_about about;
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_ok(s->v->about(s, &about, &error));
    assert_int_equal(about.broken, 4);
    assert_int_equal(about.version, 1);
    for (uint64_t i = 0; i < 40; i++)
        assert_made(s, i, i); /* broken or not, the bytes are as they came */
    leat_source_close(s);
}

TEST_IN_FOLDER(skipping_leaves_broken_photos_out_and_a_resume_knows_where_to_go_on)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    struct leat_writer_progress p;
    struct leat_bad_sample bad;
    made_extra = EXTRA;
    o.on_bad = LEAT_BAD_SKIP;
    assert_ok(made_file(in("a.leat"), MANY, &o, &error));
    o.resume = true;
    assert_ok(made_open(in("b.leat"), &o, &w, &error));
    for (uint64_t i = 0; i < MANY; i++)
        assert_ok(made_add(w, i, &error));
    leat_writer_free(w, true);
    assert_ok(made_open(in("b.leat"), &o, &w, &error));
    uint64_t whole = leat_writer_count(w);
    leat_writer_progress(w, &p);
    assert_true(whole > 0 && whole < MANY);
    assert_int_equal(p.samples + p.skipped, whole);
    assert_int_equal(p.skipped, (whole + 5) / 11);
    for (size_t i = 0; i < p.skipped; i++) { /* the report is whole, too */
        assert_true(leat_writer_bad(w, i, &bad));
        assert_int_equal(bad.index, 5 + 11 * i);
        assert_true(bad.skipped);
    }
    for (uint64_t i = whole; i < MANY; i++)
        assert_ok(made_add(w, i, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_same_files(in("a.leat"), in("b.leat"));
    struct leat_source *s;
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->count, MANY - (MANY + 5) / 11);
    for (uint64_t i = 0, row = 0; i < MANY; i++) {
        if (i % 11 == 5)
            continue;
        if (i % 37 == 0)
            assert_made(s, row, i);
        row++;
    }
    leat_source_close(s);
    assert_ok(leat_verify(in("a.leat"), NULL, &error));
}

TEST_IN_FOLDER(raising_names_the_first_broken_photo)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    o.on_bad = LEAT_BAD_RAISE;
    assert_int_equal(made_file(in("a.leat"), 40, &o, &error), LEAT_E_DECODE);
    assert_int_equal(error.sample, 5);
    assert_string_equal(error.field, "image");
}

TEST_IN_FOLDER(unchecked_photos_say_so)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    struct leat_extent e;
    size_t failed;
    uint64_t sample = 5;
    struct leat_open_options first = LEAT_OPEN_OPTIONS_INIT;
    first.recheck = LEAT_RECHECK_FIRST;
    o.check = false;
    assert_ok(made_file(in("a.leat"), 20, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), &first, &s, &error));
    assert_ok(s->v->extents(s, 0, &sample, 1, &e, &failed, &error));
    assert_int_equal(e.info.health, LEAT_HEALTH_UNCHECKED);
    assert_int_equal(e.info.size[0], 6);
    assert_true(e.verify);
    s->v->mark(s, 0, sample, true, LEAT_HEALTH_BROKEN); /* what a process learns, it remembers */
    sample = 6;
    s->v->mark(s, 0, sample, false, LEAT_HEALTH_GOOD);
    assert_ok(s->v->extents(s, 0, &sample, 1, &e, &failed, &error));
    assert_int_equal(e.info.health, LEAT_HEALTH_GOOD);
    assert_true(e.verify);
    sample = 5;
    assert_ok(s->v->extents(s, 0, &sample, 1, &e, &failed, &error));
    assert_int_equal(e.info.health, LEAT_HEALTH_BROKEN);
    assert_false(e.verify);
    leat_source_close(s);
}

TEST_IN_FOLDER(large_photos_are_made_smaller_and_are_no_longer_files)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *s;
    size_t failed;
    o.max_side = 15;
    o.quality = 77;
    assert_ok(made_file(in("a.leat"), 30, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->fields[0].flags, 0);
    for (uint64_t i = 0; i < 30; i++) {
        struct leat_extent e;
        uint8_t bytes[MADE_ROOM];
        uint64_t n;
        assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
        bool broken = i % 11 == 5, large = i + 1 > 15;
        assert_int_equal(e.info.size[0], large && !broken ? 15 : i + 1);
        assert_int_equal(e.info.health, broken ? LEAT_HEALTH_BROKEN : LEAT_HEALTH_GOOD);
        assert_ok(made_read(s, 0, i, bytes, &n, &error));
        if (large && !broken) {
            assert_int_equal(n, 8);
            assert_int_equal(bytes[7], 77);
        } else {
            uint8_t want[MADE_ROOM];
            assert_int_equal(n, made_value(0, i, want));
            assert_memory_equal(bytes, want, n);
        }
        assert_int_equal(made_read(s, 19, i, bytes, &n, &error), 0); /* what stands behind it moved along */
    }
    leat_source_close(s);
    assert_ok(leat_verify(in("a.leat"), NULL, &error));
}

/* ---- values by path -------------------------------------------------------------------------- */

static const struct leat_field filed[3] = {{.name = "image", .kind = LEAT_KIND_IMAGE, .flags = LEAT_FIELD_FILES},
                                           {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                           {.name = "name", .kind = LEAT_KIND_STR, .flags = LEAT_FIELD_DERIVED}};

static int add_filed(struct leat_writer *w, const char *name, uint64_t length, int64_t label, struct leat_error *error)
{
    struct leat_value_ref values[3] = {{NULL, length, in(name)}, {&label, 8, NULL}, {name, strlen(name), NULL}};
    return leat_writer_add(w, values, NULL, error);
}

TEST_IN_FOLDER(values_by_path_are_the_bytes_of_the_files)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    struct leat_source *s;
    uint8_t bytes[MADE_ROOM], back[MADE_ROOM];
    uint64_t n;
    assert_ok(writer_open_with(in("a.leat"), filed, 3, &o, &toy_codec, &w, &error));
    for (uint64_t i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "%" PRIu64 ".toy", i);
        n = made_value(0, i, bytes);
        made_write(in(name), bytes, n);
        assert_ok(add_filed(w, name, n, (int64_t)i, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    for (uint64_t i = 0; i < 20; i++) {
        n = made_value(0, i, bytes);
        uint64_t m;
        assert_ok(made_read(s, 0, i, back, &m, &error));
        assert_int_equal(m, n);
        assert_memory_equal(back, bytes, n);
    }
    leat_source_close(s);
}

TEST_IN_FOLDER(a_file_that_changed_or_went_away_stops_the_writer)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    made_write(in("a.toy"), "TP......g", 9);
    made_write(in("b.toy"), "TP......g", 9);
    const int codes[3] = {LEAT_E_CHANGED, LEAT_E_IO, LEAT_E_CHANGED};
    for (int k = 0; k < 3; k++) {
        assert_ok(writer_open_with(in("a.leat"), filed, 3, &o, &toy_codec, &w, &error));
        assert_ok(add_filed(w, "a.toy", 9, 1, &error));
        assert_ok(add_filed(w, k == 1 ? "nothing.toy" : "b.toy", k == 0 ? 8 : k == 1 ? 9 : 10, 1, &error));
        assert_int_equal(leat_writer_finish(w, &error), codes[k]);
        assert_int_equal(error.sample, 1);
        assert_string_equal(error.file, in(k == 1 ? "nothing.toy" : "b.toy"));
        assert_int_equal(add_filed(w, "a.toy", 9, 1, &error), LEAT_E_INVALID);
        leat_writer_free(w, false);
        assert_int_equal(access(in("a.leat"), F_OK), -1);
        assert_int_equal(access(in("a.leat.partial"), F_OK), -1);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST_IN_FOLDER(schemas_that_make_no_sense_are_refused)
{
    struct leat_error error;
    struct leat_writer *w;
    char longest[65];
    memset(longest, 'a', 64);
    longest[64] = 0;
    const struct leat_field bad[][2] = {
        {{.name = "", .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a b", .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = ".b", .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "1", .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = longest, .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = longest + 8, .kind = LEAT_KIND_IMAGE}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "b", .kind = LEAT_KIND_BYTES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_IMAGE},
         {.name = "a.width", .kind = LEAT_KIND_BYTES, .flags = LEAT_FIELD_DERIVED}},
        {{.name = "a", .kind = (enum leat_kind)9}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = (enum leat_dtype)0}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = (enum leat_dtype)99}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 9}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {0}},
         {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 2, .shape = {3, -1}},
         {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 3, .shape = {INT64_MAX, INT64_MAX, 4}},
         {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_BYTES, .flags = LEAT_FIELD_FILES}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_BYTES, .flags = 64}, {.name = "b", .kind = LEAT_KIND_BYTES}},
        {{.name = "a", .kind = LEAT_KIND_BYTES, .layout = (enum leat_layout)7}, {.name = "b", .kind = LEAT_KIND_BYTES}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = writer_open_with(in("a.leat"), bad[i], 2, NULL, &toy_codec, &w, &error);
        if (rc != LEAT_E_INVALID)
            fail_msg("schema %zu: %s", i, leat_status_name(rc));
        assert_null(w);
        assert_true(error.message[0] != 0);
    }
    assert_int_equal(writer_open_with(in("a.leat"), made_fields, 0, NULL, &toy_codec, &w, &error), LEAT_E_INVALID);
    assert_int_equal(access(in("a.leat.partial"), F_OK), -1);
}

TEST_IN_FOLDER(values_that_do_not_fit_their_field_are_refused_and_leave_no_trace)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_writer *w;
    uint8_t room[MADE_FIELDS][MADE_ROOM];
    const struct {
        size_t field;
        const char *data;
        uint64_t length;
    } bad[] = {
        {1, "xx", 2},          {12, "1234567", 7}, {14, "", 0},     {16, "12345678", 8}, {17, "123", 3},
        {13, "\2", 1},         {19, "\xff", 1},    {19, "\xc3", 1}, {20, "{", 1},        {20, "", 0},
        {20, "{\"a\":01}", 8}, {21, "a\0b", 3},    {20, "[1,]", 4}, {20, "nul", 3},      {20, "\"\n\"", 3},
    };
    assert_ok(made_open(in("a.leat"), &o, &w, &error));
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct leat_value_ref values[MADE_FIELDS] = {0};
        for (size_t f = 0; f < MADE_FIELDS; f++) {
            values[f].data = room[f];
            values[f].length = made_value(f, k, room[f]);
        }
        values[bad[k].field].data = bad[k].data;
        values[bad[k].field].length = bad[k].length;
        assert_int_equal(leat_writer_add(w, values, NULL, &error), LEAT_E_INVALID);
        assert_string_equal(error.field, made_fields[bad[k].field].name);
        assert_int_equal(error.sample, k);
        assert_ok(made_add(w, k, &error));
    }
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    struct leat_source *s;
    assert_ok(leat_source_open(in("a.leat"), NULL, &s, &error));
    assert_int_equal(s->count, sizeof bad / sizeof *bad);
    for (uint64_t i = 0; i < s->count; i++)
        assert_made(s, i, i);
    leat_source_close(s);
}

TEST_IN_FOLDER(options_that_make_no_sense_are_refused)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = made_options();
    o.metadata = "[1]";
    assert_int_equal(made_open(in("a.leat"), &o, &w, &error), LEAT_E_INVALID);
    o.metadata = "{\"a\": }";
    assert_int_equal(made_open(in("a.leat"), &o, &w, &error), LEAT_E_INVALID);
    o = made_options();
    o.quality = 101;
    assert_int_equal(made_open(in("a.leat"), &o, &w, &error), LEAT_E_INVALID);
    o = made_options();
    o.on_bad = (enum leat_on_bad)5;
    assert_int_equal(made_open(in("a.leat"), &o, &w, &error), LEAT_E_INVALID);
    o = made_options();
    assert_int_equal(made_open(in("no/such/folder.leat"), &o, &w, &error), LEAT_E_IO);
    assert_int_equal(made_open(folder, &o, &w, &error), LEAT_E_EXISTS);
}

/* ---- shards ---------------------------------------------------------------------------------- */

TEST_IN_FOLDER(shards_hold_what_one_file_holds)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_manifest m;
    struct leat_source *s, *one;
    made_extra = EXTRA;
    assert_ok(made_file(in("one.leat"), MANY, &o, &error));
    o.shard_bytes = 1 << 20;
    assert_ok(made_file(in("many.leat"), MANY, &o, &error));
    assert_ok(leat_source_open(in("one.leat"), NULL, &one, &error));
    assert_ok(leat_manifest_read(in("many.leat"), &m, &error));
    assert_true(m.n_shards >= 3);
    assert_int_equal(m.count, MANY);
    assert_int_equal(m.sums[0], one->fingerprint[0]);
    assert_int_equal(m.sums[1], one->fingerprint[1]);
    uint64_t first = 0;
    for (size_t i = 0; i < m.n_shards; i++) {
        char name[64];
        snprintf(name, sizeof name, "many.%05zu.leat", i);
        assert_string_equal(m.shards[i].file, name);
        char *path = leat_manifest_shard_path(in("many.leat"), m.shards[i].file);
        assert_ok(leat_source_open(path, NULL, &s, &error));
        assert_ok(leat_manifest_check_shard(&m.shards[i], s, &error));
        assert_string_equal(s->classes[1], "dog");
        for (uint64_t row = 0; row < s->count; row += 97)
            assert_made(s, row, first + row);
        first += s->count;
        leat_source_close(s);
        leat_free(path);
    }
    assert_ok(leat_verify(in("many.leat"), NULL, &error));
    assert_int_equal(made_file(in("many.leat"), 10, &o, &error), LEAT_E_EXISTS);
    o.overwrite = true; /* a smaller one leaves no shards of the larger behind */
    assert_ok(made_file(in("many.leat"), 10, &o, &error));
    assert_int_equal(access(in("many.00000.leat"), F_OK), 0);
    assert_int_equal(access(in("many.00001.leat"), F_OK), -1);
    assert_ok(leat_verify(in("many.leat"), NULL, &error));
    leat_manifest_destroy(&m);
    leat_source_close(one);
}

static int count_faults(void *user, const struct leat_error *fault)
{
    *(int *)user += fault->code < 0;
    return 0;
}

TEST_IN_FOLDER(a_missing_exchanged_or_damaged_shard_is_found)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_manifest m;
    struct leat_source *s;
    int faults = 0;
    struct leat_verify_options v = {.struct_size = sizeof v, .report = count_faults, .user = &faults};
    o.shard_bytes = 1;
    made_extra = EXTRA;
    assert_ok(made_file(in("many.leat"), MANY, &o, &error));
    assert_ok(leat_manifest_read(in("many.leat"), &m, &error));
    assert_true(m.n_shards >= 3);
    assert_int_equal(rename(in("many.00001.leat"), in("kept")), 0);
    assert_int_equal(leat_verify(in("many.leat"), &v, &error), LEAT_E_CORRUPT);
    assert_int_equal(faults, 1);
    assert_int_equal(link(in("many.00000.leat"), in("many.00001.leat")), 0);
    faults = 0;
    assert_int_equal(leat_verify(in("many.leat"), &v, &error), LEAT_E_CORRUPT);
    assert_int_equal(faults, 1);
    assert_ok(leat_source_open(in("many.00001.leat"), NULL, &s, &error));
    assert_int_equal(leat_manifest_check_shard(&m.shards[1], s, &error), LEAT_E_CHANGED);
    assert_string_equal(error.file, in("many.00001.leat"));
    leat_source_close(s);
    leat_manifest_destroy(&m);
}

TEST_IN_FOLDER(a_manifest_with_any_flipped_bit_or_cut_is_refused)
{
    struct leat_error error;
    struct leat_manifest m;
    struct leat_writer_options o = made_options();
    o.shard_bytes = 1 << 20;
    assert_ok(made_file(in("many.leat"), 10, &o, &error));
    size_t n;
    uint8_t *text = made_bytes(in("many.leat"), &n);
    assert_ok(leat_manifest_parse((char *)text, n, &m, &error));
    leat_manifest_destroy(&m);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            text[i] ^= (uint8_t)(1 << bit);
            assert_int_not_equal(leat_manifest_parse((char *)text, n, &m, &error), LEAT_OK);
            text[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t length = 0; length < n; length++)
        assert_int_not_equal(leat_manifest_parse((char *)text, length, &m, &error), LEAT_OK);
    free(text);
}

TEST_IN_FOLDER(a_manifest_names_nothing_outside_its_folder)
{
    struct leat_error error;
    struct leat_manifest m, back;
    static const char *const bad[] = {"../a.leat", "/etc/passwd", "..", ".", "a/b.leat", ""};
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        struct leat_manifest_shard shard = {
            .file = i < 6 ? (char *)(uintptr_t)bad[i] : (char *)(uintptr_t) "a \"b\"\\\t.leat", .count = 3};
        m = (struct leat_manifest){.shards = &shard, .n_shards = 1};
        char *text;
        size_t n;
        assert_ok(leat_manifest_text(&m, &text, &n, &error));
        int rc = leat_manifest_parse(text, n, &back, &error);
        if (i < 6) {
            assert_int_equal(rc, LEAT_E_CORRUPT);
        } else {
            assert_ok(rc);
            assert_string_equal(back.shards[0].file, shard.file);
            leat_manifest_destroy(&back);
        }
        leat_free(text);
    }
}

TEST_IN_FOLDER(the_fingerprint_does_not_depend_on_what_is_derived)
{
    struct leat_error error;
    struct leat_writer_options o = made_options();
    struct leat_source *a, *b;
    assert_ok(made_file(in("a.leat"), 50, &o, &error));
    o.check = false;
    o.num_threads = 1;
    assert_ok(made_file(in("b.leat"), 50, &o, &error));
    assert_ok(leat_source_open(in("a.leat"), NULL, &a, &error));
    assert_ok(leat_source_open(in("b.leat"), NULL, &b, &error));
    assert_memory_equal(a->fingerprint, b->fingerprint, 16);
    leat_source_close(b);
    unlink(in("b.leat"));
    assert_ok(made_file(in("b.leat"), 49, &o, &error));
    assert_ok(leat_source_open(in("b.leat"), NULL, &b, &error));
    assert_memory_not_equal(a->fingerprint, b->fingerprint, 16);
    leat_source_close(a);
    leat_source_close(b);
}

TEST_MAIN()
