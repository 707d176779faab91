/*
 * leat bench: how many samples per second this machine delivers from a file, for 1 to n threads, and where the time
 * goes. Batches are taken and dropped at once, so a training that needs no time would get as many. With --photos it
 * compares the forms that photos can be stored in (bench_photos.c).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"
#include "commands.h"
#include "opening.h"
#include "print.h"
#include "progress.h"

#define MAX_RUNS 16
#define WARM_BATCHES 4

/* The usual chain of ImageNet models. */
static const char photo_operators[] =
    "\"decode\": {\"type\": \"Decode\", \"mode\": \"RGB\"}, \"crop\": {\"type\": \"RandomResizedCrop\", \"size\": "
    "[224, 224]}, "
    "\"flip\": {\"type\": \"RandomHorizontalFlip\"}, "
    "\"normalize\": {\"type\": \"Normalize\", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}";

struct bench {
    struct cli_forms forms; /* what both measurements have, and what those of --photos have */
    char *program;          /* NULL: as stored */
    unsigned threads;       /* 0: all */
    bool photos;
    const char *sides; /* as given */
    struct cli_opening opening;
    struct leat_dataset *dataset;
    struct cli_result results[MAX_RUNS];
    size_t n_results;
};
static const struct cli_option options[] = {
    {"json", NULL, "one JSON object instead of a table", CLI_SET, .at = offsetof(struct bench, forms.json)},
    {"program", "FILE",
     "a program as JSON; default: for photos Decode, RandomResizedCrop(224),\n"
     "RandomHorizontalFlip, Normalize to float32; for other data every field as stored",
     CLI_TEXT, .at = offsetof(struct bench, forms.program_path)},
    {"seconds", "S", "how long each number of threads, or each form of photos, is measured; default: 3", CLI_SECONDS,
     .at = offsetof(struct bench, forms.seconds)},
    {"batch-size", "B", "samples per batch; default: 64 for photos, 1024 for other data", CLI_U64,
     .at = offsetof(struct bench, forms.batch_size), 1, INT32_MAX},
    {"num-threads", "N", "measure this number of threads only; default: 1, 2, 4 ... all", CLI_UNSIGNED,
     .at = offsetof(struct bench, threads), 1, 4096},
    {"order", "WHAT", "shuffled or sequential; default: shuffled", CLI_CHOICE,
     .at = offsetof(struct bench, forms.order), .choices = "shuffled or sequential"},
    {"photos", NULL, "compare the forms that photos can be packed in, on one thread; FILE may be a folder", CLI_SET,
     .at = offsetof(struct bench, photos)},
    {"max-side", "N[,N...]", "with --photos: each form also with photos resized to at most N pixels a side", CLI_TEXT,
     .at = offsetof(struct bench, sides), .needs = "photos"},
    {"samples", "N", "with --photos: how many are packed; default: as many as have 64 MB, in a few seconds", CLI_U64,
     .at = offsetof(struct bench, forms.samples), 1, INT32_MAX, .needs = "photos"},
    {"plot", "FILE", "with --photos: the plot as SVG", CLI_TEXT, .at = offsetof(struct bench, forms.plot_path),
     .needs = "photos", .is_written = true},
    CLI_WHERE_OPTION(struct bench, opening),
    CLI_OPENING_OPTIONS(struct bench, opening),
    CLI_FIELD_OPTION(struct bench, opening),
};

char *cli_photo_program(const struct leat_dataset *dataset)
{
    size_t n, used;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    size_t image = n;
    for (size_t i = 0; i < n && image == n; i++)
        if (fields[i].kind == LEAT_KIND_IMAGE)
            image = i;
    if (image == n)
        return NULL;
    const size_t room = 1024 + n * 256;
    char *text = malloc(room);
    if (!text)
        return NULL;
    used = (size_t)snprintf(text, room,
                            "{\"operators\": {%s}, \"outputs\": {\"%s\": {\"field\": \"%s\", \"chain\": "
                            "[\"decode\", \"crop\", \"flip\", \"normalize\"]}",
                            photo_operators, fields[image].name, fields[image].name);
    for (size_t i = 0; i < n; i++) {
        const bool fixed = fields[i].kind == LEAT_KIND_ARRAY && (!fields[i].ndim || fields[i].shape[0] >= 0);
        if (fixed && !(fields[i].flags & LEAT_FIELD_DERIVED))
            used += (size_t)snprintf(text + used, room - used, ", \"%s\": {\"field\": \"%s\", \"chain\": []}",
                                     fields[i].name, fields[i].name);
    }
    snprintf(text + used, room - used, "}}");
    return text;
}

static void add_step(struct cli_result *result, const char *name, double seconds)
{
    size_t i = 0;
    while (i < result->n_steps && strcmp(result->steps[i].name, name) != 0)
        i++;
    if (i == CLI_STEPS)
        return;
    if (i == result->n_steps) {
        result->n_steps++;
        snprintf(result->steps[i].name, sizeof result->steps[i].name, "%s", name);
    }
    result->steps[i].seconds += seconds;
}

/* The seconds of the step of that output in a list of statistics. */
static double seconds_of(const json_t *steps, const json_t *like)
{
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        if (json_equal(json_object_get(step, "output"), json_object_get(like, "output")) &&
            json_equal(json_object_get(step, "step"), json_object_get(like, "step")))
            return cli_real(step, "s");
    }
    return 0;
}

/* Seconds that the consumer was without a batch: asleep, or making rows of it itself. */
static double waited(const json_t *stats)
{
    return cli_real(stats, "consumer_wait_s") + cli_real(stats, "consumer_help_s");
}

/* The result from two statistics of a loader, which are released. */
static void read_statistics(char *first, char *last, struct cli_result *result)
{
    json_t *before = cli_taken(first), *after = cli_taken(last), *step;
    const json_t *old = json_object_get(before, "operators");
    size_t i;
    if (!before || !after) { /* it was interrupted */
        json_decref(before);
        json_decref(after);
        return;
    }
    result->bytes = (uint64_t)(cli_real(json_object_get(after, "fetch"), "bytes") -
                               cli_real(json_object_get(before, "fetch"), "bytes"));
    result->waited = waited(after) - waited(before);
    add_step(result, "reading",
             cli_real(json_object_get(after, "fetch"), "s") - cli_real(json_object_get(before, "fetch"), "s"));
    json_array_foreach(json_object_get(after, "operators"), i, step)
    {
        const char *name = json_string_value(json_object_get(step, "step"));
        /* the part of decoding in a step is estimated from some of the photos, so it may shrink */
        add_step(result, name ? name : "?", fmax(0, cli_real(step, "s") - seconds_of(old, step)));
    }
    json_decref(before);
    json_decref(after);
}

int cli_measure(struct leat_dataset *dataset, const struct leat_loader_options *wish, bool whole_epochs, double seconds,
                double step_seconds, struct cli_result *out, struct leat_error *error)
{
    struct leat_loader *loader = NULL;
    struct leat_batch *batch;
    uint64_t iteration = 0, taken = 0;
    double begin = 0, cpu_begin = 0;
    char *before = NULL, *after = NULL;
    *out = (struct cli_result){.threads = wish->num_threads ? wish->num_threads : leat_cpu_count()};
    int rc = leat_loader_open(dataset, wish, &loader, error);
    const uint64_t unit = !rc && whole_epochs ? leat_loader_steps(loader) : 1;
    if (!rc)
        rc = leat_loader_start(loader, &iteration, error);
    while (!rc && !cli_interrupted()) {
        rc = leat_loader_next(loader, iteration, -1, &batch, error);
        if (rc == LEAT_E_END) {
            rc = leat_loader_start(loader, &iteration, error);
            continue;
        }
        if (rc)
            break;
        if (++taken > WARM_BATCHES)
            out->samples += leat_batch_rows(batch);
        cli_sleep(step_seconds);
        leat_batch_free(batch);
        if (taken == WARM_BATCHES) {
            rc = leat_loader_stats(loader, &before, error);
            begin = cli_now();
            cpu_begin = cli_cpu_now();
        }
        out->seconds = cli_now() - begin;
        out->cpu_seconds = cli_cpu_now() - cpu_begin;
        if (taken > WARM_BATCHES && (taken - WARM_BATCHES) % unit == 0 && out->seconds >= seconds)
            break;
    }
    if (!rc && !cli_interrupted())
        rc = leat_loader_stats(loader, &after, error);
    leat_loader_close(loader);
    read_statistics(before, after, out);
    return rc;
}

/* One number of threads. */
static int measure(struct bench *bench, unsigned threads, struct leat_error *error)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    wish.batch_size = bench->forms.batch_size;
    wish.order = bench->forms.order ? LEAT_ORDER_SEQUENTIAL : LEAT_ORDER_SHUFFLED;
    wish.on_error = LEAT_ON_ERROR_SKIP; /* broken photos are not measured */
    wish.num_threads = threads;
    wish.program = bench->program;
    const int rc =
        cli_measure(bench->dataset, &wish, false, bench->forms.seconds, 0, &bench->results[bench->n_results], error);
    bench->n_results += !rc;
    return rc;
}

static json_t *result_json(const struct cli_result *result)
{
    json_t *steps = json_object();
    for (size_t i = 0; i < result->n_steps; i++)
        json_object_set_new(steps, result->steps[i].name, json_real(result->steps[i].seconds));
    return json_pack("{si sI sf sf sf sf so}", "threads", (int)result->threads, "samples", (json_int_t)result->samples,
                     "seconds", result->seconds, "samples_per_second", (double)result->samples / result->seconds,
                     "bytes_read_per_second", (double)result->bytes / result->seconds, "consumer_waited_seconds",
                     result->waited, "thread_seconds", steps);
}

static void print_json(const struct bench *bench)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < bench->n_results; i++)
        json_array_append_new(runs, result_json(&bench->results[i]));
    cli_print_json(json_pack("{so? sI so? sI ss ss so}", "path", cli_json_text(bench->forms.path), "count",
                             (json_int_t)leat_dataset_count(bench->dataset), "program",
                             json_string(bench->forms.program_name), "batch_size", (json_int_t)bench->forms.batch_size,
                             "order", bench->forms.order ? "sequential" : "shuffled", "version", leat_version(), "runs",
                             runs));
}

static void print_heading(const struct bench *bench)
{
    char count[32], path[1200];
    printf("%s: %s samples, batches of %" PRIu64 ", %s, %s\n", leat_escape(bench->forms.path, path, sizeof path),
           cli_count(leat_dataset_count(bench->dataset), count), bench->forms.batch_size,
           bench->forms.order ? "sequential" : "shuffled", bench->forms.program_name);
    printf("%8s %12s %10s %8s   %s\n", "threads", "samples/s", "read", "x first", "where the threads' time went");
}

/* One line of the table. The rest of the threads' time is waiting: for work, for the consumer, for a core. Steps are
 * timed by the clock, which runs on while a thread waits for its core in the middle of one. So on one core, as the
 * consumer works beside the thread, the steps add up to more time than passed; then their shares are of that sum. */
static void print_result(const struct bench *bench, const struct cli_result *result)
{
    const struct cli_result *first = &bench->results[0];
    const double rate = (double)result->samples / result->seconds;
    char count[32], bytes[32];
    double used = 0;
    for (size_t i = 0; i < result->n_steps; i++)
        used += result->steps[i].seconds;
    const double total = fmax(used, result->seconds * result->threads);
    printf("%8u %12s %8s/s %8.2f  ", result->threads, cli_count((uint64_t)rate, count),
           cli_bytes((uint64_t)((double)result->bytes / result->seconds), bytes),
           rate / ((double)first->samples / first->seconds));
    for (size_t i = 0; i < result->n_steps; i++)
        printf("%s %s %.0f%%", i ? "," : "", result->steps[i].name, 100 * result->steps[i].seconds / total);
    printf(", waiting and other %.0f%%\n", 100 * (total - used) / total);
    fflush(stdout);
}

static int measure_all(struct bench *bench)
{
    struct leat_error error;
    const unsigned all = leat_cpu_count();
    unsigned threads = bench->threads ? bench->threads : 1;
    cli_catch_interrupts();
    if (!bench->forms.json)
        print_heading(bench);
    for (;;) {
        if (measure(bench, threads, &error))
            return cli_fail(bench->forms.command, &error, NULL);
        if (cli_interrupted()) {
            cli_say(bench->forms.command, "interrupted.");
            return CLI_EXIT_INTERRUPTED;
        }
        if (!bench->forms.json)
            print_result(bench, &bench->results[bench->n_results - 1]);
        if (bench->threads || threads >= all || bench->n_results == MAX_RUNS)
            break;
        threads = threads * 2 < all ? threads * 2 : all;
    }
    if (bench->forms.json)
        print_json(bench);
    return CLI_EXIT_OK;
}

static int choose_program(struct bench *bench)
{
    if (bench->forms.program_path) {
        bench->forms.program_name = bench->forms.program_path;
        bench->program = cli_read_program(bench->forms.command, bench->forms.program_path);
        if (!bench->program)
            return CLI_EXIT_FAILED;
    } else {
        bench->program = cli_photo_program(bench->dataset);
        bench->forms.program_name = bench->program ? CLI_PHOTO_PROGRAM : "as stored";
    }
    if (!bench->forms.batch_size)
        bench->forms.batch_size = bench->program ? 64 : 1024;
    if (leat_dataset_count(bench->dataset))
        return CLI_EXIT_OK;
    cli_say(bench->forms.command, "%s has no samples.", bench->forms.path);
    return CLI_EXIT_FAILED;
}

/* "256,512": each above 0 and once. */
static bool parse_sides(struct bench *bench, const char *text)
{
    struct cli_forms *forms = &bench->forms;
    forms->n_sides = 1;
    for (;;) {
        char number[16];
        const size_t length = strcspn(text, ",");
        snprintf(number, sizeof number, "%.*s", (int)(length < 15 ? length : 15), text);
        if (forms->n_sides > CLI_FORMS_SIDES) {
            cli_usage_error(bench->forms.command, "--max-side takes at most %d numbers.", CLI_FORMS_SIDES);
            return false;
        }
        uint64_t side;
        if (!cli_parse_u64(bench->forms.command, "max-side", number, 1, 65535, &side))
            return false;
        for (size_t i = 0; i < forms->n_sides; i++)
            if (forms->sides[i] == side) {
                cli_usage_error(bench->forms.command, "--max-side names %u twice.", (unsigned)side);
                return false;
            }
        forms->sides[forms->n_sides++] = (unsigned)side;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

/* Options that fit the other measurement only. */
static bool options_fit(const struct bench *bench)
{
    static const struct cli_opening none;
    if (bench->photos && bench->threads > 1)
        cli_usage_error(bench->forms.command, "--photos measures one thread; leave --num-threads out.");
    else if (bench->photos && memcmp(&bench->opening, &none, sizeof none) != 0)
        cli_usage_error(bench->forms.command, "--photos packs the photos of a folder alone: leave annotations, labels "
                                              "and --where out.");
    else
        return cli_ending_fits(bench->forms.command, "plot", bench->forms.plot_path, ".svg");
    return false;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    static struct bench the_bench;
    struct bench *bench = &the_bench;
    int exit_code;
    *bench = (struct bench){.forms = {.command = command, .seconds = 3, .n_sides = 1}};
    if (!cli_parse(command, argc, argv, bench, &exit_code))
        return exit_code;
    if ((bench->sides && !parse_sides(bench, bench->sides)) || !options_fit(bench))
        return CLI_EXIT_FAILED;
    if (bench->photos)
        return cli_bench_photos(&bench->forms);
    bench->dataset = cli_open_as(command, bench->forms.path, &bench->opening, &exit_code);
    if (!bench->dataset)
        return exit_code;
    exit_code = choose_program(bench);
    if (!exit_code)
        exit_code = measure_all(bench);
    leat_dataset_release(bench->dataset);
    free(bench->program);
    return exit_code;
}

const struct cli_command cli_bench = {
    .name = "bench",
    .usage = "FILE [options]",
    .summary = "how fast this machine can be fed from a file, and where the time goes",
    .about =
        "Batches are made and dropped at once, for 1, 2, 4 ... threads up to all that this process may use. One line "
        "for\n"
        "each: samples per second, bytes read, and how the threads' time divides into reading, decoding, resizing and\n"
        "so on; what is left is waiting. Run it twice: the first run may read from the disk, the second from memory.\n"
        "\n"
        "With --photos a sample of the photos of FILE, or of a folder, is packed in each form that leat pack knows, "
        "into\n"
        "temporary files in $TMPDIR, and trained from on one thread. One line for each form: bytes per photo, photos "
        "per\n"
        "second of a core, the storage rate that this needs, and how fast a core packs; then which form fits which\n"
        "storage, and a plot.\n",
    .arguments = {{"FILE", offsetof(struct bench, forms.path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat bench train.leat\n"
            "  leat bench train.leat --num-threads 8 --seconds 10 --json\n"
            "  leat bench --photos photos/train --max-side 256,512 --plot forms.svg\n"
            "\nExit codes: 0 measured; 1 the data are at fault; 2 could not run; 130 interrupted.\n",
    .run = run,
};
