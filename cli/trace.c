/*
 * leat trace: the work of each thread of a loader in an epoch, with times, as a file that Perfetto and Chrome open.
 *
 * The consumer is the command itself: it takes batches one after the other, and with --step-ms sleeps for as long as a
 * training step on a GPU takes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "commands.h"
#include "new_file.h"
#include "opening.h"
#include "print.h"
#include "progress.h"

struct trace {
    const struct cli_command *command;
    const char *path, *out, *program_path;
    uint64_t batch_size, batches, events, seed;
    unsigned threads;
    int order;
    double step_ms;
    struct cli_opening opening;
};
static const struct cli_option options[] = {
    {"out", "JSON", "the file to write; open it in https://ui.perfetto.dev or chrome://tracing", CLI_TEXT,
     .at = offsetof(struct trace, out), .is_written = true},
    {"program", "FILE", "the program of the loader as JSON; default: the usual one of photos, or as stored", CLI_TEXT,
     .at = offsetof(struct trace, program_path)},
    {"batch-size", "N", "samples per batch; default: 64", CLI_U64, .at = offsetof(struct trace, batch_size), 1,
     UINT32_MAX},
    {"batches", "N", "so many batches; default: those of an epoch, at most 200", CLI_U64,
     .at = offsetof(struct trace, batches), 1, UINT32_MAX},
    {"order", "ORDER", "shuffled or sequential; default: shuffled", CLI_CHOICE, .at = offsetof(struct trace, order),
     .choices = "shuffled or sequential"},
    {"num-threads", "N", "at most so many threads; default: as many as the process may use", CLI_UNSIGNED,
     .at = offsetof(struct trace, threads), 1, 4096},
    {"step-ms", "MS", "what a training step takes: the consumer sleeps so long with each batch; default: none",
     CLI_MILLISECONDS, .at = offsetof(struct trace, step_ms)},
    {"seed", "S", "of the order and the augmentation; default: 0", CLI_U64, .at = offsetof(struct trace, seed), 0,
     UINT64_MAX},
    {"events", "N", "at most so many events, of some 200 bytes in the file; default: 1000000", CLI_U64,
     .at = offsetof(struct trace, events), 1, 100000000},
    CLI_WHERE_OPTION(struct trace, opening),
    CLI_OPENING_OPTIONS(struct trace, opening),
    CLI_FIELD_OPTION(struct trace, opening),
};

static int run_epoch(const struct trace *trace, struct leat_loader *loader, uint64_t *taken, struct leat_error *error)
{
    uint64_t iteration;
    struct leat_batch *batch;
    int rc = leat_loader_start(loader, &iteration, error);
    while (!rc && *taken < trace->batches && !cli_interrupted()) {
        rc = leat_loader_next(loader, iteration, -1, &batch, error);
        if (rc)
            break;
        cli_sleep(trace->step_ms * 1e-3);
        leat_batch_free(batch);
        ++*taken;
    }
    return rc == LEAT_E_END ? LEAT_OK : rc;
}

static int write_text(FILE *out, const void *text)
{
    return fputs(text, out) < 0 ? errno : 0;
}

/* The number behind a key of the text; 0 if it is missing. */
static uint64_t number_in(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static int record(const struct trace *trace, struct leat_loader *loader)
{
    struct leat_error error;
    uint64_t taken = 0;
    char *text = NULL, count[32], shown[1200];
    int rc = leat_loader_trace(loader, trace->events, &error);
    rc = rc ? rc : run_epoch(trace, loader, &taken, &error);
    if (!rc)
        rc = leat_loader_trace_json(loader, &text, &error);
    if (rc)
        return cli_fail(trace->command, &error, NULL);
    if (cli_interrupted()) {
        leat_free(text);
        cli_say(trace->command, "interrupted.");
        return CLI_EXIT_INTERRUPTED;
    }
    const uint64_t dropped = number_in(text, "\"dropped_events\":");
    const int why = cli_new_file_write(trace->out, write_text, text);
    leat_free(text);
    if (why) {
        cli_say_unwritten(trace->command, trace->out, why);
        return CLI_EXIT_FAILED;
    }
    printf("%s batch%s in %s: open it in https://ui.perfetto.dev\n", cli_count(taken, count), taken == 1 ? "" : "es",
           leat_escape(trace->out, shown, sizeof shown));
    if (dropped)
        cli_say(trace->command, "%s events did not fit: the end is missing (--events, --batches).",
                cli_count(dropped, count));
    return CLI_EXIT_OK;
}

static int open_and_record(struct trace *trace)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader = NULL;
    struct leat_error error;
    int exit_code = CLI_EXIT_FAILED;
    char *program = NULL;
    if (trace->program_path && !(program = cli_read_program(trace->command, trace->program_path)))
        return CLI_EXIT_FAILED;
    struct leat_dataset *dataset = cli_open_as(trace->command, trace->path, &trace->opening, &exit_code);
    if (dataset) {
        program = program ? program : cli_photo_program(dataset);
        wish.batch_size = trace->batch_size;
        wish.order = trace->order ? LEAT_ORDER_SEQUENTIAL : LEAT_ORDER_SHUFFLED;
        wish.on_error = LEAT_ON_ERROR_SKIP;
        wish.num_threads = trace->threads;
        wish.seed = trace->seed;
        wish.epochs = 1;
        wish.program = program;
        if (leat_loader_open(dataset, &wish, &loader, &error))
            exit_code = cli_fail(trace->command, &error, NULL);
        else
            exit_code = record(trace, loader);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
    free(program);
    return exit_code;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct trace trace = {.command = command, .batch_size = 64, .batches = 200, .events = 1000000};
    int exit_code;
    if (!cli_parse(command, argc, argv, &trace, &exit_code))
        return exit_code;
    if (!trace.out)
        return cli_usage_error(command, "--out is missing: the JSON to write.");
    const int why = cli_new_file_probe(trace.out);
    if (why) {
        cli_say_unwritten(command, trace.out, why);
        return CLI_EXIT_FAILED;
    }
    cli_catch_interrupts();
    return open_and_record(&trace);
}

const struct cli_command cli_trace = {
    .name = "trace",
    .usage = "FILE --out JSON [options]",
    .summary = "what each thread does during an epoch, for Perfetto",
    .about =
        "Runs a loader for an epoch and records what its threads do, and when: tasks (which rows of which batch),\n"
        "reads, decoding, transforms, and for the consumer how long it waits and how long it is busy. A lane of\n"
        "the picture is a thread; a curve shows how many batches of the window are ready. With --step-ms the\n"
        "consumer takes as long as a training step. The file opens in https://ui.perfetto.dev and\n"
        "chrome://tracing, where nothing is uploaded.\n",
    .arguments = {{"FILE", offsetof(struct trace, path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat trace train.leat --out trace.json\n"
            "  leat trace train.leat --out trace.json --program program.json --batch-size 256 --step-ms 120\n"
            "\nExit codes: 0 written; 1 the data are at fault; 2 could not run; 130 interrupted.\n",
    .run = run,
};
