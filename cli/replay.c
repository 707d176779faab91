/*
 * leat replay: the batch that a saved state points at, computed again and written as files that other programs open.
 *
 * The state has all that decides what is in the batch, except the program and the data: seed, order, sizes, position.
 *
 *     OUT/batch.json            epoch, step, ids, random keys, which rows are padding, what was broken, the outputs
 *     OUT/image.npy             a dense output; OUT/image.png beside it if it is a batch of images
 *     OUT/boxes.values.npy      an output whose rows vary in length, one after the other, and
 *     OUT/boxes.offsets.npy     where each row begins
 *     OUT/photo/0003-id17.jpg   a value as it is stored, one file a row; .png of a photo that is stored as pixels
 *     OUT/caption.json          text, a list of strings
 */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "array_file.h"
#include "commands.h"
#include "print.h"
#include "python.h"
#include "view/sheet.h"

enum { MOST_OF_A_NAME = 127, NAME_BYTES = MOST_OF_A_NAME + 24 };

struct replay {
    const struct cli_command *command;
    const char *out, *log;
    char (*names)[NAME_BYTES]; /* of the outputs, as parts of paths */
    struct cli_saved_batch saved;
    struct leat_batch *batch; /* of `saved` */
    struct cli_rows rows;     /* of it */
};
static const struct cli_option options[] = {
    {"out", "DIR", "the folder that gets the files; it is made if it is not there", CLI_TEXT,
     .at = offsetof(struct replay, out)},
    {"rank", "R", "the rank whose part of the batch is wanted; default: 0", CLI_U64,
     .at = offsetof(struct replay, saved.rank), 0, UINT32_MAX - 1},
    {"world-size", "W", "ranks among which the batch was divided; default: what the state says", CLI_U64,
     .at = offsetof(struct replay, saved.world_size), 1, UINT32_MAX},
    {"program", "FILE",
     "the program of the loader as JSON (its outputs and operators); default: every\n"
     "field as it is stored",
     CLI_TEXT, .at = offsetof(struct replay, saved.program_path)},
    {"epoch", "E", "another batch of that run: its epoch; needs --step", CLI_U64,
     .at = offsetof(struct replay, saved.epoch), 0, INT64_MAX, .needs = "step"},
    {"step", "S", "another batch of that run: its step; default epoch: the state's", CLI_U64,
     .at = offsetof(struct replay, saved.step), 0, INT64_MAX},
    {"select", "FILE",
     "the positions of a run over select(positions) with more than 256 of them:\n"
     "numbers, one a line",
     CLI_TEXT, .at = offsetof(struct replay, saved.select_path)},
    {"log", "FILE", "instead of STATE: repeat a whole run of a mixture; see leat replay --log --help", CLI_TEXT,
     .at = offsetof(struct replay, log)},
    CLI_OPENING_OPTIONS(struct replay, saved.opening),
};

static char *join(const struct replay *replay, const char *name, const char *suffix)
{
    char *path;
    return asprintf(&path, "%s/%s%s", replay->out, name, suffix) < 0 ? NULL : path;
}

/* Whether a file or folder of one output may have the path of one of another. */
static bool may_meet(const char *a, const char *b)
{
    static const char *const ends[] = {"",        ".npy",     ".png",        ".json",
                                       ".values", ".offsets", ".values.npy", ".offsets.npy"};
    const size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m;
    const char *rest = n < m ? b + shorter : a + shorter;
    bool meet = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        meet |= !strcmp(rest, ends[i]);
    return meet && !strncmp(a, b, shorter);
}

static bool is_taken(const struct replay *replay, const char *name, size_t n)
{
    bool taken = may_meet(name, "batch");
    for (size_t i = 0; i < n; i++)
        taken |= may_meet(name, replay->names[i]);
    return taken;
}

/* The name of output n as part of a path, which no file of those before it has, nor batch.json. Other characters than
 * letters, digits, dots, dashes and underscores become underscores. */
static const char *file_name(const struct replay *replay, const char *name, size_t n)
{
    char *out = replay->names[n];
    size_t i = 0;
    for (; name[i] && i < MOST_OF_A_NAME; i++) {
        const char c = name[i];
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (i && (c == '.' || c == '-'));
        out[i] = plain ? c : '_';
    }
    out[i] = 0;
    for (size_t k = 1; is_taken(replay, out, n); k++)
        snprintf(out + i, NAME_BYTES - i, k > 1 ? "_%zu" : "_", k);
    return out;
}

static bool make_folder(const struct replay *replay, const char *path)
{
    struct stat st;
    if (!mkdir(path, 0777) || (errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)))
        return true;
    cli_say(replay->command, "the folder %s cannot be made: %s%s.", path, strerror(errno == EEXIST ? ENOTDIR : errno),
            cli_if_full(errno));
    return false;
}

static bool write_file(const struct replay *replay, const char *path, const void *data, size_t length)
{
    FILE *file = fopen(path, "wb");
    bool good = file && (!length || fwrite(data, 1, length, file) == length);
    if (file)
        good = !fclose(file) && good;
    if (!good)
        cli_say_unwritten(replay->command, path, errno);
    return good;
}

static bool write_array(const struct replay *replay, const char *name, const char *suffix,
                        const struct cli_array *array)
{
    char *path = join(replay, name, suffix);
    bool good = path && cli_write_npy(replay->command, path, array);
    free(path);
    return good;
}

/* The pictures of output `i` as leat view --batch shows them. *drawn: whether it has some, and not too many. */
static bool write_sheet(const struct replay *replay, size_t i, const char *name, bool *drawn)
{
    enum { SIDE = 256, MOST = 1000 };
    const uint64_t rows = leat_batch_rows(replay->batch);
    const size_t pictures = cli_column_pictures(&replay->rows.columns[i]);
    struct cli_sheet sheet = {
        .title = name, .note = replay->out, .group = pictures, .side = SIDE, .dataset = replay->saved.dataset};
    int width, height;
    *drawn = pictures && rows && rows <= MOST / pictures && cli_sheet_has_room(&sheet, rows * pictures);
    char *path = join(replay, name, ".png");
    bool good = path;
    for (uint64_t k = 0; *drawn && good && k < rows * pictures; k++) {
        struct leat_error error;
        struct cli_item *item = cli_sheet_add(&sheet);
        good = item && !cli_item_make(&replay->rows, k / pictures, i, k % pictures, SIDE, item, &error);
    }
    if (!good)
        cli_say(replay->command, "there is no memory for the sheet.");
    good = good && (!*drawn || cli_sheet_write(replay->command, &sheet, path, &width, &height));
    cli_sheet_clear(&sheet);
    free(path);
    return good;
}

static bool write_dense(const struct replay *replay, size_t i, const char *name, const struct leat_tensor *tensor,
                        json_t *about)
{
    struct cli_array array = {.dtype = tensor->dtype, .ndim = tensor->ndim, .data = tensor->data};
    bool sheet = false;
    memcpy(array.shape, tensor->shape, sizeof array.shape);
    memcpy(array.strides, tensor->strides, sizeof array.strides);
    const bool good = write_array(replay, name, ".npy", &array) && write_sheet(replay, i, name, &sheet);
    json_object_set_new(about, "file", json_sprintf("%s.npy", name));
    if (sheet)
        json_object_set_new(about, "contact_sheet", json_sprintf("%s.png", name));
    return good;
}

/* Rows of bytes: a folder with a file for each. */
static bool write_stored(const struct replay *replay, const char *name, const struct leat_tensor *tensor, json_t *about)
{
    const uint64_t rows = leat_batch_rows(replay->batch);
    const int64_t *ids = leat_batch_ids(replay->batch);
    char *folder = join(replay, name, "");
    bool good = folder && make_folder(replay, folder);
    json_t *files = json_array();
    for (uint64_t r = 0; good && r < rows; r++) {
        const uint8_t *data = (const uint8_t *)tensor->data + tensor->offsets[r];
        const size_t length = (size_t)(tensor->offsets[r + 1] - tensor->offsets[r]);
        const bool image = tensor->kind == LEAT_KIND_IMAGE;
        struct cli_photo photo;
        const bool pixels = image && cli_photo_of_pixels(data, length, &photo);
        char *path, part[128];
        snprintf(part, sizeof part, "%04" PRIu64 "-id%" PRId64 "%s", r, ids[r],
                 pixels  ? ".png"
                 : image ? leat_photo_kind_suffix(leat_photo_kind(data, length))
                         : ".bin");
        good = asprintf(&path, "%s/%s", folder, part) >= 0;
        if (!good)
            break;
        good = pixels ? cli_write_photo(replay->command, path, &photo) : write_file(replay, path, data, length);
        free(path);
        json_array_append_new(files, json_sprintf("%s/%s", name, part));
    }
    json_object_set_new(about, "files", files);
    free(folder);
    return good;
}

static bool write_text(const struct replay *replay, const char *name, const struct leat_tensor *tensor, json_t *about)
{
    json_t *list = json_array();
    for (uint64_t r = 0; r < leat_batch_rows(replay->batch); r++) {
        const char *data = (const char *)tensor->data + tensor->offsets[r];
        json_t *text = json_stringn(data, (size_t)(tensor->offsets[r + 1] - tensor->offsets[r]));
        json_array_append_new(list, text ? text : json_null());
    }
    char *path = join(replay, name, ".json");
    char *text = json_dumps(list, JSON_INDENT(1));
    bool good = path && text && write_file(replay, path, text, strlen(text));
    json_object_set_new(about, "file", json_sprintf("%s.json", name));
    free(text);
    free(path);
    json_decref(list);
    return good;
}

static bool write_ragged(const struct replay *replay, const char *name, const struct leat_tensor *tensor, json_t *about)
{
    struct cli_array values = {.dtype = tensor->dtype, .ndim = tensor->ndim, .data = tensor->data};
    const int64_t n = (int64_t)leat_batch_rows(replay->batch) + 1;
    struct cli_array offsets = cli_array_dense(LEAT_I64, 1, &n, tensor->offsets);
    memcpy(values.shape, tensor->shape, sizeof values.shape);
    memcpy(values.strides, tensor->strides, sizeof values.strides);
    json_object_set_new(about, "values", json_sprintf("%s.values.npy", name));
    json_object_set_new(about, "offsets", json_sprintf("%s.offsets.npy", name));
    return write_array(replay, name, ".values.npy", &values) && write_array(replay, name, ".offsets.npy", &offsets);
}

static bool write_output(const struct replay *replay, size_t i, json_t *outputs)
{
    struct leat_tensor tensor;
    if (leat_batch_tensor(replay->batch, i, &tensor)) {
        cli_say(replay->command, "output %zu of the batch cannot be read.", i);
        return false;
    }
    const char *name = file_name(replay, tensor.name, i);
    json_t *about = json_object(), *shape = json_array();
    for (unsigned d = 0; d < tensor.ndim; d++)
        json_array_append_new(shape, json_integer(tensor.shape[d]));
    json_object_set_new(about, "dtype", json_string(leat_dtype_name(tensor.dtype)));
    json_object_set_new(about, "shape", shape);
    json_object_set_new(outputs, tensor.name, about);
    if (!tensor.offsets)
        return write_dense(replay, i, name, &tensor, about);
    if (tensor.kind == LEAT_KIND_STR || tensor.kind == LEAT_KIND_JSON)
        return write_text(replay, name, &tensor, about);
    if (tensor.kind != LEAT_KIND_ARRAY)
        return write_stored(replay, name, &tensor, about);
    return write_ragged(replay, name, &tensor, about);
}

static json_t *describe(const struct replay *replay)
{
    const struct leat_batch *batch = replay->batch;
    json_t *ids = json_array(), *keys = json_array(), *valid = json_array(), *errors = json_array();
    for (uint64_t r = 0; r < leat_batch_rows(batch); r++) {
        json_array_append_new(ids, json_integer(leat_batch_ids(batch)[r]));
        json_array_append_new(
            keys, json_sprintf("%016" PRIx64, leat_batch_row_keys(batch)[r])); /* above 2^53: not a number */
        json_array_append_new(valid, json_boolean(leat_batch_valid(batch)[r]));
    }
    for (size_t i = 0; i < leat_batch_errors(batch); i++) {
        struct leat_row_error error;
        if (leat_batch_error(batch, i, &error))
            continue;
        json_t *one = json_pack("{sI sI so so?}", "row", (json_int_t)error.row, "planned", (json_int_t)error.planned,
                                "delivered", error.delivered < 0 ? json_null() : json_integer(error.delivered),
                                "reason", json_string(error.reason));
        json_array_append_new(errors, one);
    }
    return json_pack("{sI sI so so so so}", "epoch", (json_int_t)leat_batch_epoch(batch), "step",
                     (json_int_t)leat_batch_step(batch), "ids", ids, "row_keys", keys, "valid", valid, "errors",
                     errors);
}

static bool write_batch(struct replay *replay)
{
    json_t *about = describe(replay), *outputs = json_object(),
           *program = replay->saved.program ? json_loads(replay->saved.program, 0, NULL) : NULL;
    replay->names = calloc(leat_batch_outputs(replay->batch) + 1, sizeof *replay->names);
    bool good = replay->names && make_folder(replay, replay->out) &&
                cli_rows_of_batch(replay->batch, replay->saved.dataset, program, &replay->rows);
    json_object_set_new(about, "outputs", outputs);
    for (size_t i = 0; good && i < leat_batch_outputs(replay->batch); i++)
        good = write_output(replay, i, outputs);
    char *path = join(replay, "batch", ".json"), *text = json_dumps(about, JSON_INDENT(1));
    good = good && path && text && write_file(replay, path, text, strlen(text));
    cli_rows_clear(&replay->rows);
    free(replay->names);
    free(path);
    free(text);
    json_decref(about);
    json_decref(program);
    return good;
}

static int replay_state(struct replay *replay)
{
    char shown[1200];
    int exit_code = cli_saved_batch_open(replay->command, &replay->saved);
    replay->batch = replay->saved.batch;
    if (exit_code == CLI_EXIT_OK)
        exit_code = write_batch(replay) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    if (exit_code == CLI_EXIT_OK)
        printf("epoch %" PRIu64 ", step %" PRIu64 ", rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " rows in %s\n",
               leat_batch_epoch(replay->batch), leat_batch_step(replay->batch), replay->saved.of_rank,
               replay->saved.of_ranks, leat_batch_rows(replay->batch), leat_escape(replay->out, shown, sizeof shown));
    cli_saved_batch_close(&replay->saved);
    return exit_code;
}

/* ---- a whole run ----------------------------------------------------------------------------- */

struct repeat {
    const char *log, *spec, *text;
    uint64_t number;
    bool flag;
};

/* Those behind the first are handed over as they were typed. */
static const struct cli_option repeat_options[] = {
    {"log", "FILE", "the run's decisions: decisions.jsonl of its log_dir, JSON of loader.log, or a\nstate", CLI_TEXT,
     .at = offsetof(struct repeat, log)},
    {"against", "FILE", "compare with what an earlier call printed; stop at the first difference", CLI_TEXT,
     .at = offsetof(struct repeat, text)},
    {"steps", "N", "so many steps from the beginning; default: up to the last decision", CLI_U64,
     .at = offsetof(struct repeat, number), 1, INT64_MAX},
    {"seed", "N", "of the run; default: what the state says, else 0", CLI_U64, .at = offsetof(struct repeat, number), 0,
     INT64_MAX},
    {"sequential", NULL, "the run did not shuffle; default: what the state says, else it did", CLI_SET,
     .at = offsetof(struct repeat, flag)},
    {"quiet", NULL, "only the hash of all steps", CLI_SET, .at = offsetof(struct repeat, flag)},
};

/* Mixtures are declared in Python, so the Python package does the work. */
static int run_repeat(const struct cli_command *command, int argc, char **argv)
{
    struct repeat repeat = {.log = NULL};
    int exit_code;
    if (!cli_parse(command, argc, argv, &repeat, &exit_code))
        return exit_code;
    if (!repeat.log)
        return cli_usage_error(command, "--log takes a file: the decisions of the run.");
    return cli_become_python(command, &repeat, "spec", &(struct cli_several){(char *const *)&repeat.spec, 1}, NULL,
                             NULL);
}

static const struct cli_command repeats = {
    .name = "replay",
    .usage = "--log FILE SPEC [options]",
    .summary = "repeat a run of a mixture from its log",
    .about =
        "SPEC is the mixture that the run was opened with, as of leat mix show. Its decisions are taken from FILE,\n"
        "without the losses that led to them. Prints a line a step, with a hash of the sample ids of all ranks, and\n"
        "at the end one of all steps. Nothing is read but what the plan needs.\n",
    .arguments = {{"SPEC", offsetof(struct repeat, spec)}},
    .options = repeat_options,
    .n_options = sizeof repeat_options / sizeof *repeat_options,
    .more = "Examples:\n"
            "  leat replay --log run/decisions.jsonl train.py:mix --seed 7 > steps.txt\n"
            "  leat replay --log state.json mix.toml --against steps.txt\n"
            "\nExit codes: 0 repeated; 1 a step differs; 2 could not run.\n",
    .run = run_repeat,
};

/* --help behind --log is no file. */
static bool of_a_log(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strcmp(argv[i], "--log") && i + 1 < argc && !strcmp(argv[i + 1], "--help"))
            argv[i] = argv[i + 1];
        else if (strcmp(argv[i], "--log") != 0 && strncmp(argv[i], "--log=", 6) != 0)
            continue;
        return true;
    }
    return false;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    if (of_a_log(argc, argv))
        return run_repeat(&repeats, argc, argv);
    struct replay replay = {.command = command, .saved = CLI_SAVED_BATCH_INIT};
    int exit_code;
    if (!cli_parse(command, argc, argv, &replay, &exit_code))
        return exit_code;
    if (!replay.out)
        return cli_usage_error(command, "--out is missing: the folder that gets the batch.");
    return replay_state(&replay);
}

const struct cli_command cli_replay = {
    .name = "replay",
    .usage = "STATE DATA... --out DIR [options]",
    .summary = "write the batch that a saved state points at",
    .about =
        "STATE is a JSON file with what loader.state_dict() gave; DATA is the data set that the loader had, or all\n"
        "that were joined to it, in their order. A state points at the batch that comes next: after an error in a\n"
        "training, the one that failed. The batch is computed again, the same to the last bit, and written to DIR:\n"
        "batch.json with ids and random keys, each output as .npy, batches of images also as a contact sheet (.png),\n"
        "stored photos byte for byte, or as .png where they were packed as pixels.\n",
    .arguments = {{"STATE", offsetof(struct replay, saved.state_path)}, {"DATA", offsetof(struct replay, saved.data)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more =
        "Examples:\n"
        "  leat replay state.json train.leat --out batch --program program.json\n"
        "  leat replay state.json train.leat --out batch --rank 3 --world-size 8\n"
        "  leat replay state.json train.leat --out batch --step 0        the first batch of that epoch\n"
        "  leat replay --log run/decisions.jsonl train.py:mix --seed 7   the rows of a whole run of a mixture\n"
        "\nExit codes: 0 written; 1 a sample of the batch is broken; 2 could not run, or the state is of other data.\n",
    .run = run,
};
