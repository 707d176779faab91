/* The example's operator in a loader. argv[1] is its library. */
#include "../test.h"

#include <dlfcn.h>
#include <unistd.h>

enum { SAMPLES = 12, HEIGHT = 20, WIDTH = 30, CHANNELS = 3, SIDE = 8, VALUE = 7 };

static const char *library;
static char path[64];

/* Samples whose pixels are all 100. */
static int write_images(void **state)
{
    const struct leat_field field = {.name = "x",
                                     .kind = LEAT_KIND_ARRAY,
                                     .dtype = LEAT_U8,
                                     .layout = LEAT_LAYOUT_HWC,
                                     .ndim = 3,
                                     .shape = {HEIGHT, WIDTH, CHANNELS}};
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_writer *writer;
    struct leat_error error;
    uint8_t pixels[HEIGHT * WIDTH * CHANNELS];
    memset(pixels, 100, sizeof pixels);
    snprintf(path, sizeof path, "/tmp/leat-native-%ld.leat", (long)getpid());
    options.overwrite = true;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    for (int i = 0; i < SAMPLES; i++) {
        const struct leat_value_ref value = {.data = pixels, .length = sizeof pixels};
        assert_ok(leat_writer_add(writer, &value, NULL, &error));
    }
    assert_ok(leat_writer_finish(writer, &error));
    leat_writer_free(writer, false);
    return 0;
}

static int remove_images(void **state)
{
    return unlink(path);
}

/* One batch of all samples, through cutout with `numbers`. */
static int load(const char *numbers, unsigned num_threads, struct leat_loader **loader, struct leat_batch **batch,
                struct leat_error *error)
{
    void *opened = dlopen(library, RTLD_NOW);
    assert_non_null(opened);
    const struct leat_native function = {.call = (leat_native_fn)(uintptr_t)dlsym(opened, "cutout")};
    char program[512];
    snprintf(program, sizeof program,
             "{\"operators\": {\"c\": {\"type\": \"Native\", \"function\": 0, \"source\": \"native_op:cutout\", "
             "\"numbers\": %s}}, "
             "\"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [\"c\"]}}}",
             numbers);
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    options.batch_size = SAMPLES;
    options.program = program;
    options.num_threads = num_threads;
    options.functions = &function;
    options.n_functions = 1;
    struct leat_dataset *dataset;
    assert_int_equal(leat_dataset_open(path, NULL, &dataset, error), LEAT_OK);
    int rc = leat_loader_open(dataset, &options, loader, error);
    leat_dataset_release(dataset);
    return rc ? rc : leat_loader_batch_at(*loader, 0, 0, batch, error);
}

TEST(the_example_paints_a_square_over_at_a_place_of_each_rows_own)
{
    struct leat_loader *loader;
    struct leat_batch *batch;
    struct leat_tensor x;
    struct leat_error error;
    assert_ok(load("[8, 7]", 2, &loader, &batch, &error));
    assert_int_equal(leat_batch_tensor(batch, 0, &x), LEAT_OK);
    const uint8_t *pixels = x.data;
    long places = 0, last = -1;
    for (int row = 0; row < SAMPLES; row++) {
        long painted = 0, first = -1;
        for (long i = 0; i < CHANNELS * HEIGHT * WIDTH; i++) { /* the batch is NCHW */
            uint8_t v = pixels[row * CHANNELS * HEIGHT * WIDTH + i];
            assert_true(v == 100 || v == VALUE);
            painted += v == VALUE;
            first = v == VALUE && first < 0 ? i : first;
        }
        assert_int_equal(painted, SIDE * SIDE * CHANNELS);
        for (long y = 0; y < SIDE; y++)
            assert_int_equal(pixels[row * CHANNELS * HEIGHT * WIDTH + first + y * WIDTH + SIDE - 1], VALUE);
        places += first != last;
        last = first;
    }
    assert_true(places > SAMPLES / 2);
    leat_batch_free(batch);
    leat_loader_close(loader);
}

TEST(the_example_draws_the_same_for_any_number_of_threads)
{
    struct leat_loader *loaders[2];
    struct leat_batch *batches[2];
    struct leat_tensor x[2];
    struct leat_error error;
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(load("[8, 7]", 1 + 3 * i, &loaders[i], &batches[i], &error));
        assert_int_equal(leat_batch_tensor(batches[i], 0, &x[i]), LEAT_OK);
    }
    assert_memory_equal(x[0].data, x[1].data, SAMPLES * HEIGHT * WIDTH * CHANNELS);
    for (unsigned i = 0; i < 2; i++) {
        leat_batch_free(batches[i]);
        leat_loader_close(loaders[i]);
    }
}

TEST(what_the_example_says_of_its_arguments_is_the_error_of_the_sample)
{
    struct leat_loader *loader = NULL;
    struct leat_batch *batch;
    struct leat_error error;
    assert_int_equal(load("[0]", 1, &loader, &batch, &error), LEAT_E_OPERATOR);
    assert_int_equal(error.sample, 0);
    assert_string_equal(
        error.message,
        "Native(native_op:cutout) in output 'x' failed with 1: cutout takes args=[side, value], with a side "
        "from 1 to 65535");
    leat_loader_close(loader);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    library = argv[1];
    return test_run(write_images, remove_images);
}
