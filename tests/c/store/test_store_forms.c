/* Photos in the file: the index behind one that stays as it came, and other forms. */
#include "../folder.h"
#include "made.h"
#include "store/layout.h"

static char path[PATH_MAX + 16], other[PATH_MAX + 16];

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(path, sizeof path, "%s/a.leat", folder);
    snprintf(other, sizeof other, "%s/b.leat", folder);
    made_codec = &toy_form_codec;
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

enum { SAMPLES = 40 };

static struct leat_source *written(const char *to, enum leat_photos photos, uint64_t n)
{
    struct leat_error error;
    struct leat_source *s;
    struct leat_writer_options o = made_options();
    o.photos = photos;
    o.overwrite = true;
    assert_ok(made_file(to, n, &o, &error));
    assert_ok(leat_source_open(to, NULL, &s, &error));
    return s;
}

static struct leat_extent image_of(struct leat_source *s, uint64_t i)
{
    struct leat_error error;
    struct leat_extent e;
    size_t failed;
    assert_ok(s->v->extents(s, 0, &i, 1, &e, &failed, &error));
    return e;
}

static int faults;
static int count_fault(void *user, const struct leat_error *fault)
{
    struct leat_error *first = user;
    if (!faults++)
        *first = *fault;
    return 0;
}

static int verify(const char *file, struct leat_error *first)
{
    struct leat_verify_options v = {.struct_size = sizeof v, .report = count_fault, .user = first};
    faults = 0;
    return leat_verify(file, &v, NULL);
}

TEST_IN_FOLDER(a_row_index_lies_behind_its_photo_which_is_as_it_came)
{
    static uint8_t toy[MADE_ROOM];
    struct leat_error error;
    struct leat_source *s = written(path, LEAT_PHOTOS_ORIGINAL, SAMPLES);
    size_t n;
    uint8_t *bytes = made_bytes(path, &n);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t length = made_value(0, i, toy);
        const struct leat_extent e = image_of(s, i);
        assert_made(s, i, i);
        assert_int_equal(e.length, length);
        assert_int_equal(e.checksum, leat_hash64(toy, length));
        assert_int_equal(e.info.form, LEAT_FORM_ORIGINAL);
        assert_int_equal(e.info.rows_length, i % 11 == 5 || length % 3 == 0 ? 0 : ROWS_BYTES);
        assert_null(e.info.rows);
        for (unsigned b = 4; b < e.info.rows_length; b++)
            assert_int_equal(bytes[e.offset + e.length + b], length & 255);
    }
    assert_ok(verify(path, &error));
    made_codec = &toy_codec;
    struct leat_source *plain = written(other, LEAT_PHOTOS_ORIGINAL, SAMPLES);
    assert_memory_equal(s->fingerprint, plain->fingerprint, sizeof s->fingerprint);
    leat_source_close(plain);
    leat_source_close(s);
    free(bytes);
}

TEST_IN_FOLDER(a_damaged_row_index_is_found_and_harms_no_value)
{
    struct leat_error error;
    struct leat_source *s = written(path, LEAT_PHOTOS_ORIGINAL, SAMPLES);
    size_t n;
    uint8_t *bytes = made_bytes(path, &n);
    uint64_t sample = 0;
    while (!image_of(s, sample).info.rows_length)
        sample++;
    const struct leat_extent e = image_of(s, sample);
    leat_source_close(s);
    bytes[e.offset + e.length + 6] ^= 1;
    made_write(path, bytes, n);
    assert_int_equal(verify(path, &error), LEAT_E_CORRUPT);
    assert_int_equal(faults, 1);
    assert_int_equal(error.sample, sample);
    assert_int_equal(error.offset, e.offset + e.length);
    assert_non_null(strstr(error.message, "row index"));
    assert_ok(leat_source_open(path, NULL, &s, &error));
    for (uint64_t i = 0; i < SAMPLES; i++)
        assert_made(s, i, i);
    leat_source_close(s);
    free(bytes);
}

TEST_IN_FOLDER(a_photo_in_another_form_keeps_what_is_known_of_the_one_that_came)
{
    static uint8_t toy[MADE_ROOM];
    struct leat_error error;
    struct leat_source *came = written(other, LEAT_PHOTOS_ORIGINAL, SAMPLES),
                       *s = written(path, LEAT_PHOTOS_RAW, SAMPLES);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t length = made_value(0, i, toy);
        const struct leat_extent a = image_of(came, i), b = image_of(s, i);
        assert_int_equal(b.info.form,
                         i % 11 == 5 || (i + 1) * (i + 1) > TOY_PIXELS ? LEAT_FORM_ORIGINAL : LEAT_FORM_RAW);
        if (b.info.form) {
            assert_int_equal(b.info.original, length);
            assert_int_equal(b.length, (i + 1) * (i + 1) + LEAT_RAW_HEADER);
            assert_int_equal(b.info.rows_length, 0);
        } else {
            assert_int_equal(b.length, length);
            assert_int_equal(b.info.rows_length, a.info.rows_length);
        }
        assert_int_equal(a.info.size[0], b.info.size[0]);
        assert_int_equal(a.info.size[1], b.info.size[1]);
        assert_int_equal(a.info.channels, b.info.channels);
        assert_int_equal(a.info.kind, b.info.kind);
        assert_int_equal(a.info.health, b.info.health);
    }
    assert_memory_equal(s->fingerprint, came->fingerprint, sizeof s->fingerprint);
    assert_ok(verify(path, &error));
    leat_source_close(came);
    leat_source_close(s);
}

TEST_IN_FOLDER(the_fingerprint_of_values_that_are_no_files_is_that_of_what_came_too)
{
    static const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE};
    uint8_t toy[MADE_ROOM], prints[2][16];
    for (int raw = 0; raw < 2; raw++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_dataset *d;
        struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
        o.photos = raw ? LEAT_PHOTOS_RAW : LEAT_PHOTOS_ORIGINAL;
        o.overwrite = true;
        assert_ok(writer_open_with(path, &field, 1, &o, &toy_form_codec, &w, &error));
        for (uint64_t i = 0; i < SAMPLES; i++) {
            const struct leat_value_ref value = {toy, made_value(0, i, toy), NULL};
            assert_ok(leat_writer_add(w, &value, NULL, &error));
        }
        assert_ok(leat_writer_finish(w, &error));
        leat_writer_free(w, false);
        assert_ok(leat_dataset_open(path, NULL, &d, &error));
        leat_dataset_fingerprint(d, prints[raw]);
        leat_dataset_release(d);
    }
    assert_memory_equal(prints[0], prints[1], 16);
}

static void assert_reasons(const struct leat_writer *w, uint64_t n)
{
    uint8_t toy[MADE_ROOM];
    uint64_t large = 0, very = 0;
    struct leat_writer_progress progress;
    struct leat_as_came why;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t length = made_value(0, i, toy), pixels = (i % 1000 + 1) * (i % 700 + 1);
        if (i % 11 == 5 || pixels <= TOY_PIXELS)
            continue;
        large += length % 4 != 0;
        very += length % 4 == 0;
    }
    leat_writer_progress(w, &progress);
    assert_int_equal(progress.as_came, large + very);
    assert_true(leat_writer_as_came(w, 0, &why));
    assert_string_equal(why.reason, "it is too large");
    assert_int_equal(why.photos, large);
    assert_true(leat_writer_as_came(w, 1, &why));
    assert_string_equal(why.reason, "it is much too large");
    assert_int_equal(why.photos, very);
    assert_false(leat_writer_as_came(w, 2, &why));
}

TEST_IN_FOLDER(photos_that_stay_as_they_came_are_counted_by_reason_and_after_a_resume_too)
{
    enum { MANY = 4000 };
    struct leat_error error;
    struct leat_writer *w;
    struct leat_bad_sample bad;
    struct leat_writer_options o = made_options();
    o.photos = LEAT_PHOTOS_RAW;
    o.resume = true;
    for (int run = 0; run < 2; run++) {
        assert_ok(made_open(path, &o, &w, &error));
        assert_true(run ? leat_writer_count(w) > 0 : leat_writer_count(w) == 0);
        for (uint64_t i = leat_writer_count(w); i < (run ? MANY : MANY / 2); i++)
            assert_ok(made_add(w, i, &error));
        if (!run) {
            leat_writer_free(w, true);
            continue;
        }
        assert_ok(leat_writer_finish(w, &error));
        assert_reasons(w, MANY);
        size_t n_bad = 0;
        for (; leat_writer_bad(w, n_bad, &bad); n_bad++)
            assert_int_equal(bad.index % 11, 5);
        assert_int_equal(n_bad, (MANY + 5) / 11);
        leat_writer_free(w, false);
    }
    assert_ok(verify(path, &error));
}

/* A form that no photo has, each for a reason of its own. */
static int refuse_each(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data,
                       size_t length, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "its width is %u", leat_get_u16((const uint8_t *)data + 2));
}

TEST_IN_FOLDER(the_number_of_reasons_is_bounded)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_as_came why;
    struct leat_writer_progress progress;
    struct leat_writer_options o = made_options();
    struct leat_codec codec = toy_form_codec;
    codec.pack = refuse_each;
    made_codec = &codec;
    o.photos = LEAT_PHOTOS_FAST;
    assert_ok(made_open(path, &o, &w, &error));
    for (uint64_t i = 0; i < 110; i++)
        assert_ok(made_add(w, i, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_progress(w, &progress);
    assert_int_equal(progress.as_came, 100);
    uint64_t all = 0;
    size_t n = 0;
    for (; leat_writer_as_came(w, n, &why); n++)
        all += why.photos;
    assert_int_equal(all, 100);
    assert_int_equal(n, 32);
    assert_true(leat_writer_as_came(w, 0, &why));
    assert_string_equal(why.reason, "other reasons");
    leat_writer_free(w, false);
}

/* Two photos a sample. The first stays as it came, the second is broken. */
static int write_pairs(const struct leat_writer_options *o, struct leat_writer **w, struct leat_error *error)
{
    static const struct leat_field pair[2] = {{.name = "left", .kind = LEAT_KIND_IMAGE},
                                              {.name = "right", .kind = LEAT_KIND_IMAGE}};
    static uint8_t left[MADE_ROOM], right[MADE_ROOM];
    int rc = writer_open_with(path, pair, 2, o, &toy_form_codec, w, error);
    for (uint64_t i = 0; i < 3 && !rc; i++) {
        const uint64_t n = made_value(0, 100, left), m = made_value(0, i == 1 ? 5 : 3, right);
        const struct leat_value_ref values[2] = {{left, n, NULL}, {right, m, NULL}};
        rc = leat_writer_add(*w, values, NULL, error);
    }
    return rc ? rc : leat_writer_finish(*w, error);
}

TEST_IN_FOLDER(of_a_sample_that_is_left_out_nothing_else_is_said)
{
    for (int skip = 0; skip < 2; skip++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_bad_sample bad;
        struct leat_writer_progress progress;
        struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
        o.photos = LEAT_PHOTOS_RAW;
        o.on_bad = skip ? LEAT_BAD_SKIP : LEAT_BAD_MARK;
        o.overwrite = true;
        assert_ok(write_pairs(&o, &w, &error));
        leat_writer_progress(w, &progress);
        assert_int_equal(progress.samples, skip ? 2 : 3);
        assert_int_equal(progress.as_came, skip ? 2 : 3);
        assert_int_equal(progress.broken, !skip);
        assert_int_equal(progress.skipped, skip);
        assert_true(leat_writer_bad(w, 0, &bad));
        assert_int_equal(bad.index, 1);
        assert_int_equal(bad.skipped, skip);
        assert_false(leat_writer_bad(w, 1, &bad));
        leat_writer_free(w, false);
        assert_ok(verify(path, &error));
    }
}

TEST_IN_FOLDER(a_sample_of_two_broken_photos_is_one_broken_sample)
{
    static const struct leat_field pair[2] = {{.name = "left", .kind = LEAT_KIND_IMAGE},
                                              {.name = "right", .kind = LEAT_KIND_IMAGE}};
    uint8_t toy[MADE_ROOM];
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_progress progress;
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    assert_ok(writer_open_with(path, pair, 2, &o, &toy_codec, &w, &error));
    const uint64_t n = made_value(0, 5, toy);
    const struct leat_value_ref values[2] = {{toy, n, NULL}, {toy, n, NULL}};
    assert_ok(leat_writer_add(w, values, NULL, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_progress(w, &progress);
    assert_int_equal(progress.broken, 1);
    leat_writer_free(w, false);
    assert_ok(verify(path, &error));
}

TEST_IN_FOLDER(other_forms_are_refused_where_there_are_none)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = made_options();
    o.photos = LEAT_PHOTOS_FAST;
    made_codec = &toy_codec; /* cannot pack */
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_UNSUPPORTED);
    made_codec = &toy_form_codec;
    o.photos = (enum leat_photos)3;
    assert_int_equal(made_open(path, &o, &w, &error), LEAT_E_INVALID);
    static const struct leat_field number = {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8};
    o.photos = LEAT_PHOTOS_RAW; /* of no photos: of no consequence */
    assert_ok(writer_open_with(path, &number, 1, &o, NULL, &w, &error));
    assert_ok(leat_writer_finish(w, &error));
    leat_writer_free(w, false);
    size_t n;
    uint8_t *bytes = made_bytes(path, &n);
    assert_int_equal(leat_get_u32(bytes + 12), 0);
    free(bytes);
}

/* ---- bytes from outside ---------------------------------------------------------------------- */

/* Makes the checksums of a file of one group right again, from its column of `image` on. */
static void mend(uint8_t *bytes, size_t n)
{
    struct leat_store_layout layout;
    struct leat_store_shape shape;
    struct leat_store_group group;
    struct leat_store_footer footer;
    struct leat_store_identity identity;
    const uint64_t header = leat_get_u64(bytes + 16);
    leat_put_u64(bytes + header - 8, leat_hash64(bytes, header - 8));
    assert_int_equal(leat_store_header_get(bytes, header, &layout, &identity, NULL), LEAT_OK);
    uint8_t *g = bytes + header;
    assert_true(leat_store_group_get(g, &group));
    assert_true(leat_store_group_shape(&layout, group.n_rows, group.payload_bytes, group.directory_bytes, &shape));
    uint8_t *sums = g + shape.directory_at + LEAT_STORE_GROUP_FACTS;
    for (uint32_t c = 0; c < layout.n_stored; c++, sums += 8) { /* a page each */
        const struct leat_store_field *info = &layout.info[layout.order[c]];
        leat_put_u64(sums, leat_hash64(g + shape.columns_at + info->before * group.n_rows, info->width * group.n_rows));
    }
    group.directory_checksum = leat_hash64(g + shape.directory_at, group.directory_bytes);
    leat_store_group_put(g, &group);
    leat_store_footer_get(bytes + n - 64, &footer, NULL);
    for (uint64_t x = footer.directory_at; x < footer.directory_at + footer.directory_bytes;
         x += LEAT_STORE_SECTION_ENTRY) {
        const uint64_t from = leat_get_u64(bytes + x + 8), length = leat_get_u64(bytes + x + 16);
        if (leat_get_u32(bytes + x) == LEAT_SECTION_GROUPS)
            leat_put_u64(bytes + from + 40, group.directory_checksum);
        leat_put_u64(bytes + x + 24, leat_hash64(bytes + from, length));
    }
    leat_put_u64(bytes + n - 64 + 32, leat_hash64(bytes + footer.directory_at, footer.directory_bytes));
    leat_put_u64(bytes + n - 16, leat_get_u64(bytes + header - 8));
    leat_put_u64(bytes + n - 8, leat_hash64(bytes + n - 64, 56));
    leat_store_layout_destroy(&layout);
}

/* The record of a photo of a file of one group. */
static uint8_t *record_of(uint8_t *bytes, uint64_t sample)
{
    struct leat_store_layout layout;
    struct leat_store_shape shape;
    struct leat_store_group group;
    struct leat_store_identity identity;
    const uint64_t header = leat_get_u64(bytes + 16);
    assert_int_equal(leat_store_header_get(bytes, header, &layout, &identity, NULL), LEAT_OK);
    assert_true(leat_store_group_get(bytes + header, &group));
    assert_true(leat_store_group_shape(&layout, group.n_rows, group.payload_bytes, group.directory_bytes, &shape));
    uint8_t *record =
        bytes + header + shape.columns_at + layout.info[0].before * group.n_rows + sample * layout.info[0].width;
    leat_store_layout_destroy(&layout);
    return record;
}

/* What reading says of sample `sample` once its record is changed; *first: the first thing that verifying says. */
static int read_changed(uint8_t *bytes, size_t n, uint64_t sample, struct leat_error *first)
{
    struct leat_dataset *d;
    struct leat_value value;
    struct leat_error error;
    mend(bytes, n);
    made_write(path, bytes, n);
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    int rc = leat_dataset_read(d, sample, 0, &value, &error);
    leat_value_clear(&value);
    leat_dataset_release(d);
    assert_int_equal(verify(path, first), LEAT_E_CORRUPT);
    return rc;
}

TEST_IN_FOLDER(a_record_with_an_impossible_form_is_refused)
{
    struct leat_error error;
    size_t n;
    leat_source_close(written(path, LEAT_PHOTOS_RAW, SAMPLES));
    uint8_t *good = made_bytes(path, &n), *bytes = malloc(n);
    static const struct {
        unsigned at, form;
        uint32_t extra;
    } bad[] = {
        {2, 3, 100},                     /* no such form */
        {2, 255, 100},                   /* */
        {2, LEAT_FORM_FAST, 100},        /* pixels are no fast form */
        {2, LEAT_FORM_ORIGINAL, 100},    /* no row index lies there */
        {2, LEAT_FORM_ORIGINAL, 1 << 30} /* nor in the file */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(bytes, good, n);
        record_of(bytes, bad[i].at)[35] = (uint8_t)bad[i].form;
        leat_put_u32(record_of(bytes, bad[i].at) + 36, bad[i].extra);
        int rc = read_changed(bytes, n, bad[i].at, &error);
        if (i != 3) /* that one has bytes behind it, which verify finds not to be an index */
            assert_int_equal(rc, LEAT_E_CORRUPT);
    }
    memcpy(bytes, good, n);
    leat_put_u64(record_of(bytes, 2) + 8, 15); /* shorter than its header */
    assert_int_equal(read_changed(bytes, n, 2, &error), LEAT_E_CORRUPT);
    memcpy(bytes, good, n);
    leat_put_u32(record_of(bytes, 2) + 24, 77); /* another width than the pixels have: only verify compares them */
    assert_ok(read_changed(bytes, n, 2, &error));
    assert_non_null(strstr(error.message, "form"));
    memcpy(bytes, good, n);
    leat_put_u32(record_of(bytes, 2) + 28, 77); /* another height */
    assert_ok(read_changed(bytes, n, 2, &error));
    assert_non_null(strstr(error.message, "form"));
    free(good);
    free(bytes);
}

TEST_IN_FOLDER(another_form_in_a_file_that_does_not_announce_it_is_refused)
{
    struct leat_error error;
    size_t n;
    leat_source_close(written(path, LEAT_PHOTOS_RAW, SAMPLES));
    uint8_t *bytes = made_bytes(path, &n);
    assert_int_equal(leat_get_u32(bytes + 12), LEAT_FEATURE_FORMS);
    leat_put_u32(bytes + 12, 0);
    assert_int_equal(read_changed(bytes, n, 2, &error), LEAT_E_CORRUPT);
    free(bytes);
}

TEST_IN_FOLDER(what_claims_to_be_the_fast_form_and_is_not_is_an_error)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_value value;
    leat_source_close(written(path, LEAT_PHOTOS_FAST, SAMPLES)); /* toys have a false one */
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    assert_int_equal(leat_dataset_read(d, 2, 0, &value, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.sample, 2);
    assert_string_equal(error.file, path);
    leat_dataset_release(d);
    assert_int_equal(verify(path, &error), LEAT_E_CORRUPT);
    assert_non_null(strstr(error.message, "form"));
}

TEST_IN_FOLDER(a_flipped_bit_in_any_byte_is_found)
{
    static const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE};
    uint8_t toy[MADE_ROOM];
    for (int raw = 0; raw < 2; raw++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
        o.photos = raw ? LEAT_PHOTOS_RAW : LEAT_PHOTOS_ORIGINAL;
        o.overwrite = true;
        assert_ok(writer_open_with(path, &field, 1, &o, &toy_form_codec, &w, &error));
        for (uint64_t i = 0; i < 4; i++) {
            const struct leat_value_ref value = {toy, made_value(0, i, toy), NULL};
            assert_ok(leat_writer_add(w, &value, NULL, &error));
        }
        assert_ok(leat_writer_finish(w, &error));
        leat_writer_free(w, false);
        size_t n;
        uint8_t *bytes = made_bytes(path, &n);
        for (size_t i = 0; i < n; i++) {
            bytes[i] ^= (uint8_t)(1u << i % 8);
            made_write(path, bytes, n);
            assert_true(verify(path, &error) != LEAT_OK);
            bytes[i] ^= (uint8_t)(1u << i % 8);
        }
        free(bytes);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

TEST_IN_FOLDER(a_file_says_how_many_photos_it_has_in_each_form)
{
    struct leat_error error;
    struct leat_source_about about = {0};
    struct leat_source *s = written(path, LEAT_PHOTOS_RAW, SAMPLES);
    uint64_t n[LEAT_FORMS] = {0}, bytes[LEAT_FORMS] = {0}, came[LEAT_FORMS] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const struct leat_extent e = image_of(s, i);
        n[e.info.form]++;
        bytes[e.info.form] += e.length + e.info.rows_length;
        came[e.info.form] += e.info.form ? e.info.original : e.length;
    }
    assert_ok(s->v->about(s, &about, &error));
    assert_memory_equal(about.photos, n, sizeof n);
    assert_memory_equal(about.photo_bytes, bytes, sizeof n);
    assert_memory_equal(about.original_bytes, came, sizeof n);
    leat_source_close(s);
    s = written(path, LEAT_PHOTOS_ORIGINAL, SAMPLES);
    assert_ok(s->v->about(s, &about, &error));
    assert_int_equal(about.photos[LEAT_FORM_ORIGINAL], SAMPLES);
    assert_int_equal(about.photos[LEAT_FORM_RAW], 0);
    leat_source_close(s);
}

TEST_IN_FOLDER(photos_of_each_field_are_counted)
{
    static const struct leat_field fields[] = {{.name = "left", .kind = LEAT_KIND_IMAGE},
                                               {.name = "right", .kind = LEAT_KIND_IMAGE}};
    uint8_t toy[MADE_ROOM];
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_source *s;
        struct leat_source_about about = {0};
        struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
        o.photos = photos;
        o.overwrite = true;
        assert_ok(writer_open_with(path, fields, 2, &o, &toy_form_codec, &w, &error));
        for (uint64_t i = 0; i < 3; i++) {
            const uint64_t length = made_value(0, 2, toy);
            const struct leat_value_ref both[] = {{toy, length, NULL}, {toy, length, NULL}};
            assert_ok(leat_writer_add(w, both, NULL, &error));
        }
        assert_ok(leat_writer_finish(w, &error));
        leat_writer_free(w, false);
        assert_ok(leat_source_open(path, NULL, &s, &error));
        assert_ok(s->v->about(s, &about, &error));
        for (unsigned form = 0; form < LEAT_FORMS; form++)
            assert_int_equal(about.photos[form], form == (unsigned)photos ? 6 : 0);
        leat_source_close(s);
    }
}

TEST_MAIN()
