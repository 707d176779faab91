/*
 * Photos of every kind, packed in each form: the same verdicts, values and batches; memory and calls that fail; golden
 * files, which `test_forms write FOLDER` writes. 10 s under sanitizers: all photos are packed anew for each allocation
 * and each write that fails.
 */
#include "../allocations.h"
#include "kinds.h"

#include "base/hash.h"
#include "codec/jpeg/rows.h"
#include "codec/photo/photo.h"
#include "codec/photo/raw.h"

#define TEST_IN_FOLDER(name) TEST_IN(name, make_folder, remove_folder)

static void assert_same_bytes(const char *a, const char *b)
{
    size_t n, m;
    uint8_t *p = photo_file("", a, &n), *q = photo_file("", b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(p);
    free(q);
}

/* ---- what is stored -------------------------------------------------------------------------- */

TEST_IN_FOLDER(each_form_has_the_same_verdicts_facts_and_fingerprint)
{
    struct leat_extent first[KINDS];
    uint64_t fingerprint[2] = {0, 0};
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_source *s;
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        pack(path, &o);
        assert_ok(leat_verify(path, NULL, &error));
        assert_ok(leat_source_open(path, NULL, &s, &error));
        for (unsigned i = 0; i < KINDS; i++) {
            const struct leat_extent e = extent_of(s, i);
            assert_int_equal(e.info.health, is_good(i) ? LEAT_HEALTH_GOOD : LEAT_HEALTH_BROKEN);
            bool has_form = is_good(i) && (photos == LEAT_PHOTOS_RAW || is_jpeg(i));
            assert_int_equal(e.info.form, has_form ? photos : LEAT_PHOTOS_ORIGINAL);
            assert_int_equal(e.info.form ? e.info.original : e.length, files[i].length);
            if (!photos)
                first[i] = e;
            assert_int_equal(e.info.size[0], first[i].info.size[0]);
            assert_int_equal(e.info.size[1], first[i].info.size[1]);
            assert_int_equal(e.info.channels, first[i].info.channels);
            assert_int_equal(e.info.kind, first[i].info.kind);
        }
        if (!photos)
            memcpy(fingerprint, s->fingerprint, sizeof fingerprint);
        assert_memory_equal(fingerprint, s->fingerprint, sizeof fingerprint);
        leat_source_close(s);
    }
}

TEST_IN_FOLDER(a_photo_of_the_common_kind_gets_a_row_index_of_at_most_a_hundredth)
{
    struct leat_error error;
    struct leat_source *s;
    struct leat_writer_options o = wish(LEAT_PHOTOS_ORIGINAL);
    pack(path, &o);
    assert_ok(leat_source_open(path, NULL, &s, &error));
    for (unsigned i = 0; i < KINDS; i++) {
        const struct leat_extent e = extent_of(s, i);
        const bool common = i == BASELINE || i == RESTARTS || i == GRAY || i == TURNED || i == TRAILED;
        if (common || !is_jpeg(i) || i == PROGRESSIVE || i == ARITHMETIC)
            assert_int_equal(e.info.rows_length > 0, common);
        assert_true(e.info.rows_length <= e.length / 100);
        struct leat_io_file *file;
        uint8_t *rows = malloc(e.info.rows_length + 1);
        assert_ok(s->v->file(s, e.file, &file, &error));
        assert_ok(leat_io_read(file, e.offset + e.length, e.info.rows_length, rows, &error));
        assert_true(!common || leat_jpeg_rows_whole(rows, e.info.rows_length));
        leat_io_release(file);
        free(rows);
    }
    leat_source_close(s);
    o.check = false; /* the index is what the check leaves */
    o.overwrite = true;
    pack(path, &o);
    assert_ok(leat_source_open(path, NULL, &s, &error));
    assert_int_equal(extent_of(s, BASELINE).info.rows_length, 0);
    leat_source_close(s);
}

TEST_IN_FOLDER(what_came_is_read_from_the_first_two_forms_and_pixels_from_the_third)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_dataset *d;
        struct leat_value value, lengths;
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        pack(path, &o);
        assert_ok(leat_dataset_open(path, NULL, &d, &error));
        assert_ok(leat_dataset_column(d, 0, true, false, &lengths, &error));
        for (unsigned i = 0; i < KINDS; i++) {
            assert_ok(leat_dataset_read(d, i, 0, &value, &error));
            assert_int_equal(value.length, ((const uint64_t *)lengths.data)[i]);
            assert_int_equal(value.orientation, photos < LEAT_PHOTOS_RAW || !is_good(i) ? 0 : i == TURNED ? 6 : 1);
            if (photos < LEAT_PHOTOS_RAW || !is_good(i)) {
                assert_int_equal(value.ndim, 1);
                assert_int_equal(value.shape[0], files[i].length);
                assert_int_equal(value.length, files[i].length);
                assert_memory_equal(value.data, files[i].bytes, files[i].length);
            } else {
                const struct leat_decode_request request = {.data = files[i].bytes, .length = files[i].length};
                struct leat_decoder *decoder = leat_decoder_new(&leat_codec_photo);
                uint32_t w, h;
                const uint8_t *row, *pixel = value.data;
                assert_ok(leat_image_open(decoder, &request, &w, &h, &error));
                assert_int_equal(value.ndim, 3);
                assert_int_equal(value.shape[0], h);
                assert_int_equal(value.shape[1], w);
                assert_int_equal(value.shape[2], i == GRAY || i == GRAY_PNG ? 1 : 3);
                assert_ok(leat_decoder_begin(decoder, 1, 0, 0, w, h, &error));
                for (uint32_t y = 0; y < h; y++) {
                    assert_ok(leat_decoder_row(decoder, &row, &error));
                    for (uint32_t x = 0; x < w; x++, pixel += value.shape[2])
                        assert_memory_equal(pixel, row + 4 * x, (size_t)value.shape[2]);
                }
                assert_ok(leat_decoder_end(decoder, &error));
                leat_decoder_free(decoder);
            }
            leat_value_clear(&value);
        }
        leat_value_clear(&lengths);
        leat_dataset_release(d);
    }
}

TEST_IN_FOLDER(photos_without_the_form_are_counted_and_their_reasons_named)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_progress progress;
    struct leat_as_came why;
    struct leat_writer_options o = wish(LEAT_PHOTOS_FAST);
    assert_ok(pack_rounds(path, &o, 2, 0, &w, &error));
    leat_writer_progress(w, &progress);
    assert_int_equal(progress.as_came, 6);
    assert_int_equal(progress.broken, 8);
    assert_true(leat_writer_as_came(w, 0, &why));
    assert_int_equal(why.photos, 4);
    assert_non_null(strstr(why.reason, "PNG"));
    assert_true(leat_writer_as_came(w, 1, &why));
    assert_int_equal(why.photos, 2);
    assert_non_null(strstr(why.reason, "WebP"));
    assert_false(leat_writer_as_came(w, 2, &why));
    leat_writer_free(w, false);
}

TEST_IN_FOLDER(without_a_check_what_is_packed_into_a_form_is_found_broken_too)
{
    for (enum leat_photos photos = LEAT_PHOTOS_FAST; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_source *s;
        struct leat_writer_options o = wish(photos);
        o.check = false;
        o.overwrite = true;
        pack(path, &o);
        assert_ok(leat_source_open(path, NULL, &s, &error));
        for (unsigned i = 0; i < KINDS; i++) {
            bool as_came = photos == LEAT_PHOTOS_FAST && (i == PNG || i == GRAY_PNG || i == WEBP);
            assert_int_equal(extent_of(s, i).info.health, !is_good(i) ? LEAT_HEALTH_BROKEN
                                                          : as_came   ? LEAT_HEALTH_UNCHECKED
                                                                      : LEAT_HEALTH_GOOD);
        }
        leat_source_close(s);
    }
}

TEST_IN_FOLDER(broken_photos_can_be_left_out_or_end_the_packing_in_each_form)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_dataset *d;
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        o.on_bad = LEAT_BAD_SKIP;
        pack(path, &o);
        assert_ok(leat_verify(path, NULL, &error));
        assert_ok(leat_dataset_open(path, NULL, &d, &error));
        assert_int_equal(leat_dataset_count(d), CUT);
        leat_dataset_release(d);
        o.on_bad = LEAT_BAD_RAISE;
        assert_int_equal(pack_rounds(path, &o, 1, 0, &w, &error), LEAT_E_DECODE);
        assert_int_equal(error.sample, CUT);
        leat_writer_free(w, false);
    }
}

TEST_IN_FOLDER(a_photo_is_made_smaller_before_it_gets_its_form)
{
    struct leat_value smaller[KINDS];
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_source *s;
        struct leat_dataset *d;
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        o.max_side = 100;
        pack(path, &o);
        assert_ok(leat_verify(path, NULL, &error));
        assert_ok(leat_source_open(path, NULL, &s, &error));
        assert_ok(leat_dataset_open(path, NULL, &d, &error));
        for (unsigned i = 0; i < CUT; i++) {
            const struct leat_extent e = extent_of(s, i);
            struct leat_value value;
            assert_true(e.info.size[0] <= 100 && e.info.size[1] <= 100);
            assert_int_equal(e.info.form, photos == LEAT_PHOTOS_RAW || is_jpeg(i) ? photos : LEAT_PHOTOS_ORIGINAL);
            assert_int_equal(e.info.health, LEAT_HEALTH_GOOD);
            assert_ok(leat_dataset_read(d, i, 0, photos ? &value : &smaller[i], &error));
            if (photos == LEAT_PHOTOS_FAST) {
                assert_int_equal(value.length, smaller[i].length);
                assert_memory_equal(value.data, smaller[i].data, value.length);
            }
            if (photos)
                leat_value_clear(&value);
        }
        assert_true(photos || extent_of(s, BASELINE).info.rows_length > 0);
        leat_dataset_release(d);
        leat_source_close(s);
    }
    for (unsigned i = 0; i < CUT; i++)
        leat_value_clear(&smaller[i]);
}

TEST_IN_FOLDER(the_bytes_are_the_same_for_any_number_of_threads_and_after_a_stop)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_writer_options o = wish(photos);
        o.num_threads = 1;
        assert_ok(pack_rounds(other, &o, 3, 300000, &w, &error));
        leat_writer_free(w, false);
        o.num_threads = 4;
        assert_ok(pack_rounds(path, &o, 3, 300000, &w, &error));
        leat_writer_free(w, false);
        assert_same_bytes(path, other);
        unlink(path);
        assert_ok(pack_some(path, &o, 30, 300000, &w, &error));
        leat_writer_free(w, true);
        assert_ok(pack_some(path, &o, 0, 0, &w, &error));
        assert_true(leat_writer_count(w) > 0);
        leat_writer_free(w, true);
        assert_ok(pack_rounds(path, &o, 3, 300000, &w, &error));
        leat_writer_free(w, false);
        assert_same_bytes(path, other);
        unlink(path);
        unlink(other);
    }
}

TEST_IN_FOLDER(shards_hold_each_form)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_dataset *whole, *parts;
        uint8_t a[16], b[16];
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        assert_ok(pack_rounds(other, &o, 2, 600000, &w, &error));
        leat_writer_free(w, false);
        o.shard_bytes = 1;
        assert_ok(pack_rounds(path, &o, 2, 600000, &w, &error));
        leat_writer_free(w, false);
        assert_ok(leat_verify(path, NULL, &error));
        assert_ok(leat_dataset_open(other, NULL, &whole, &error));
        assert_ok(leat_dataset_open(path, NULL, &parts, &error));
        leat_dataset_fingerprint(whole, a);
        leat_dataset_fingerprint(parts, b);
        assert_memory_equal(a, b, 16);
        char *about;
        assert_ok(leat_dataset_about(parts, &about, &error));
        assert_non_null(strstr(about, photos == LEAT_PHOTOS_RAW ? "\"raw\"" : photos ? "\"fast\"" : "\"original\""));
        leat_free(about);
        leat_dataset_release(whole);
        leat_dataset_release(parts);
    }
}

TEST_IN_FOLDER(bytes_are_told_only_where_each_file_has_counted_them)
{
    struct leat_error error;
    struct leat_dataset *sets[2], *both;
    char *about;
    struct leat_writer_options o = wish(LEAT_PHOTOS_ORIGINAL);
    o.overwrite = true;
    pack(path, &o);
    o.photos = LEAT_PHOTOS_FAST;
    pack(other, &o);
    assert_ok(
        leat_dataset_open(path, NULL, &sets[0], &error)); /* a file whose photos all are as they came counts no bytes */
    assert_ok(leat_dataset_open(other, NULL, &sets[1], &error));
    assert_ok(leat_dataset_about(sets[1], &about, &error));
    assert_non_null(strstr(about, "\"original\":{\"count\":"));
    assert_non_null(strstr(strstr(about, "\"original\":{\"count\":"), "\"bytes\":"));
    leat_free(about);
    assert_ok(leat_dataset_concat(sets, 2, &both, &error));
    assert_ok(leat_dataset_about(both, &about, &error));
    const char *original = strstr(about, "\"original\":{\"count\":"), *fast = strstr(about, "\"fast\":{\"count\":");
    assert_non_null(original);
    assert_null(memchr(original, ',', strcspn(original, "}")));
    assert_non_null(fast);
    assert_non_null(memchr(fast, ',', strcspn(fast, "}")));
    leat_free(about);
    leat_dataset_release(both);
    leat_dataset_release(sets[0]);
    leat_dataset_release(sets[1]);
    unlink(path);
    unlink(other);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A hash of the good samples of one epoch; their rows differ in size where nothing is decoded. */
static uint64_t epoch_of(const char *file, const char *program)
{
    struct leat_error error;
    struct leat_dataset *all, *good;
    struct leat_loader *loader;
    struct leat_batch *batch;
    uint64_t iteration, hash = 0;
    struct leat_loader_options o = LEAT_LOADER_OPTIONS_INIT;
    assert_ok(leat_dataset_open(file, NULL, &all, &error));
    assert_ok(leat_dataset_slice(all, 0, CUT, 1, &good, &error));
    o.batch_size = 4;
    o.order = LEAT_ORDER_SHUFFLED;
    o.program = program;
    assert_ok(leat_loader_open(good, &o, &loader, &error));
    assert_ok(leat_loader_start(loader, &iteration, &error));
    int rc;
    while (!(rc = leat_loader_next(loader, iteration, -1, &batch, &error))) {
        struct leat_tensor t;
        assert_ok(leat_batch_tensor(batch, 0, &t));
        uint64_t bytes = leat_dtype_size(t.dtype);
        for (unsigned d = 0; d < t.ndim; d++)
            bytes *= (uint64_t)t.shape[d];
        const uint64_t three[3] = {hash, leat_hash64(t.data, bytes),
                                   t.offsets ? leat_hash64(t.offsets, (leat_batch_rows(batch) + 1) * 8) : 0};
        hash = leat_hash64(three, sizeof three);
        leat_batch_free(batch);
    }
    if (rc != LEAT_E_END)
        fail_msg("%s: %s", leat_status_name(rc), error.message);
    leat_loader_close(loader);
    leat_dataset_release(good);
    leat_dataset_release(all);
    return hash;
}

TEST_IN_FOLDER(batches_are_the_same_from_each_form)
{
    static const char *const programs[] = {
        "{\"operators\": {\"a\": {\"type\": \"Decode\", \"exif\": true}, \"b\": {\"type\": \"RandomResizedCrop\", "
        "\"size\": [64, 64]}},"
        " \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"a\", \"b\"]}}}",
        "{\"operators\": {\"a\": {\"type\": \"Decode\", \"mode\": \"GRAY\"}, \"b\": {\"type\": \"Resize\", \"size\": "
        "[48, 56]}},"
        " \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"a\", \"b\"]}}}",
        "{\"operators\": {}, \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": []}}}"};
    uint64_t first[3] = {0};
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_writer_options o = wish(photos);
        o.overwrite = true;
        pack(path, &o);
        for (unsigned p = 0; p < 3; p++) {
            const uint64_t hash = epoch_of(path, programs[p]);
            if (!photos)
                first[p] = hash;
            if (p < 2 || photos < LEAT_PHOTOS_RAW) /* not decoded, pixels are other bytes */
                assert_int_equal(hash, first[p]);
        }
    }
}

TEST_IN_FOLDER(not_decoded_pixels_come_with_their_header)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_tensor t;
    uint64_t iteration;
    struct leat_writer_options o = wish(LEAT_PHOTOS_RAW);
    struct leat_loader_options l = LEAT_LOADER_OPTIONS_INIT;
    pack(path, &o);
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    l.batch_size = KINDS;
    assert_ok(leat_loader_open(d, &l, &loader, &error));
    assert_ok(leat_loader_start(loader, &iteration, &error));
    assert_ok(leat_loader_next(loader, iteration, -1, &batch, &error));
    assert_ok(leat_batch_tensor(batch, 0, &t));
    for (unsigned i = 0; i < KINDS; i++) {
        const uint8_t *p = (const uint8_t *)t.data + t.offsets[i];
        const uint64_t n = (uint64_t)(t.offsets[i + 1] - t.offsets[i]);
        struct leat_raw_photo raw;
        assert_int_equal(leat_raw_photo_get(p, n, &raw), is_good(i));
        if (is_good(i))
            assert_int_equal(raw.orientation, i == TURNED ? 6 : 1);
        else
            assert_memory_equal(p, files[i].bytes, n);
    }
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(d);
}

/* ---- what fails ------------------------------------------------------------------------------ */

/* Of photos that are packed again and again, with a failure at each place. */
static int begin_small(void **state)
{
    files_part = 4;
    return free_files(state) || make_files(state) || make_folder(state);
}

static int end_small(void **state)
{
    files_part = 1;
    return free_files(state) || make_files(state) || remove_folder(state);
}

TEST_IN(without_memory_packing_fails_and_a_resume_finishes, begin_small, end_small)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_writer_options o = wish(photos);
        unsigned failed = 0;
        bool reached = true;
        o.num_threads = 1;
        assert_ok(pack_rounds(other, &o, 1, 0, &w, &error));
        leat_writer_free(w, false);
        for (int n = 0; reached; n++) {
            fail_allocation(n);
            int rc = pack_rounds(path, &o, 1, 0, &w, &error);
            leat_writer_free(w, true);
            reached = allocation_failed();
            if (rc) {
                assert_int_equal(rc, LEAT_E_NOMEM);
                failed++;
                assert_ok(pack_rounds(path, &o, 1, 0, &w, &error));
                leat_writer_free(w, false);
                assert_same_bytes(path, other);
            }
            assert_ok(leat_verify(path, NULL, &error));
            unlink(path);
        }
        assert_true(failed > 30);
        unlink(other);
    }
}

static atomic_int writes_left;
static bool writes_fail;

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    if (!writes_fail || atomic_fetch_sub(&writes_left, 1) != 0)
        return __real_pwrite64(fd, data, bytes, offset);
    errno = EIO;
    return -1;
}

TEST_IN(when_a_write_fails_a_resume_finishes, begin_small, end_small)
{
    for (enum leat_photos photos = LEAT_PHOTOS_ORIGINAL; photos <= LEAT_PHOTOS_RAW; photos++) {
        struct leat_error error;
        struct leat_writer *w;
        struct leat_writer_options o = wish(photos);
        assert_ok(pack_rounds(other, &o, 2, 400000, &w, &error));
        leat_writer_free(w, false);
        bool reached = true;
        for (int n = 0; reached; n++) {
            atomic_store(&writes_left, n);
            writes_fail = true;
            int rc = pack_rounds(path, &o, 2, 400000, &w, &error);
            leat_writer_free(w, true);
            reached = atomic_load(&writes_left) < 0;
            writes_fail = false;
            if (rc) {
                assert_int_equal(rc, LEAT_E_IO);
                assert_ok(pack_rounds(path, &o, 2, 400000, &w, &error));
                leat_writer_free(w, false);
            }
            assert_same_bytes(path, other);
            unlink(path);
        }
        unlink(other);
    }
}

TEST_IN_FOLDER(without_memory_reading_what_came_fails_cleanly)
{
    struct leat_error error;
    struct leat_dataset *d;
    struct leat_value value;
    struct leat_writer_options o = wish(LEAT_PHOTOS_FAST);
    pack(path, &o);
    assert_ok(leat_dataset_open(path, NULL, &d, &error));
    bool reached = true;
    for (int n = 0; reached; n++) {
        fail_allocation(n);
        int rc = leat_dataset_read(d, PROGRESSIVE, 0, &value, &error);
        reached = allocation_failed();
        assert_true(!rc || rc == LEAT_E_NOMEM);
        if (!rc)
            assert_memory_equal(value.data, files[PROGRESSIVE].bytes, value.length);
        leat_value_clear(&value);
    }
    leat_dataset_release(d);
}

/* ---- golden files ---------------------------------------------------------------------------- */

static const unsigned golden_kinds[] = {GRAY, PROGRESSIVE, ARITHMETIC, CMYK, GRAY_PNG};
enum { GOLDEN = sizeof golden_kinds / sizeof *golden_kinds };

static int write_golden(const char *to, enum leat_photos photos, const struct leat_value_ref *values,
                        struct leat_error *error)
{
    static const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE};
    struct leat_writer *w;
    struct leat_writer_options o = wish(photos);
    int rc = leat_writer_open(to, &field, 1, &o, &w, error);
    for (unsigned i = 0; i < GOLDEN && !rc; i++)
        rc = leat_writer_add(w, &values[i], NULL, error);
    if (!rc)
        rc = leat_writer_finish(w, error);
    leat_writer_free(w, false);
    return rc;
}

/* The photos of v1-photos.leat were made by this program; those of v1-fast.leat are the same. */
TEST_IN_FOLDER(golden_photos_come_back_and_are_written_as_they_were)
{
    struct leat_error error;
    struct leat_value came[GOLDEN], restored;
    struct leat_value_ref values[GOLDEN];
    struct leat_dataset *d;
    assert_ok(leat_dataset_open(LEAT_GOLDEN "/v1-photos.leat", NULL, &d, &error));
    for (unsigned i = 0; i < GOLDEN; i++) {
        assert_ok(leat_dataset_read(d, i, 0, &came[i], &error));
        values[i] = (struct leat_value_ref){came[i].data, came[i].length, NULL};
    }
    leat_dataset_release(d);
    assert_ok(leat_dataset_open(LEAT_GOLDEN "/v1-fast.leat", NULL, &d, &error));
    for (unsigned i = 0; i < GOLDEN; i++) {
        assert_ok(leat_dataset_read(d, i, 0, &restored, &error));
        assert_int_equal(restored.length, came[i].length);
        assert_memory_equal(restored.data, came[i].data, came[i].length);
        leat_value_clear(&restored);
    }
    leat_dataset_release(d);
    assert_ok(write_golden(path, LEAT_PHOTOS_ORIGINAL, values, &error));
    assert_same_bytes(path, LEAT_GOLDEN "/v1-photos.leat");
    assert_ok(write_golden(other, LEAT_PHOTOS_FAST, values, &error));
    assert_same_bytes(other, LEAT_GOLDEN "/v1-fast.leat");
    for (unsigned i = 0; i < GOLDEN; i++)
        leat_value_clear(&came[i]);
}

/* `test_forms write FOLDER` */
static int write_all_golden(const char *to)
{
    struct leat_error error;
    struct leat_value_ref values[GOLDEN];
    char file[PATH_MAX];
    make_files(NULL);
    for (unsigned i = 0; i < GOLDEN; i++)
        values[i] = (struct leat_value_ref){files[golden_kinds[i]].bytes, files[golden_kinds[i]].length, NULL};
    int rc = LEAT_OK;
    for (int photos = 0; photos < 2 && !rc; photos++) {
        snprintf(file, sizeof file, "%s/%s", to, photos ? "v1-fast.leat" : "v1-photos.leat");
        rc = write_golden(file, (enum leat_photos)photos, values, &error);
    }
    if (rc)
        fprintf(stderr, "%s\n", error.message);
    return rc != 0;
}

/* ---- real photos ----------------------------------------------------------------------------- */

TEST_IN_FOLDER(odd_photos_are_found_as_good_or_broken_in_each_form_and_come_back)
{
    static const char *const folders[] = {"libjpeg-turbo",    "pillow-jpeg",     "zune-jpeg",
                                          "exif-orientation", "dali-fuzz",       "missnamed",
                                          "pngsuite",         "jpeg-rs-reftest", "jpeg-rs-crashtest"};
    const char *data = test_data();
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        struct leat_error error;
        struct leat_dataset *in_place, *packed[3];
        struct leat_open_options flat = LEAT_OPEN_OPTIONS_INIT;
        size_t n_fields, health = 0, name = 0;
        uint8_t *verdicts[3], fingerprints[3][16];
        char from[PATH_MAX], to[PATH_MAX + 64];
        snprintf(from, sizeof from, "%s/odd-images/%s", data, folders[f]);
        flat.labels = LEAT_LABELS_NONE;
        assert_ok(leat_dataset_open(from, &flat, &in_place, &error));
        const uint64_t n = leat_dataset_count(in_place);
        const struct leat_field *fields = leat_dataset_fields(in_place, &n_fields);
        for (size_t i = 0; i < n_fields; i++)
            name = strcmp(fields[i].name, "name") ? name : i;
        const struct leat_field schema[2] = {fields[0], fields[name]};
        for (int photos = 0; photos < 3; photos++) {
            struct leat_writer *w;
            struct leat_value came, text;
            struct leat_writer_options o = wish((enum leat_photos)photos);
            snprintf(to, sizeof to, "%s/%d-%zu.leat", folder, photos, f);
            assert_ok(leat_writer_open(to, schema, 2, &o, &w, &error));
            for (uint64_t i = 0; i < n; i++) {
                assert_ok(leat_dataset_read(in_place, i, 0, &came, &error));
                assert_ok(leat_dataset_read(in_place, i, name, &text, &error));
                const struct leat_value_ref values[2] = {{came.data, came.length, NULL},
                                                         {text.data, text.length, NULL}};
                assert_ok(leat_writer_add(w, values, NULL, &error));
                leat_value_clear(&came);
                leat_value_clear(&text);
            }
            assert_ok(leat_writer_finish(w, &error));
            leat_writer_free(w, false);
            assert_ok(leat_verify(to, NULL, &error));
            assert_ok(leat_dataset_open(to, NULL, &packed[photos], &error));
            leat_dataset_fingerprint(packed[photos], fingerprints[photos]);
            const struct leat_field *all = leat_dataset_fields(packed[photos], &n_fields);
            for (size_t i = 0; i < n_fields; i++)
                health = strcmp(all[i].name, "image.health") ? health : i;
            struct leat_value column;
            assert_ok(leat_dataset_column(packed[photos], health, false, true, &column, &error));
            verdicts[photos] = malloc(n + 1);
            memcpy(verdicts[photos], column.data, n);
            leat_value_clear(&column);
            assert_memory_equal(verdicts[photos], verdicts[0], n);
            assert_memory_equal(fingerprints[photos], fingerprints[0], 16);
            for (uint64_t i = 0; i < n && photos < 2; i++) {
                struct leat_value again;
                assert_ok(leat_dataset_read(in_place, i, 0, &came, &error));
                assert_ok(leat_dataset_read(packed[photos], i, 0, &again, &error));
                assert_int_equal(again.length, came.length);
                assert_memory_equal(again.data, came.data, came.length);
                leat_value_clear(&came);
                leat_value_clear(&again);
            }
        }
        for (int photos = 0; photos < 3; photos++) {
            leat_dataset_release(packed[photos]);
            free(verdicts[photos]);
        }
        leat_dataset_release(in_place);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "write"))
        return write_all_golden(argv[2]);
    return test_run(make_files, free_files);
}
