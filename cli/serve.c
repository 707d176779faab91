/*
 * leat serve: a data set, a loader of it and a port, in a process of their own. It prints one line once others can
 * attach, and ends when a signal or leat port stop asks it to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "opening.h"
#include "print.h"
#include "progress.h"

/* Bytes of batches that consumers may hold between them, where the process may use four times as much: some 27 batches
 * of 64 photos of 224 x 224 as float32. */
#define LENT_BYTES (UINT64_C(1) << 30)
#define LOOK_MS 100 /* between two looks for a signal */

struct serve {
    const struct cli_command *command;
    const char *path, *name, *program_path, *folder, *group;
    uint64_t batch_size, seed, memory;
    unsigned threads;
    bool shuffle;
    int on_error;
    struct cli_opening opening;
    char *program; /* NULL: as stored */
};
static const struct cli_option options[] = {
    {"name", "NAME", "what trainings attach to: letters, digits, '-', '_' and '.'", CLI_TEXT,
     .at = offsetof(struct serve, name)},
    {"program", "FILE", "a program as JSON (leat.program_to_json); default: every field as stored", CLI_TEXT,
     .at = offsetof(struct serve, program_path)},
    {"batch-size", "N", "samples per batch, for those who name none; default: 64", CLI_U64,
     .at = offsetof(struct serve, batch_size), 1, UINT32_MAX},
    {"shuffle", NULL, "another order in each epoch", CLI_SET, .at = offsetof(struct serve, shuffle)},
    {"seed", "S", "of the order and the augmentation; default: 0", CLI_U64, .at = offsetof(struct serve, seed), 0,
     UINT64_MAX},
    {"on-error", "WHAT",
     "of samples that are broken: raise (an error in each training), skip (leave the row out)\n"
     "or substitute (another sample in its place); default: raise",
     CLI_CHOICE, .at = offsetof(struct serve, on_error), .choices = "raise, skip or substitute"},
    {"num-threads", "N", "at most so many threads; default: as many as the process may use", CLI_UNSIGNED,
     .at = offsetof(struct serve, threads), 1, 4096},
    {"dir", "FOLDER",
     "where the socket is made; default: $LEAT_RUNTIME_DIR, else $XDG_RUNTIME_DIR/leat, else\n"
     "leat-<user id> in $TMPDIR or /tmp",
     CLI_TEXT, .at = offsetof(struct serve, folder)},
    {"group", "GROUP", "a group whose members may attach, too; default: this user alone", CLI_TEXT,
     .at = offsetof(struct serve, group)},
    {"memory", "BYTES",
     "of batches that trainings may hold between them, such as 512M or 4G; default: 1G, or a\n"
     "quarter of the memory that the process may use",
     CLI_BYTES, .at = offsetof(struct serve, memory)},
    CLI_WHERE_OPTION(struct serve, opening),
    CLI_OPENING_OPTIONS(struct serve, opening),
};

static void print_line(const struct serve *serve, const struct leat_dataset *dataset, struct leat_port *port)
{
    char count[32], path[1200], place[1200], order[64] = "in order", *text = NULL;
    json_t *stat = leat_port_stat(port, &text, NULL) ? NULL : json_loads(text, 0, NULL);
    const char *at = json_string_value(json_object_get(stat, "path"));
    if (serve->shuffle)
        snprintf(order, sizeof order, "shuffled with seed %" PRIu64, serve->seed);
    printf("serving %s as %s, %s samples %s%s%s\n", leat_escape(serve->path, path, sizeof path), serve->name,
           cli_count(leat_dataset_count(dataset), count), order, at ? ", at " : "",
           at ? leat_escape(at, place, sizeof place) : "");
    fflush(stdout);
    json_decref(stat);
    leat_free(text);
}

/* Until someone asks it to end. */
static int wait(const struct serve *serve, struct leat_port *port)
{
    struct leat_error error;
    while (!cli_interrupted()) {
        const int rc = leat_port_wait(port, LOOK_MS, &error);
        if (!rc)
            return CLI_EXIT_OK;
        if (rc != LEAT_E_TIMEOUT)
            return cli_fail(serve->command, &error, NULL);
    }
    return CLI_EXIT_INTERRUPTED;
}

static int serve_loader(const struct serve *serve, const struct leat_dataset *dataset, struct leat_loader *loader)
{
    struct leat_port_options wish = LEAT_PORT_OPTIONS_INIT;
    struct leat_port *port = NULL;
    struct leat_error error;
    wish.name = serve->name;
    wish.folder = serve->folder;
    wish.group = serve->group;
    wish.about = "{\"framework\":\"auto\",\"yields\":\"dict\"}";
    const int rc = leat_port_open(loader, &wish, &port, &error);
    if (rc)
        return cli_fail(serve->command, &error,
                        error.code == LEAT_E_EXISTS ? "leat port ls shows which are open; leat port stop NAME ends one."
                                                    : NULL);
    print_line(serve, dataset, port);
    const int exit_code = wait(serve, port);
    leat_port_close(port);
    return exit_code;
}

static int open_and_serve(struct serve *serve)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader = NULL;
    struct leat_error error;
    int exit_code = CLI_EXIT_FAILED;
    static const enum leat_on_error choices[] = {LEAT_ON_ERROR_RAISE, LEAT_ON_ERROR_SKIP, LEAT_ON_ERROR_SUBSTITUTE};
    if (serve->program_path && !(serve->program = cli_read_text(serve->command, serve->program_path, NULL)))
        return CLI_EXIT_FAILED;
    struct leat_dataset *dataset = cli_open_as(serve->command, serve->path, &serve->opening, &exit_code);
    if (dataset && !leat_dataset_count(dataset)) {
        cli_say(serve->command, "%s has no samples.", serve->path);
    } else if (dataset) {
        const uint64_t quarter = leat_memory_allowed() / 4;
        wish.batch_size = serve->batch_size;
        wish.order = serve->shuffle ? LEAT_ORDER_SHUFFLED : LEAT_ORDER_SEQUENTIAL;
        wish.seed = serve->seed;
        wish.tail = LEAT_TAIL_UNEVEN;
        wish.on_error = choices[serve->on_error];
        wish.num_threads = serve->threads;
        wish.max_held_bytes = serve->memory ? serve->memory : quarter < LENT_BYTES ? quarter : LENT_BYTES;
        wish.program = serve->program;
        wish.region = 1;
        if (leat_loader_open(dataset, &wish, &loader, &error))
            exit_code = cli_fail(serve->command, &error, NULL);
        else
            exit_code = serve_loader(serve, dataset, loader);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
    free(serve->program);
    return exit_code;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct serve serve = {.command = command, .batch_size = 64};
    int exit_code;
    if (!cli_parse(command, argc, argv, &serve, &exit_code))
        return exit_code;
    if (!serve.name)
        return cli_usage_error(command, "--name is missing: what trainings attach to.");
    cli_catch_interrupts();
    return open_and_serve(&serve);
}

const struct cli_command cli_serve = {
    .name = "serve",
    .usage = "SRC --name NAME [options]",
    .summary = "one loader for many trainings of this host, which attach to it by its name",
    .about =
        "Opens SRC and makes batches of it for every process that attaches: leat.attach(\"NAME\") in Python,\n"
        "leat_attach in C. Each batch is made once, and read where it lies. Trainings may have batch sizes, ranks and\n"
        "speeds of their own, join late and die; each gets the rows that a loader of its own would give it. The\n"
        "command prints one line when others can attach, and goes on until it gets a signal or leat port stop NAME.\n",
    .arguments = {{"SRC", offsetof(struct serve, path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat serve photos.leat --program program.json --batch-size 256 --shuffle --name photos\n"
            "  leat serve tokens.leat --shuffle --seed 7 --memory 4G --name tokens --dir /run/shared/leat\n"
            "\nExit codes: 0 ended by leat port stop; 1 the data are at fault; 2 could not serve; 130 ended by a "
            "signal.\n",
    .run = run,
};
