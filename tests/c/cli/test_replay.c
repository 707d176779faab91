/* leat replay gives what the loader gave. argv[1] is the command. */
#include "../photos.h"

static const char *command_path;

static const char program[] =
    "{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}, \"c\": {\"type\": \"RandomResizedCrop\", "
    "\"size\": [24, 32]},"
    " \"n\": {\"type\": \"Normalize\", \"mean\": [0.5, 0.5, 0.5], \"std\": [0.25, 0.25, 0.25]}},"
    " \"outputs\": {\"image\": {\"field\": \"image\", \"chain\": [\"d\", \"c\", \"n\"]},"
    " \"label\": {\"field\": \"label\", \"chain\": []}, \"stored\": {\"field\": \"image\", \"chain\": []},"
    " \"name\": {\"field\": \"name\", \"chain\": []}}}";

static char *path_of(const char *name)
{
    static char paths[4][256];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", photos_root, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static char *read_all(const char *name, size_t *length)
{
    FILE *file = fopen(path_of(name), "rb");
    if (!file)
        fail_msg("%s is not there", name);
    static char bytes[1 << 20];
    *length = fread(bytes, 1, sizeof bytes - 1, file);
    bytes[*length] = 0;
    fclose(file);
    return bytes;
}

static int setup(void **state)
{
    char command[1024];
    if (photos_setup(state))
        return 1;
    snprintf(command, sizeof command, "%s pack --quiet %s/photos %s/p.leat", command_path, photos_root, photos_root);
    write_text("program.json", program);
    return run_command(command, NULL, 0);
}

static int replay_of(const char *data, const char *more)
{
    char command[1024];
    snprintf(command, sizeof command, "%s replay %s %s --out %s --program %s %s 2>&1", command_path,
             path_of("state.json"), path_of(data), path_of("out"), path_of("program.json"), more);
    char last[512];
    const int code = run_command(command, last, sizeof last);
    if (code)
        print_message("%s", last);
    return code;
}

static int replay(const char *more)
{
    return replay_of("p.leat", more);
}

/* The elements of a .npy follow its header. */
static void assert_npy(const char *name, const void *data, size_t bytes)
{
    size_t length;
    const char *file = read_all(name, &length);
    assert_true(length > 10);
    const size_t header = 10 + (size_t)(uint8_t)file[8] + 256 * (size_t)(uint8_t)file[9];
    assert_int_equal(header % 64, 0);
    assert_int_equal(length - header, bytes);
    assert_memory_equal(file + header, data, bytes);
}

static void assert_replayed(const struct leat_batch *batch)
{
    struct leat_tensor image, label, stored;
    size_t length;
    char text[64], name[64];
    assert_int_equal(leat_batch_tensor(batch, 0, &image), 0);
    assert_int_equal(leat_batch_tensor(batch, 1, &label), 0);
    assert_int_equal(leat_batch_tensor(batch, 2, &stored), 0);
    const uint64_t rows = leat_batch_rows(batch);
    assert_npy("out/image.npy", image.data, rows * 3 * 24 * 32 * sizeof(float));
    assert_npy("out/label.npy", label.data, rows * sizeof(int64_t));
    for (uint64_t r = 0; r < rows; r++) {
        snprintf(name, sizeof name, "out/stored/%04" PRIu64 "-id%" PRId64 ".jpg", r, leat_batch_ids(batch)[r]);
        const char *bytes = read_all(name, &length);
        assert_int_equal(length, (size_t)(stored.offsets[r + 1] - stored.offsets[r]));
        assert_memory_equal(bytes, (const char *)stored.data + stored.offsets[r], length);
    }
    snprintf(text, sizeof text, "\"step\": %" PRIu64, leat_batch_step(batch));
    assert_non_null(strstr(read_all("out/batch.json", &length), text));
    const char *picture = read_all("out/image.png", &length);
    assert_memory_equal(picture, "\x89PNG", 4);
}

/* A loader of the packed file, and its options. */
static struct leat_loader *open_loader(uint32_t rank, uint32_t world_size, struct leat_dataset **dataset)
{
    struct leat_error error;
    struct leat_loader *loader;
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    assert_ok(leat_dataset_open(path_of("p.leat"), NULL, dataset, &error));
    options.batch_size = 3;
    options.order = LEAT_ORDER_SHUFFLED;
    options.seed = 11;
    options.rank = rank;
    options.world_size = world_size;
    options.program = program;
    assert_ok(leat_loader_open(*dataset, &options, &loader, &error));
    return loader;
}

/* Takes `taken` batches, saves the state, and gives the batch that comes next. */
static struct leat_batch *save_after(struct leat_loader *loader, unsigned taken)
{
    struct leat_error error;
    struct leat_batch *batch;
    uint64_t iteration;
    char *json;
    assert_ok(leat_loader_start(loader, &iteration, &error));
    for (unsigned i = 0; i < taken; i++) {
        assert_ok(leat_loader_next(loader, iteration, -1, &batch, &error));
        leat_batch_free(batch);
    }
    assert_ok(leat_loader_state(loader, &json, &error));
    write_text("state.json", json);
    leat_free(json);
    assert_ok(leat_loader_next(loader, iteration, -1, &batch, &error));
    return batch;
}

TEST(the_batch_that_a_state_points_at_is_written_bit_for_bit)
{
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    struct leat_batch *batch = save_after(loader, 3);
    assert_int_equal(replay(""), 0);
    assert_replayed(batch);
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(the_fast_form_of_the_same_photos_gives_the_same_files)
{
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    struct leat_batch *batch = save_after(loader, 2);
    char command[1024];
    snprintf(command, sizeof command, "%s pack --quiet --photos fast %s/photos %s/fast.leat", command_path, photos_root,
             photos_root);
    assert_int_equal(run_command(command, NULL, 0), 0);
    assert_int_equal(replay_of("fast.leat", ""), 0);
    assert_replayed(batch); /* among them the photos as they came */
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(another_rank_gives_its_part_of_the_same_batch)
{
    struct leat_dataset *dataset, *other;
    struct leat_loader *first = open_loader(0, 2, &dataset), *second = open_loader(1, 2, &other);
    struct leat_batch *batch = save_after(second, 1);
    leat_batch_free(save_after(first, 1)); /* the state that is left is that of rank 0 */
    assert_int_equal(replay("--rank 1"), 0);
    assert_replayed(batch);
    leat_batch_free(batch);
    leat_loader_close(first);
    leat_loader_close(second);
    leat_dataset_release(dataset);
    leat_dataset_release(other);
}

TEST(a_step_names_any_other_batch)
{
    struct leat_error error;
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    struct leat_batch *batch;
    leat_batch_free(save_after(loader, 3));
    assert_ok(leat_loader_batch_at(loader, 2, 1, &batch, &error));
    assert_int_equal(replay("--epoch 2 --step 1"), 0);
    assert_replayed(batch);
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

TEST(a_state_of_other_data_is_refused)
{
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    leat_batch_free(save_after(loader, 1));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    char command[1024], last[512];
    snprintf(command, sizeof command, "%s replay %s %s/photos/cat --out %s 2>&1", command_path, path_of("state.json"),
             photos_root, path_of("none"));
    assert_int_equal(run_command(command, last, sizeof last), 2);
    assert_int_equal(access(path_of("none"), F_OK), -1);
    write_text("state.json", "{\"not\": \"a state\"}");
    assert_int_equal(replay(""), 2);
    write_text("state.json", "no JSON");
    assert_int_equal(replay(""), 2);
}

TEST(a_rank_that_is_not_there_is_refused)
{
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    leat_batch_free(save_after(loader, 1));
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    assert_int_equal(replay("--rank 1"), 2);
}

TEST(an_output_named_batch_does_not_stand_in_the_place_of_what_is_said_of_the_batch)
{
    struct leat_dataset *dataset;
    struct leat_loader *loader = open_loader(0, 1, &dataset);
    struct leat_batch *batch = save_after(loader, 1);
    size_t length;
    write_text("program.json", "{\"operators\": {}, \"outputs\": {\"batch\": {\"field\": \"name\", \"chain\": []}}}");
    const int code = replay("");
    write_text("program.json", program);
    assert_int_equal(code, 0);
    assert_non_null(strstr(read_all("out/batch.json", &length), "\"step\": 1"));
    assert_non_null(strstr(read_all("out/batch_.json", &length), ".jpg"));
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    command_path = argv[1];
    return test_run(setup, photos_teardown);
}
