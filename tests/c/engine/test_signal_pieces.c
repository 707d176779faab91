/* Pieces of a value of a kind that is no image (../signals.h), and such values among other fields: they are right, or
 * refused by field and kind. */
#include "../signals.h"
#include "../tuning.h"
#include "data/dataset.h"
#include "support.h"

/* Signal 3, and a list of tokens that gets checksums of pages of 256 bytes if it is `large`. */
static const char *write_pages(const char *name, bool large)
{
    static uint8_t bytes[SIGNAL_BYTES], tokens[4000];
    const struct leat_field fields[] = {
        signal_field, {.name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {-1}}};
    const struct leat_value_ref values[] = {{bytes, signal_make(3, false, bytes), NULL},
                                            {tokens, large ? sizeof tokens : 2, NULL}};
    struct leat_writer *writer;
    struct leat_error error;
    const char *path = test_path(name);
    tuning = (struct leat_store_tuning){.large = sizeof tokens, .shift = 8};
    assert_ok(leat_writer_open(path, fields, 2, NULL, &writer, &error));
    tuning = (struct leat_store_tuning){0};
    assert_ok(leat_writer_add(writer, values, NULL, &error));
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return path;
}

enum { BEGIN = 2000, PIECE = 900 };

/* Reads bytes [BEGIN, BEGIN + PIECE) of the signal: by their pages alone if these have checksums. */
static int read_piece(const struct leat_dataset *dataset, uint8_t *to, bool *by_pages, struct leat_error *error)
{
    const uint64_t position = 0;
    struct leat_fetch fetch = {0};
    struct leat_value value = {0};
    size_t failed;
    leat_dataset_locate(dataset, &position, 1, &fetch.ref);
    assert_int_equal(leat_dataset_extents(dataset, 0, &fetch.ref, 1, &fetch.extent, &failed, error), LEAT_OK);
    const uint64_t all = fetch.extent.length;
    leat_ref_resolve(&fetch.ref, &fetch.field);
    leat_extent_narrow(&fetch.ref, &fetch.extent, BEGIN, PIECE);
    *by_pages = fetch.extent.pages;
    const uint64_t reads = fetch.extent.before + fetch.extent.length + fetch.extent.after;
    assert_true(*by_pages ? reads < PIECE + 2 * 256 : reads == all);
    const int rc = leat_fetch_read(&fetch, &value, error);
    if (!rc)
        memcpy(to, value.data, PIECE);
    leat_value_clear(&value);
    return rc;
}

/* Changes a byte of the signal in the file. */
static void change(const char *path, const struct leat_dataset *dataset, uint64_t byte)
{
    const uint64_t position = 0;
    struct leat_sample_ref ref;
    struct leat_extent extent;
    struct leat_error error;
    size_t failed;
    leat_dataset_locate(dataset, &position, 1, &ref);
    assert_ok(leat_dataset_extents(dataset, 0, &ref, 1, &extent, &failed, &error));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)(extent.offset + byte), SEEK_SET);
    const int was = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(was ^ 1, file);
    fclose(file);
}

TEST(a_piece_of_a_signal_is_verified_by_its_pages_or_with_the_whole)
{
    static uint8_t bytes[SIGNAL_BYTES];
    struct leat_error error;
    const uint64_t last = signal_make(3, false, bytes) - 1;
    assert_true(last > BEGIN + PIECE + 256);
    for (int large = 0; large < 2; large++) {
        const char *path = write_pages(large ? "h.leat" : "i.leat", large);
        struct leat_dataset *dataset = test_open(path);
        uint8_t got[PIECE];
        bool by_pages;
        assert_ok(read_piece(dataset, got, &by_pages, &error));
        assert_memory_equal(got, bytes + BEGIN, PIECE);
        assert_int_equal(by_pages, large);
        change(path, dataset, last); /* not in the piece */
        leat_dataset_release(dataset);
        dataset = test_open(path);
        assert_int_equal(read_piece(dataset, got, &by_pages, &error), large ? LEAT_OK : LEAT_E_CORRUPT);
        change(path, dataset, last);
        change(path, dataset, BEGIN + PIECE / 2);
        leat_dataset_release(dataset);
        dataset = test_open(path);
        assert_int_equal(read_piece(dataset, got, &by_pages, &error), LEAT_E_CORRUPT);
        leat_dataset_release(dataset);
    }
}

static void assert_names_it(const struct leat_error *error)
{
    if (!strstr(error->message, "signal") || !(strstr(error->message, "\"x\"") || strstr(error->message, "'x'")))
        fail_msg("%s", error->message);
}

TEST(rows_are_not_cut_from_signals_nor_sized_by_them)
{
    const struct leat_pack_options pack = {.field = "x", .length = 64};
    const struct leat_bucket_options buckets = {.field = "x", .elements = 100};
    struct leat_dataset *dataset = test_open(write_pages("j.leat", false));
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_mix_options mix = LEAT_MIX_OPTIONS_INIT;
    const struct leat_mix_source sources[] = {{.dataset = dataset, .share = 0.5}, {.dataset = dataset, .share = 0.5}};
    struct leat_loader *loader;
    struct leat_error error;
    options.batch_size = 1;
    options.pack = &pack;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    assert_names_it(&error);
    options.pack = NULL;
    options.buckets = &buckets;
    assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
    assert_names_it(&error);
    options.buckets = NULL;
    mix.sources = sources;
    mix.n_sources = 2;
    mix.unit = LEAT_MIX_TOKENS;
    mix.tokens_field = "x";
    assert_int_equal(leat_loader_open_mix(&mix, &options, &loader, &error), LEAT_E_TYPE);
    assert_names_it(&error);
    leat_dataset_release(dataset);
}

/* A signal, an image and boxes. `boxes_alone`: and no image; *counted: whether the boxes were compared with one. */
static const char *write_beside(const char *name, bool boxes_alone, bool *counted)
{
    static const uint8_t pixels[4 * 4 * 3];
    static const float box[4] = {1, 1, 3, 3};
    static uint8_t bytes[SIGNAL_BYTES];
    const struct leat_field fields[] = {signal_field,
                                        {.name = "boxes",
                                         .kind = LEAT_KIND_ARRAY,
                                         .dtype = LEAT_F32,
                                         .ndim = 2,
                                         .shape = {-1, 4},
                                         .role = LEAT_ROLE_BOXES_XYXY},
                                        {.name = "image",
                                         .kind = LEAT_KIND_ARRAY,
                                         .dtype = LEAT_U8,
                                         .layout = LEAT_LAYOUT_HWC,
                                         .ndim = 3,
                                         .shape = {4, 4, 3}}};
    const struct leat_value_ref values[] = {
        {bytes, signal_make(0, false, bytes), NULL}, {box, sizeof box, NULL}, {pixels, sizeof pixels, NULL}};
    struct leat_writer *writer;
    struct leat_box_counts counts;
    struct leat_error error;
    const char *path = test_path(name);
    assert_ok(leat_writer_open(path, fields, boxes_alone ? 2 : 3, NULL, &writer, &error));
    assert_ok(leat_writer_add(writer, values, NULL, &error));
    assert_ok(leat_writer_finish(writer, &error));
    *counted = leat_writer_boxes(writer, 1, &counts);
    leat_writer_free(writer, false);
    return path;
}

TEST(boxes_are_not_those_of_a_signal)
{
    bool counted;
    write_beside("k.leat", true, &counted);
    assert_false(counted);
    write_beside("l.leat", false, &counted);
    assert_true(counted);
}

TEST(a_signal_in_a_tuple_is_refused_and_stands_beside_one)
{
    static const char *const refused[] = {
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}},"
        " \"outputs\": {\"x\": {\"fields\": [\"x\", \"boxes\"], \"chain\": [\"d\"]}}}",
        "{\"operators\": {\"f\": {\"type\": \"RandomHorizontalFlip\"}},"
        " \"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\", \"x\"], \"chain\": [\"f\"]}}}",
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}},"
        " \"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [\"d\"], \"geometry\": true}}}"};
    static const char beside[] =
        "{\"operators\": {\"d\": {\"type\": \"Decode\"}, \"f\": {\"type\": \"RandomHorizontalFlip\"}},"
        " \"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\"], \"chain\": [\"f\"]},"
        " \"x\": {\"field\": \"x\", \"chain\": [\"d\"]}}}";
    bool counted;
    struct leat_dataset *dataset = test_open(write_beside("m.leat", false, &counted));
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_tensor x;
    struct leat_error error;
    uint64_t iteration;
    options.batch_size = 1;
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        options.program = refused[k];
        assert_int_equal(leat_loader_open(dataset, &options, &loader, &error), LEAT_E_TYPE);
        assert_names_it(&error);
    }
    options.program = beside;
    assert_ok(leat_loader_open(dataset, &options, &loader, &error));
    assert_ok(leat_loader_start(loader, &iteration, &error));
    assert_ok(leat_loader_next(loader, iteration, -1, &batch, &error));
    assert_int_equal(leat_batch_tensor(batch, 2, &x), LEAT_OK);
    assert_int_equal(x.offsets[1], signal_steps(0));
    assert_signal(0, x.data, signal_steps(0));
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

static int leave_kind(void **state)
{
    codec_instead = NULL;
    return test_clean(state);
}

TEST_MAIN_IN(signal_kind, leave_kind)
