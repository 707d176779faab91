/*
 * leat doctor: the bottleneck of a training, and the one setting to change.
 *
 *     storage --bytes--> reading --> decoding --> transforms --batches--> the training's step
 *
 * Each part is measured by itself: storage around the page cache; reading, decoding and transforms by the time that
 * threads spend in them while batches are dropped at once; the training by a consumer that sleeps for its step. The
 * slowest part is the bottleneck. Settings that could help there are tried, so that the gain is one that was seen.
 *
 * A training that runs is watched instead: running.c.
 */
#include "doctor/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "loaders.h"
#include "print.h"
#include "progress.h"

static const struct cli_option options[] = {
    {"program", "FILE", "the program of the loader as JSON; default: the usual one of photos, or as stored", CLI_TEXT,
     .at = offsetof(struct cli_doctor, program_path)},
    {"step-ms", "MS", "what a step of the training takes without the loader; default: it is not known",
     CLI_MILLISECONDS, .at = offsetof(struct cli_doctor, step_ms)},
    {"batch-size", "N", "samples per batch; default: 64", CLI_U64, .at = offsetof(struct cli_doctor, batch_size), 1,
     INT32_MAX},
    {"num-threads", "N", "at most so many threads; default: as many as the process may use", CLI_UNSIGNED,
     .at = offsetof(struct cli_doctor, threads), 1, 4096},
    {"seconds", "S", "how long each measurement takes (default: 3), or a process is watched (default: 10)", CLI_SECONDS,
     .at = offsetof(struct cli_doctor, seconds)},
    {"json", NULL, "one JSON object; the keys are in docs/cli.md", CLI_SET, .at = offsetof(struct cli_doctor, json)},
    CLI_WHERE_OPTION(struct cli_doctor, opening),
    CLI_OPENING_OPTIONS(struct cli_doctor, opening),
    CLI_FIELD_OPTION(struct cli_doctor, opening),
};

int cli_doctor_run(const struct cli_doctor *doctor, struct leat_dataset *dataset, const char *program, unsigned threads,
                   uint64_t budget, double step_ms, struct cli_result *out)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_error error;
    wish.batch_size = doctor->batch_size;
    wish.order = LEAT_ORDER_SHUFFLED;
    wish.on_error = LEAT_ON_ERROR_SKIP;
    wish.num_threads = threads;
    wish.budget_bytes = budget;
    wish.program = program;
    if (cli_measure(dataset, &wish, false, doctor->seconds, step_ms * 1e-3, out, &error))
        return cli_fail(doctor->command, &error, NULL);
    return cli_interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

/* Divides the threads' time among the parts. */
static void divide(struct cli_doctor *doctor)
{
    for (size_t i = 0; i < doctor->flat.n_steps; i++) {
        const struct cli_step *step = &doctor->flat.steps[i];
        if (!strcmp(step->name, "reading")) {
            doctor->reading += step->seconds;
        } else if (!strncmp(step->name, "Decode", 6)) {
            doctor->decoding += step->seconds;
        } else {
            doctor->transforms += step->seconds;
            if (step->seconds > doctor->slowest_seconds) {
                doctor->slowest_seconds = step->seconds;
                snprintf(doctor->slowest, sizeof doctor->slowest, "%s", step->name);
            }
        }
    }
}

bool cli_doctor_reads_storage(const struct cli_doctor *doctor)
{
    return doctor->bytes && (double)doctor->bytes > 0.7 * (double)leat_memory_allowed();
}

double cli_doctor_bytes_per_sample(const struct cli_doctor *doctor)
{
    const double all = (double)doctor->bytes / (double)leat_dataset_count(doctor->dataset);
    const double read = doctor->flat.samples ? (double)doctor->flat.bytes / (double)doctor->flat.samples : 0;
    return doctor->bytes ? fmin(read, all) : read; /* reads for batches in flight count, too */
}

double cli_doctor_need(const struct cli_doctor *doctor)
{
    const uint64_t samples = leat_dataset_count(doctor->dataset), batch = doctor->batch_size;
    const uint64_t steps = samples / batch + (samples % batch != 0);
    return doctor->step_ms > 0 && steps ? (double)samples / (double)steps * 1e3 / doctor->step_ms : INFINITY;
}

const char *cli_doctor_bottleneck(const struct cli_doctor *doctor)
{
    const double supply = cli_rate(&doctor->flat);
    const double need = cli_doctor_need(doctor);
    const double bytes = cli_doctor_bytes_per_sample(doctor);
    const bool waits = doctor->training.seconds > 0 && doctor->training.waited > 0.03 * doctor->training.seconds;
    const double stored = doctor->storage_rate > 0 && bytes > 0 && cli_doctor_reads_storage(doctor)
                              ? doctor->storage_rate / bytes
                              : INFINITY;
    if (stored < supply && stored < need)
        return "storage";
    if (doctor->training.seconds > 0 && !waits && supply > 0.95 * need) /* else it took what was made before */
        return "consumer";
    if (supply > 1.05 * need)
        return waits ? "window" : "consumer";
    return doctor->reading > doctor->decoding && doctor->reading > doctor->transforms ? "reading"
           : doctor->decoding >= doctor->transforms                                   ? "decoding"
                                                                                      : "transforms";
}

static int examine(struct cli_doctor *doctor)
{
    struct cli_result again;
    int exit_code = cli_doctor_run(doctor, doctor->dataset, doctor->program, doctor->threads, 0, 0, &doctor->flat);
    if (!exit_code) /* the first run warms up, too: the better one counts */
        exit_code = cli_doctor_run(doctor, doctor->dataset, doctor->program, doctor->threads, 0, 0, &again);
    if (exit_code)
        return exit_code;
    if (cli_rate(&again) > cli_rate(&doctor->flat))
        doctor->flat = again;
    divide(doctor);
    cli_doctor_storage(doctor);
    if (doctor->step_ms > 0)
        exit_code = cli_doctor_run(doctor, doctor->dataset, doctor->program, doctor->threads, 0, doctor->step_ms,
                                   &doctor->training);
    exit_code = exit_code ? exit_code : cli_doctor_try(doctor);
    if (exit_code)
        return exit_code;
    if (cli_interrupted())
        return CLI_EXIT_INTERRUPTED;
    cli_doctor_report(doctor);
    return CLI_EXIT_OK;
}

/* Whether no option was given that says how a file is measured. False after a message. */
static bool only_watches(const struct cli_command *command)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const char *name = command->options[i].name;
        if (cli_typed(i) && strcmp(name, "seconds") != 0 && strcmp(name, "json") != 0) {
            cli_usage_error(command, "--%s is of a FILE that is measured, not of a process that runs.", name);
            return false;
        }
    }
    return true;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    static struct cli_doctor the_doctor;
    struct cli_doctor *doctor = &the_doctor;
    int exit_code;
    *doctor = (struct cli_doctor){.command = command, .batch_size = 64, .cores = leat_cpu_count(), .cached = -1};
    if (!cli_parse(command, argc, argv, doctor, &exit_code))
        return exit_code;
    const int pid = access(doctor->path, F_OK) ? cli_pid(doctor->path) : 0;
    if (pid)
        return only_watches(command) ? cli_doctor_watch(doctor, pid) : CLI_EXIT_FAILED;
    doctor->seconds = doctor->seconds > 0 ? doctor->seconds : 3;
    if (doctor->program_path && !(doctor->program = cli_read_program(command, doctor->program_path)))
        return CLI_EXIT_FAILED;
    doctor->dataset = cli_open_as(command, doctor->path, &doctor->opening, &exit_code);
    if (doctor->dataset) {
        doctor->program_name = doctor->program_path;
        if (!doctor->program && (doctor->program = cli_photo_program(doctor->dataset)))
            doctor->program_name = CLI_PHOTO_PROGRAM;
        cli_catch_interrupts();
        if (leat_dataset_count(doctor->dataset)) {
            exit_code = examine(doctor);
        } else {
            cli_say(command, "%s has no samples.", doctor->path);
            exit_code = CLI_EXIT_FAILED;
        }
        if (exit_code == CLI_EXIT_INTERRUPTED)
            cli_say(command, "interrupted.");
    }
    leat_dataset_release(doctor->dataset);
    free(doctor->program);
    return exit_code;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .usage = "FILE|PID [options]",
    .summary = "what holds a training up, and the one setting to change",
    .about =
        "Measures how fast the storage is, what reading, decoding and each transform cost, and whether a training\n"
        "whose step takes --step-ms would wait. Says which part is the bottleneck, tries the settings that could\n"
        "help there, and names the best one with the gain that was measured. It takes some 15 seconds.\n"
        "\n"
        "The number of a process in the place of FILE: watches the loaders of a training that runs, also on a Ray\n"
        "cluster, and says what limits each: the training, making rows, functions, storage, memory, or a stage.\n",
    .arguments = {{"FILE", offsetof(struct cli_doctor, path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat doctor train.leat --program program.json --batch-size 256 --step-ms 120\n"
            "  leat doctor photos/train --json\n"
            "  leat doctor 4711 --seconds 30\n"
            "\nExit codes: 0 measured; 1 the data are at fault; 2 could not run; 130 interrupted.\n",
    .run = run,
};
