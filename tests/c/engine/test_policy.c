/* Broken samples, reads that fail or wait, and decisions while batches are in flight. */
#include <errno.h>
#include <fcntl.h>

#include "../codec/photo/photos.h"
#include "../faulty.h"
#include "base/error.h"
#include "engine/job.h"
#include "engine/loader.h"
#include "support.h"

enum { PHOTOS = 60, SIDE = 40, CROP = 24 };
static const char *const crop_program =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"c\": {\"type\": \"RandomResizedCrop\", \"size\": [24, 24]}}, "
    "\"outputs\": "
    "{\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\"]}, \"label\": {\"field\": \"label\", \"chain\": []}}}";

static bool is_broken(uint64_t i)
{
    return i % 10 == 7;
}

/* Photos of noise; every tenth is cut in the middle. `check` marks those when packing. */
static struct leat_dataset *photo_dataset(const char *name, bool check, bool all_broken)
{
    static const struct photo_style style = {"420", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                             0,     false,   false,     false,     false};
    const struct leat_field fields[] = {{.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
                                        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path(name);
    options.check = check;
    options.overwrite = true;
    options.num_threads = 1;
    assert_ok(leat_writer_open(path, fields, 2, &options, &writer, &error));
    for (uint64_t i = 0; i < PHOTOS; i++) {
        size_t length;
        int64_t label = (int64_t)i;
        uint8_t *pixels = photo_pixels(SIDE, SIDE, 3, i), *jpeg = photo_encode(&style, pixels, SIDE, SIDE, 90, &length);
        const struct leat_value_ref values[] = {{jpeg, is_broken(i) || all_broken ? length / 2 : length, NULL},
                                                {&label, 8, NULL}};
        assert_ok(leat_writer_add(writer, values, NULL, &error));
        free(pixels);
        free(jpeg);
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return test_open(path);
}

static struct leat_loader_options photo_options(uint64_t batch, enum leat_on_error on_error)
{
    struct leat_loader_options options = test_options(batch);
    options.program = crop_program;
    options.on_error = on_error;
    options.budget_bytes = 64 << 20;
    return options;
}

TEST(raise_names_the_sample_and_does_not_move)
{
    for (int check = 0; check < 2; check++) {
        struct leat_dataset *dataset = photo_dataset("raise", check, false);
        struct leat_loader_options options = photo_options(10, LEAT_ON_ERROR_RAISE);
        options.order = LEAT_ORDER_SEQUENTIAL;
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        struct leat_batch *b;
        uint64_t iteration = test_start(loader);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_DECODE);
            assert_int_equal(error.sample, 7);
            assert_string_equal(error.field, "image");
            assert_true(strlen(error.message) > 20);
        }
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

TEST(skip_leaves_the_row_out_and_moves_nothing_else)
{
    for (int check = 0; check < 2; check++) {
        struct leat_dataset *dataset = photo_dataset("skip", check, false);
        const char *report = test_path("report.jsonl");
        unlink(report);
        struct leat_loader_options options = photo_options(16, LEAT_ON_ERROR_SKIP);
        options.error_report = report;
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        uint64_t iteration = test_start(loader), total = 0, broken = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            int64_t *ids;
            uint64_t planned, at = 0;
            assert_ok(leat_loader_plan(loader, 0, leat_batch_step(b), &ids, &planned, &error));
            struct leat_tensor label;
            leat_batch_tensor(b, 1, &label);
            for (uint64_t i = 0; i < planned; i++)
                if (!is_broken((uint64_t)ids[i])) {
                    assert_int_equal(leat_batch_ids(b)[at], ids[i]);
                    assert_int_equal(((int64_t *)label.data)[at++], ids[i]);
                }
            assert_int_equal(leat_batch_rows(b), at);
            assert_int_equal(leat_batch_errors(b), planned - at);
            for (size_t i = 0; i < leat_batch_errors(b); i++) {
                struct leat_row_error row;
                assert_int_equal(leat_batch_error(b, i, &row), LEAT_OK);
                assert_int_equal(row.planned, ids[row.row]);
                assert_true(is_broken((uint64_t)row.planned));
                assert_int_equal(row.delivered, -1);
                assert_true(strlen(row.reason) > 10);
            }
            total += at;
            broken += planned - at;
            leat_free(ids);
        }
        assert_int_equal(total, 54);
        assert_int_equal(broken, 6);
        leat_loader_close(loader);
        FILE *f = fopen(report, "re");
        char line[4096];
        unsigned lines = 0;
        while (fgets(line, sizeof line, f))
            lines += strstr(line, "\"delivered\":null") && strstr(line, "LEAT_E_DECODE") ? 1 : 0;
        fclose(f);
        assert_int_equal(lines, 6);
        leat_dataset_release(dataset);
    }
}

TEST(a_batch_with_no_row_left_raises_its_first_error)
{
    struct leat_dataset *dataset = photo_dataset("none", true, true);
    struct leat_loader_options options = photo_options(8, LEAT_ON_ERROR_SKIP);
    options.order = LEAT_ORDER_SEQUENTIAL;
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    uint64_t iteration = test_start(loader);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), LEAT_E_DECODE);
        assert_int_equal(error.sample, 0);
    }
    leat_loader_close(loader);
    options.on_error = LEAT_ON_ERROR_SUBSTITUTE; /* and so are all that could stand in */
    loader = test_loader(dataset, &options);
    assert_int_equal(leat_loader_next(loader, test_start(loader), -1, &b, &error), LEAT_E_DECODE);
    assert_non_null(strstr(error.message, "16"));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(substitutes_are_the_same_for_any_threads_and_are_marked)
{
    uint64_t expected = 0;
    for (unsigned run = 0; run < 6; run++) {
        struct leat_dataset *dataset = photo_dataset("substitute", run % 2, false);
        struct leat_loader_options options = photo_options(16, LEAT_ON_ERROR_SUBSTITUTE);
        options.num_threads = 1 + run / 2;
        struct leat_loader *loader = test_loader(dataset, &options);
        uint64_t iteration = test_start(loader), hash = 0, substituted = 0, rows = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            struct leat_tensor label;
            leat_batch_tensor(b, 1, &label);
            hash = leat_key_mix(hash, test_hash_batch(b));
            rows += leat_batch_rows(b);
            for (uint64_t i = 0; i < leat_batch_rows(b); i++) {
                assert_false(is_broken((uint64_t)leat_batch_ids(b)[i]));
                assert_int_equal(((int64_t *)label.data)[i],
                                 leat_batch_ids(b)[i]); /* all outputs of a row are of one sample */
            }
            for (size_t i = 0; i < leat_batch_errors(b); i++, substituted++) {
                struct leat_row_error row;
                leat_batch_error(b, i, &row);
                assert_int_equal(leat_batch_ids(b)[row.row], row.delivered);
                assert_true(is_broken((uint64_t)row.planned));
            }
        }
        assert_int_equal(rows, PHOTOS);
        assert_int_equal(substituted, 6);
        expected = expected ? expected : hash;
        assert_int_equal(hash, expected);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

/* Rows of all ranks, one step after the other: ids, keys, bytes. */
static uint64_t hash_of_ranks(struct leat_dataset *dataset, enum leat_on_error on_error, unsigned threads,
                              uint32_t world)
{
    struct leat_loader *loaders[4];
    uint64_t iterations[4], hash = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        struct leat_loader_options options = photo_options(0, on_error);
        options.global_batch_size = 12;
        options.num_threads = threads;
        options.rank = rank;
        options.world_size = world;
        loaders[rank] = test_loader(dataset, &options);
        iterations[rank] = test_start(loaders[rank]);
    }
    for (uint64_t step = 0; step < PHOTOS / 12; step++)
        for (uint32_t rank = 0; rank < world; rank++) {
            struct leat_batch *b = test_next(loaders[rank], iterations[rank]);
            struct leat_tensor image;
            assert_int_equal(leat_batch_step(b), step); /* rows that are left out move no batch */
            leat_batch_tensor(b, 0, &image);
            size_t each = test_tensor_bytes(&image) / leat_batch_rows(b);
            for (uint64_t row = 0; row < leat_batch_rows(b); row++) {
                hash = leat_key_mix(hash, (uint64_t)leat_batch_ids(b)[row]);
                hash = leat_key_mix(hash, leat_batch_row_keys(b)[row]);
                hash = leat_key_mix(hash, leat_hash64((uint8_t *)image.data + row * each, each));
            }
            leat_batch_free(b);
        }
    for (uint32_t rank = 0; rank < world; rank++)
        leat_loader_close(loaders[rank]);
    return hash;
}

TEST(what_is_left_out_or_replaced_depends_on_no_threads_and_no_ranks)
{
    struct leat_dataset *dataset = photo_dataset("ranks", false, false);
    for (int policy = LEAT_ON_ERROR_SKIP; policy <= LEAT_ON_ERROR_SUBSTITUTE; policy++) {
        uint64_t expected = hash_of_ranks(dataset, (enum leat_on_error)policy, 1, 1);
        for (unsigned threads = 1; threads <= 4; threads++)
            for (uint32_t world = 1; world <= 3; world++)
                assert_int_equal(hash_of_ranks(dataset, (enum leat_on_error)policy, threads, world), expected);
    }
    leat_dataset_release(dataset);
}

TEST(substitute_refuses_outputs_that_vary)
{
    struct leat_dataset *dataset = test_dataset("vary", 10, true);
    struct leat_loader_options options = test_options(4);
    struct leat_error error;
    struct leat_loader *loader;
    options.on_error = LEAT_ON_ERROR_SUBSTITUTE;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "t varies"));
    leat_dataset_release(dataset);
}

/* Flips a bit in the text of sample i. */
static void damage_text(const char *path, uint64_t i)
{
    uint8_t text[100];
    size_t length = leat_draw_below(2, i, 100), n;
    assert_true(length > 16);
    test_bytes(text, length, i, 3);
    uint8_t *file = photo_file("", path, &n), *at = memmem(file, n, text, length);
    assert_non_null(at);
    at[3] ^= 4;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, at, 8, at - file), 8);
    close(fd);
    free(file);
}

TEST(a_flipped_bit_of_a_payload_is_a_broken_sample)
{
    struct leat_dataset *made = test_dataset("flip", 200, true);
    leat_dataset_release(made);
    uint64_t i = 0;
    while (leat_draw_below(2, i, 100) < 40)
        i++;
    damage_text(test_path("flip"), i);
    struct leat_dataset *dataset = test_open(test_path("flip"));
    struct leat_loader_options options = test_options(200);
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    assert_int_equal(leat_loader_next(loader, test_start(loader), -1, &b, &error), LEAT_E_CORRUPT);
    assert_int_equal(error.sample, i);
    assert_string_equal(error.field, "t");
    assert_true(error.offset > 0 && *error.file);
    leat_loader_close(loader);
    options.on_error = LEAT_ON_ERROR_SKIP;
    loader = test_loader(dataset, &options);
    b = test_next(loader, test_start(loader));
    assert_int_equal(leat_batch_rows(b), 199);
    test_check_batch(b); /* values behind the missing one have moved up, whole */
    leat_batch_free(b);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* ---- reads ----------------------------------------------------------------------------------- */

TEST(reads_that_complete_later_change_nothing)
{
    struct leat_dataset *dataset = test_dataset("later", 300, true);
    struct leat_loader_options options = test_options(20);
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t expected = test_hash_epochs(loader, 2);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    for (unsigned threads = 1; threads <= 3; threads++) {
        leat_faulty_start(&(struct leat_faulty){.later = true, .delay_us = 20});
        dataset = test_open(test_path("later"));
        options.num_threads = threads;
        loader = test_loader(dataset, &options);
        assert_int_equal(test_hash_epochs(loader, 2), expected);
        leat_loader_close(loader);
        leat_dataset_release(dataset);
        leat_faulty_stop();
    }
}

TEST(closing_while_reads_are_pending_is_clean)
{
    leat_dataset_release(test_dataset("pending", 300, true));
    for (int i = 0; i < 10; i++) {
        leat_faulty_start(&(struct leat_faulty){.later = true, .delay_us = 300});
        struct leat_dataset *dataset = test_open(test_path("pending"));
        struct leat_loader_options options = test_options(20);
        struct leat_loader *loader = test_loader(dataset, &options);
        struct leat_error error;
        struct leat_batch *b;
        uint64_t iteration = test_start(loader);
        if (leat_loader_next(loader, iteration, i, &b, &error) == LEAT_OK)
            leat_batch_free(b);
        if (i % 2)
            test_start(loader); /* leaves the epoch: its batches are cancelled while their reads are pending */
        leat_loader_close(loader);
        leat_dataset_release(dataset);
        leat_faulty_stop();
    }
}

TEST(a_read_that_fails_is_raised_never_skipped_and_can_be_tried_again)
{
    leat_dataset_release(test_dataset("io", 100, true));
    leat_faulty_start(&(struct leat_faulty){.errors = 1000000, .error_number = EIO, .only = "io"});
    struct leat_error error;
    struct leat_dataset *dataset = NULL;
    int rc = leat_dataset_open(test_path("io"), NULL, &dataset, &error);
    leat_faulty_stop();
    assert_int_equal(rc, LEAT_E_IO); /* opening reads, too */
    dataset = test_open(test_path("io"));
    struct leat_loader_options options = test_options(10);
    options.on_error = LEAT_ON_ERROR_SKIP;
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_batch *b;
    assert_int_equal(truncate(test_path("io"), 4096), 0); /* cut under the loader */
    uint64_t iteration = test_start(loader);
    rc = leat_loader_next(loader, iteration, -1, &b, &error);
    assert_true(rc == LEAT_E_IO || rc == LEAT_E_CHANGED || rc == LEAT_E_CORRUPT);
    assert_non_null(strstr(error.file, "io"));
    assert_true(error.sample >= 0);
    assert_int_equal(leat_loader_next(loader, iteration, -1, &b, &error), rc); /* and does not skip on */
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static void write_photo(const char *path, uint64_t key, uint32_t side)
{
    static const struct photo_style style = {"420", JCS_RGB, JCS_YCbCr, {2, 1, 1}, {2, 1, 1},
                                             0,     false,   false,     false,     false};
    size_t length;
    uint8_t *pixels = photo_pixels(side, side, 3, key), *jpeg = photo_encode(&style, pixels, side, side, 90, &length);
    FILE *f = fopen(path, "wbe");
    assert_non_null(f);
    assert_int_equal(fwrite(jpeg, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    free(pixels);
    free(jpeg);
}

TEST(a_photo_replaced_under_a_loader_is_raised_by_its_name)
{
    const char *folder = test_path("folder");
    char path[256];
    assert_int_equal(mkdir(folder, 0777), 0);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "%s/%02u.jpg", folder, i);
        write_photo(path, i, SIDE);
    }
    struct leat_dataset *dataset = test_open(folder);
    struct leat_loader_options options = photo_options(8, LEAT_ON_ERROR_SKIP);
    options.order = LEAT_ORDER_SEQUENTIAL;
    options.program =
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"r\": {\"type\": \"Resize\", \"size\": [16, 16]}}, "
        "\"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"r\"]}}}";
    struct leat_loader *loader = test_loader(dataset, &options);
    struct leat_error error;
    struct leat_batch *b;
    snprintf(path, sizeof path, "%s/05.jpg", folder);
    unlink(path);
    write_photo(path, 99, SIDE + 9);
    assert_int_equal(leat_loader_next(loader, test_start(loader), TEST_HANG_MS, &b, &error), LEAT_E_CHANGED);
    assert_int_equal(error.sample, 5);
    assert_non_null(strstr(error.file, "05.jpg"));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* ---- decisions ------------------------------------------------------------------------------- */

struct deciding {
    unsigned threads;
    uint64_t budget;
};

/* Hash of what two sources deliver with changes of batch size and shares, and of what the plan alone says. */
static uint64_t run_deciding(struct leat_dataset *const *sets, struct deciding how, bool check)
{
    const struct leat_mix_source sources[2] = {{.dataset = sets[0], .share = 0.75, .exhausted = LEAT_EXHAUSTED_REPEAT},
                                               {.dataset = sets[1], .share = 0.25, .exhausted = LEAT_EXHAUSTED_REPEAT}};
    struct leat_mix_options mix = LEAT_MIX_OPTIONS_INIT;
    mix.sources = sources;
    mix.n_sources = 2;
    mix.epoch_rows = 1000;
    struct leat_loader_options options = test_options(16);
    options.num_threads = how.threads;
    options.budget_bytes = how.budget;
    struct leat_loader *loader;
    struct leat_error error;
    assert_ok(leat_loader_open_mix(&mix, &options, &loader, &error));
    uint64_t hash = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        uint64_t iteration = test_start(loader), n = 0, rows = 0;
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b), n++) {
            hash = leat_key_mix(hash, test_hash_batch(b));
            rows += leat_batch_rows(b);
            if (check) {
                int64_t *ids;
                uint64_t planned;
                assert_ok(leat_loader_plan(loader, leat_batch_epoch(b), leat_batch_step(b), &ids, &planned, &error));
                assert_int_equal(planned, leat_batch_rows(b));
                assert_memory_equal(ids, leat_batch_ids(b), planned * sizeof *ids);
                leat_free(ids);
            }
            if (n == 5 || n == 20)
                assert_ok(leat_loader_set_batch_size(loader, n == 5 ? 48 : 7, NULL, &error));
        }
        assert_int_equal(rows, 1000);
    }
    assert_int_equal(leat_loader_set_batch_size(loader, 9, &(struct leat_step){0, 0}, &error), LEAT_E_INVALID);
    leat_loader_close(loader);
    return hash;
}

TEST(decisions_hold_from_the_next_batch_whatever_is_in_flight)
{
    struct leat_dataset *sets[2] = {test_dataset("one", 500, true), test_dataset("two", 300, true)};
    uint64_t expected = run_deciding(sets, (struct deciding){1, 2 << 20}, true);
    for (unsigned threads = 1; threads <= 3; threads++)
        for (int wide = 0; wide < 2; wide++)
            assert_int_equal(run_deciding(sets, (struct deciding){threads, wide ? 16 << 20 : 1 << 20}, true), expected);
    leat_dataset_release(sets[0]);
    leat_dataset_release(sets[1]);
}

TEST(lists_of_positions_are_given_before_each_epoch)
{
    struct leat_dataset *dataset = test_dataset("lists", 100, true);
    struct leat_loader_options options = test_options(8);
    options.order = LEAT_ORDER_LIST;
    struct leat_error error;
    struct leat_loader *loader = test_loader(dataset, &options);
    uint64_t iteration;
    assert_int_equal(leat_loader_start(loader, &iteration, &error), LEAT_E_INVALID);
    for (int64_t epoch = 0; epoch < 300; epoch++) { /* old lists are folded on the way */
        int64_t positions[30], at = 0;
        for (int64_t i = 0; i < 30; i++)
            positions[i] = (i * 7 + epoch) % 100;
        assert_ok(leat_loader_set_positions(loader, positions, 30, &error));
        iteration = test_start(loader);
        for (struct leat_batch *b; (b = test_next(loader, iteration)); leat_batch_free(b)) {
            test_check_batch(b);
            for (uint64_t i = 0; i < leat_batch_rows(b); i++)
                assert_int_equal(leat_batch_ids(b)[i], positions[at++]);
        }
        assert_int_equal(at, 30);
    }
    char *json;
    int64_t *ids;
    uint64_t n;
    assert_ok(leat_loader_state(loader, &json, &error));
    assert_true(strlen(json) < 1000);
    leat_free(json);
    assert_int_equal(leat_loader_plan(loader, 0, 0, &ids, &n, &error), LEAT_E_RANGE);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

/* Rows are made in any order, and the error is that of the first in the plan. */
TEST(of_rows_that_fail_the_first_one_is_the_error_whichever_failed_first)
{
    static const uint64_t rows[] = {5, 9, 5, 2, 3};
    static const char *const said[] = {"fault 0", "fault 0", "fault 0", "fault 3", "fault 3"};
    struct leat_job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->results.failed_row = UINT64_MAX;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        leat_fail(&j->error, LEAT_E_DECODE, "fault %zu", i);
        leat_job_raise(j, rows[i]);
        assert_string_equal(j->results.failure.message, said[i]);
    }
    assert_int_equal(j->results.failed_row, 2);
    free(j);
}

TEST_MAIN_IN(NULL, test_clean)
