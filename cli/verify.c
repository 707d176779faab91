/*
 * leat verify: reads every byte of files, of all shards of a manifest or of a folder, and prints each fault.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "paths.h"
#include "print.h"
#include "progress.h"
#include "tables.h"

struct verify {
    const struct cli_command *command;
    struct cli_several given;
    const char *path; /* the one of them that is read */
    uint64_t faults;  /* of it */
    atomic_ullong bytes, total;
    enum leat_verified verified;
    unsigned threads;
    bool quiet;
    char of_values[33]; /* the fingerprint of the values of a file that has that of its source; else "" */
    char of_source[33];
};
static const struct cli_option options[] = {
    {"num-threads", "N", "threads that read; default: as many as this process may use", CLI_UNSIGNED,
     .at = offsetof(struct verify, threads), 1, 4096},
    {"quiet", NULL, "print the faults only: no progress, no last line", CLI_SET, .at = offsetof(struct verify, quiet)},
};

static int on_fault(void *user, const struct leat_error *fault)
{
    struct verify *verify = user;
    char text[4096];
    cli_error_text(fault, text, sizeof text);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* the line of progress, which is drawn again below */
    puts(text);
    fflush(stdout);
    verify->faults++;
    return cli_interrupted();
}

static int on_progress(void *user, uint64_t bytes, uint64_t total)
{
    struct verify *verify = user;
    atomic_store(&verify->bytes, bytes);
    atomic_store(&verify->total, total);
    return cli_interrupted();
}

static void read_progress(void *user, struct cli_progress_state *state)
{
    struct verify *verify = user;
    char a[32], b[32];
    state->bytes = atomic_load(&verify->bytes);
    state->total_bytes = atomic_load(&verify->total);
    snprintf(state->note, sizeof state->note, "%s of %s", cli_bytes(state->bytes, a), cli_bytes(state->total_bytes, b));
}

static const char *outcome(enum leat_verified verified)
{
    static const char *const said[] = {
        [LEAT_VERIFIED_SUMS] = "whole",
        [LEAT_VERIFIED_SUMS_OF_SOME] = "every block decodes; some have no checksums to compare with",
        [LEAT_VERIFIED_BLOCKS] = "every block decodes; there are no checksums to compare with",
        [LEAT_VERIFIED_READ] = "every file was read; there are no checksums to compare with",
    };
    return said[verified];
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The tokenizer that made the tokens, as the metadata name it; 0: none. */
static uint64_t vocabulary_of(const struct leat_dataset *dataset)
{
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), 0, NULL);
    const json_int_t size = json_integer_value(json_object_get(json_object_get(metadata, "tokenizer"), "vocab_size"));
    json_decref(metadata);
    return size > 0 ? (uint64_t)size : 0;
}

static uint64_t element(const struct leat_value *value, uint64_t i)
{
    const uint8_t *at = value->data;
    uint16_t two;
    uint32_t four;
    if (value->dtype == LEAT_U16) {
        memcpy(&two, at + i * sizeof two, sizeof two);
        return two;
    }
    memcpy(&four, at + i * sizeof four, sizeof four);
    return four;
}

/* A line for the first token of a sample that the tokenizer does not have. */
static void check_sample(struct verify *verify, const struct leat_value *value, uint64_t sample, uint64_t vocabulary)
{
    const uint64_t n = value->length / (value->dtype == LEAT_U16 ? 2 : 4);
    char path[1200];
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t token = element(value, i);
        if (token < vocabulary)
            continue;
        printf("%s, sample %" PRIu64 ", field tokens: token %" PRIu64 " is %" PRIu64
               ", beyond the vocabulary of its tokenizer, which ends at %" PRIu64 "\n",
               leat_escape(verify->path, path, sizeof path), sample, i, token, vocabulary - 1);
        fflush(stdout);
        verify->faults++;
        return;
    }
}

/* Whether the tokens of a pack are of the tokenizer that it names. An exit code. */
static int check_tokens(struct verify *verify, const struct leat_dataset *dataset)
{
    int exit_code = CLI_EXIT_OK;
    struct leat_error error;
    size_t n_fields;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n_fields);
    const uint64_t vocabulary = vocabulary_of(dataset), count = leat_dataset_count(dataset);
    const int index = cli_field(dataset, "tokens");
    const struct leat_field *field = vocabulary && index >= 0 ? &fields[index] : NULL;
    if (field && field->kind == LEAT_KIND_ARRAY && (field->dtype == LEAT_U16 || field->dtype == LEAT_U32))
        for (uint64_t i = 0; i < count && !exit_code && !cli_interrupted(); i++) {
            struct leat_value value = {0};
            if (leat_dataset_read(dataset, i, (size_t)index, &value, &error))
                exit_code = cli_fail(verify->command, &error, NULL);
            else
                check_sample(verify, &value, i, vocabulary);
            leat_value_clear(&value);
        }
    return exit_code;
}

/* ---- what was opened ------------------------------------------------------------------------- */

/* Notes the fingerprints of a file that was converted. */
static void look_at_source(struct verify *verify, const struct leat_dataset *dataset)
{
    char *text;
    if (leat_dataset_about(dataset, &text, NULL))
        return;
    json_t *about = cli_taken(text);
    const char *of_values = json_string_value(json_object_get(about, "fingerprint_of_values"));
    if (of_values) {
        snprintf(verify->of_values, sizeof verify->of_values, "%s", of_values);
        cli_fingerprint(dataset, verify->of_source);
    }
    json_decref(about);
}

/* For a file of leat, or a manifest of them. An exit code. */
static int look_at(struct verify *verify)
{
    struct leat_open_options wish = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *dataset;
    struct leat_error error;
    struct stat st;
    if (!stat(verify->path, &st) && S_ISDIR(st.st_mode))
        return CLI_EXIT_OK;
    wish.format = "leat";
    const int rc = leat_dataset_open(verify->path, &wish, &dataset, &error);
    if (rc)
        return rc == LEAT_E_FORMAT ? CLI_EXIT_OK : cli_fail(verify->command, &error, NULL);
    look_at_source(verify, dataset);
    const int exit_code = check_tokens(verify, dataset);
    leat_dataset_release(dataset);
    return exit_code;
}

/* Whether a tar, of which nothing else is wrong, has no end. */
static bool is_endless(const char *path)
{
    struct leat_dataset *dataset;
    if (!strstr(path, ".tar") && !strstr(path, ".tgz") && !strstr(path, ".tzst"))
        return false;
    if (leat_dataset_open(path, NULL, &dataset, NULL))
        return false;
    json_t *about = cli_about(dataset);
    const bool endless = cli_whole(about, "endless") > 0;
    json_decref(about);
    leat_dataset_release(dataset);
    return endless;
}

static void note_end(const struct verify *verify)
{
    if (is_endless(verify->path))
        printf("  note: a tar %s\n", CLI_ENDLESS);
    fflush(stdout);
}

static int verify_one(struct verify *verify)
{
    const struct cli_command *command = verify->command;
    struct leat_error error;
    struct leat_verify_options wish = {sizeof wish, verify->threads, on_fault, on_progress, verify, &verify->verified};
    struct cli_progress_options drawing = {
        .verb = "verifying", .read = read_progress, .user = verify, .quiet = verify->quiet};
    struct cli_progress *progress = cli_progress_start(&drawing);
    const double begin = cli_now();
    int rc = leat_verify(verify->path, &wish, &error);
    const int tokens = rc || cli_interrupted() ? CLI_EXIT_OK : look_at(verify);
    const double seconds = cli_now() - begin;
    cli_progress_stop(progress);
    if (tokens)
        return tokens;
    if (cli_interrupted()) {
        cli_say(command, "interrupted; %" PRIu64 " faults until then.", verify->faults);
        return CLI_EXIT_INTERRUPTED;
    }
    if (rc && !verify->faults) {
        /* A file that does not open because of its bytes has a fault, too. */
        cli_fail(command, &error, NULL);
        if (rc == LEAT_E_UNSUPPORTED && !verify->quiet) /* a plain tar, whose files have no checksums */
            note_end(verify);
        return rc == LEAT_E_CORRUPT || rc == LEAT_E_UNFINISHED ? CLI_EXIT_FAULTS : CLI_EXIT_FAILED;
    }
    if (rc && rc != LEAT_E_CORRUPT) {
        cli_fail(command, &error, NULL);
        return CLI_EXIT_FAILED;
    }
    if (!verify->quiet) {
        char a[32], b[32], c[32], path[1200];
        leat_escape(verify->path, path, sizeof path);
        const uint64_t bytes = atomic_load(&verify->bytes);
        if (verify->faults)
            printf("%s: %" PRIu64 " fault%s found.\n", path, verify->faults, verify->faults == 1 ? "" : "s");
        else
            printf("%s: %s; %s in %s (%s/s)\n", path, outcome(verify->verified), cli_bytes(bytes, a),
                   cli_duration(seconds, b), cli_bytes(seconds > 0 ? (uint64_t)((double)bytes / seconds) : 0, c));
        if (!verify->faults && *verify->of_values)
            printf("  fingerprint %s, of the data set that it was converted from; of its values: %s\n",
                   verify->of_source, verify->of_values);
        if (!verify->faults)
            note_end(verify);
    }
    return verify->faults ? CLI_EXIT_FAULTS : CLI_EXIT_OK;
}

/* One file after another, whatever is wrong in those before it. */
static int run(const struct cli_command *command, int argc, char **argv)
{
    struct verify verify = {.command = command};
    struct cli_paths paths;
    int exit_code;
    if (!cli_parse(command, argc, argv, &verify, &exit_code))
        return exit_code;
    if (!cli_paths_init(&paths, command, &verify.given))
        return CLI_EXIT_FAILED;
    cli_catch_interrupts();
    exit_code = CLI_EXIT_OK;
    for (size_t i = 0; i < paths.n && exit_code != CLI_EXIT_INTERRUPTED; i++) {
        verify.path = paths.at[i];
        verify.faults = 0;
        verify.of_values[0] = 0;
        atomic_store(&verify.bytes, 0);
        atomic_store(&verify.total, 0);
        const struct cli_paths alone = {.at = &paths.at[i], .n = 1};
        const int one =
            cli_read_by_python(&alone) ? cli_verify_table(command, verify.path, verify.quiet) : verify_one(&verify);
        exit_code = one > exit_code ? one : exit_code;
    }
    cli_paths_destroy(&paths);
    return exit_code;
}

const struct cli_command cli_verify = {
    .name = "verify",
    .usage = "FILE... [options]",
    .summary = "read every byte and name each fault",
    .about =
        "FILE is a file of leat, a manifest of shards (all are read), a folder of photos, a table, or a file or "
        "folder\n"
        "of another format that has checksums. Each fault is one line: the file, the sample and field, the byte, and\n"
        "what is wrong. In files of leat a flipped bit and a missing byte are found wherever they are; each photo in\n"
        "the fast form is put together again: it gives back the file that it was made from. Text must be UTF-8, and\n"
        "JSON a document of it. Tokens must be below the vocabulary of the tokenizer that the file names.\n"
        "Of other formats the last line says what was compared: hashes and checksums where there are some; compressed\n"
        "blocks without them are decoded; photos of a folder are read, and leat pack finds those that do not decode.\n"
        "Of Parquet, Arrow, HDF5, Zarr and files of cells all values are read.\n"
        "Several files, or a pattern in quotes such as 'part-{000..009}.leat', are read one after another.\n",
    .arguments = {{"FILE", offsetof(struct verify, given)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat verify train.leat\n"
            "  leat verify train.leat --quiet && echo whole\n"
            "  leat verify 'shards/part-{000..009}.leat'\n"
            "\nExit codes: 0 no fault; 1 faults found; 2 one could not be read; 130 interrupted.\n",
    .run = run,
};
