/* A kind of samples that is no image (../signals.h) goes the way of a photo. */
#include "../signals.h"
#include "leat/chain.h"
#include "support.h"

enum { SAMPLES = 40, FIXED = 100 };

static int leave_kind(void **state)
{
    codec_instead = NULL;
    return test_clean(state);
}

/* SAMPLES signals; `broken` is damaged at its end. */
static const char *write_signals(const char *name, enum leat_photos form, bool check, int64_t broken)
{
    static uint8_t bytes[SIGNAL_BYTES];
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path(name);
    options.check = check;
    options.photos = form;
    options.num_threads = 1;
    assert_ok(leat_writer_open(path, &signal_field, 1, &options, &writer, &error));
    for (int64_t i = 0; i < SAMPLES; i++) {
        const struct leat_value_ref value = {bytes, signal_make((uint64_t)i, i == broken, bytes), NULL};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return path;
}

static const char program[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"t\": {\"type\": \"ToDtype\", \"dtype\": \"float64\"},"
    " \"p\": {\"type\": \"PadTo\", \"n\": 100, \"fill\": -1, \"cut\": true}},"
    " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\"]},"
    " \"wide\": {\"field\": \"x\", \"chain\": [\"d\", \"t\"]},"
    " \"fixed\": {\"field\": \"x\", \"chain\": [\"d\", \"p\"]}}}";
static const char fixed_only[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"p\": {\"type\": \"PadTo\", \"n\": 100, \"cut\": true}},"
    " \"outputs\": {\"fixed\": {\"field\": \"x\", \"chain\": [\"d\", \"p\"]}}}";

static struct leat_loader *open_loader(struct leat_dataset *dataset, const char *text, enum leat_on_error on_error)
{
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader;
    struct leat_error error;
    options.batch_size = 4;
    options.seed = 3;
    options.order = LEAT_ORDER_SHUFFLED;
    options.epochs = 1;
    options.program = text;
    options.on_error = on_error;
    assert_ok(leat_loader_open(dataset, &options, &loader, &error));
    return loader;
}

/* Checks all rows of a batch of `program`. */
static void assert_rows(const struct leat_batch *batch)
{
    struct leat_tensor whole, wide, fixed;
    assert_int_equal(leat_batch_tensor(batch, 0, &whole), LEAT_OK);
    assert_int_equal(leat_batch_tensor(batch, 1, &wide), LEAT_OK);
    assert_int_equal(leat_batch_tensor(batch, 2, &fixed), LEAT_OK);
    assert_int_equal(whole.dtype, LEAT_F32);
    assert_int_equal(wide.dtype, LEAT_F64);
    for (uint64_t r = 0; r < leat_batch_rows(batch); r++) {
        const uint64_t id = (uint64_t)leat_batch_ids(batch)[r], steps = signal_steps(id);
        const float *values = (const float *)whole.data + whole.offsets[r],
                    *row = (const float *)fixed.data + r * FIXED;
        const double *doubles = (const double *)wide.data + wide.offsets[r];
        assert_int_equal(whole.offsets[r + 1] - whole.offsets[r], steps);
        assert_int_equal(wide.offsets[r + 1] - wide.offsets[r], steps);
        assert_signal(id, values, steps);
        for (uint64_t k = 0; k < steps; k++)
            assert_true(doubles[k] == (double)values[k]);
        assert_signal(id, row, steps < FIXED ? steps : FIXED);
        for (uint64_t k = steps; k < FIXED; k++)
            assert_true(row[k] == -1.0f);
    }
}

TEST(signals_go_from_a_file_to_batches_in_slices_however_they_are_stored)
{
    static const enum leat_photos forms[] = {LEAT_PHOTOS_ORIGINAL, LEAT_PHOTOS_RAW};
    static const char *const names[] = {"a.leat", "raw.leat"};
    for (size_t f = 0; f < 2; f++) {
        struct leat_dataset *dataset = test_open(write_signals(names[f], forms[f], true, -1));
        struct leat_loader *loader = open_loader(dataset, program, LEAT_ON_ERROR_RAISE);
        struct leat_batch *batch;
        struct leat_error error;
        uint64_t iteration, rows = 0;
        signal_reads = 0;
        assert_ok(leat_loader_start(loader, &iteration, &error));
        for (int rc; !(rc = leat_loader_next(loader, iteration, -1, &batch, &error)); leat_batch_free(batch)) {
            assert_rows(batch);
            rows += leat_batch_rows(batch);
        }
        assert_int_equal(rows, SAMPLES);
        assert_true(signal_reads > 3 * SAMPLES); /* one each, and more of those that functions go over */
        leat_loader_close(loader);
        leat_dataset_release(dataset);
    }
}

TEST(a_file_of_signals_says_their_sizes_and_gives_what_came)
{
    static uint8_t bytes[SIGNAL_BYTES];
    struct leat_dataset *dataset = test_open(write_signals("b.leat", LEAT_PHOTOS_ORIGINAL, true, -1));
    struct leat_error error;
    struct leat_value value;
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    assert_int_equal(n, 6);
    assert_string_equal(fields[1].name, "x.steps");
    assert_string_equal(fields[2].name, "x.rate");
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const size_t length = signal_make(i, false, bytes);
        assert_ok(leat_dataset_read(dataset, i, 0, &value, &error));
        assert_int_equal(value.length, length);
        assert_memory_equal(value.data, bytes, length);
        leat_value_clear(&value);
        assert_ok(leat_dataset_read(dataset, i, 1, &value, &error));
        assert_int_equal(*(const uint32_t *)value.data, signal_steps(i));
        leat_value_clear(&value);
    }
    leat_dataset_release(dataset);
}

TEST(a_raw_signal_is_read_as_the_array_that_it_decodes_to)
{
    struct leat_dataset *dataset = test_open(write_signals("g.leat", LEAT_PHOTOS_RAW, false, -1));
    struct leat_error error;
    struct leat_value value;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        assert_ok(leat_dataset_read(dataset, i, 0, &value, &error));
        assert_true(value.decoded);
        assert_int_equal(value.dtype, LEAT_F32);
        assert_int_equal(value.ndim, 1);
        assert_int_equal(value.shape[0], signal_steps(i));
        assert_int_equal(value.length, signal_steps(i) * sizeof(float));
        assert_signal(i, value.data, signal_steps(i));
        leat_value_clear(&value);
    }
    leat_dataset_release(dataset);
}

TEST(a_chain_takes_signals_in_each_form)
{
    static uint8_t bytes[SIGNAL_BYTES];
    static const char whole[] = "{\"operators\": {\"d\": {\"type\": \"Decode\"}},"
                                " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\"]}}}";
    struct leat_decoder *decoder = leat_decoder_new(&signal_codec);
    struct leat_chain *chain;
    struct leat_error error;
    assert_non_null(decoder);
    assert_ok(leat_chain_open(&signal_field, whole, NULL, 0, &chain, &error));
    for (uint64_t i = 0; i < 6; i++) {
        struct leat_value made[2];
        uint8_t *raw;
        size_t raw_length;
        const size_t length = signal_make(i, false, bytes);
        assert_ok(signal_codec.pack(decoder, LEAT_PHOTOS_RAW, false, bytes, length, &raw, &raw_length, &error));
        assert_ok(leat_chain_apply(chain, bytes, length, 0, (int64_t)i, &made[0], &error));
        assert_ok(leat_chain_apply(chain, raw, raw_length, 0, (int64_t)i, &made[1], &error));
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(made[k].shape[0], signal_steps(i));
            assert_signal(i, made[k].data, signal_steps(i));
            leat_value_clear(&made[k]);
        }
        leat_free(raw);
    }
    leat_chain_free(chain);
    leat_decoder_free(decoder);
}

static int count_fault(void *user, const struct leat_error *fault)
{
    ++*(unsigned *)user;
    return 0;
}

TEST(verify_finds_a_changed_signal)
{
    const char *path = write_signals("c.leat", LEAT_PHOTOS_ORIGINAL, true, -1);
    unsigned faults = 0;
    struct leat_error error;
    const struct leat_verify_options options = {
        .struct_size = sizeof options, .num_threads = 1, .report = count_fault, .user = &faults};
    assert_ok(leat_verify(path, &options, &error));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 20000, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 20000, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    assert_int_equal(leat_verify(path, &options, &error), LEAT_E_CORRUPT);
    assert_true(faults > 0);
}

/* Rows that are delivered where signal 7 is damaged at its end, which FIXED steps do not reach. */
static uint64_t rows_beside_damage(const char *name, bool check)
{
    struct leat_dataset *dataset = test_open(write_signals(name, LEAT_PHOTOS_ORIGINAL, check, 21));
    struct leat_loader *loader = open_loader(dataset, fixed_only, LEAT_ON_ERROR_SKIP);
    struct leat_batch *batch;
    struct leat_error error;
    uint64_t iteration, rows = 0;
    assert_true(signal_steps(21) > 2 * FIXED);
    assert_ok(leat_loader_start(loader, &iteration, &error));
    for (int rc; !(rc = leat_loader_next(loader, iteration, -1, &batch, &error)); leat_batch_free(batch)) {
        for (uint64_t r = 0; r < leat_batch_rows(batch); r++)
            assert_int_not_equal(leat_batch_ids(batch)[r], 21);
        rows += leat_batch_rows(batch);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    return rows;
}

TEST(a_damaged_signal_is_broken_whatever_part_of_it_is_needed)
{
    assert_int_equal(rows_beside_damage("d.leat", true), SAMPLES - 1); /* packing has marked it */
    signal_scans = 0;
    assert_int_equal(rows_beside_damage("e.leat", false), SAMPLES - 1); /* its first use finds it */
    assert_int_equal(signal_scans, SAMPLES);
}

TEST(arguments_of_images_are_refused)
{
    static const char gray[] = "{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"GRAY\"}},"
                               " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\"]}}}";
    static const char resize[] =
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"r\": {\"type\": \"Resize\", \"size\": [8, 8]}},"
        " \"outputs\": {\"whole\": {\"field\": \"x\", \"chain\": [\"d\", \"r\"]}}}";
    struct leat_dataset *dataset = test_open(write_signals("f.leat", LEAT_PHOTOS_ORIGINAL, true, -1));
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader;
    struct leat_error error;
    options.batch_size = 4;
    options.program = gray;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    options.program = resize;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    leat_dataset_release(dataset);
}

TEST_MAIN_IN(signal_kind, leave_kind)
