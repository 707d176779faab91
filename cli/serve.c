/*
 * leat serve: a data set, a loader of it and a port, in a process of their own. It prints one line once others can
 * attach, and ends when a signal or leat port stop asks it to, or when nobody has been attached for so long.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "opening.h"
#include "print.h"
#include "progress.h"

/* Bytes of batches that consumers may hold between them, if the process may use four times as much: some 27 batches of
 * 64 photos of 224 x 224 as float32. */
#define LENT_BYTES (UINT64_C(1) << 30)
#define LOOK_MS 100     /* between two looks for a signal, */
#define LOOKS_A_TIME 10 /* ... of so many one for readers */

struct serve {
    const struct cli_command *command;
    const char *path, *name, *program_path, *folder, *group;
    uint64_t batch_size, seed, memory, linger;
    unsigned threads;
    bool shuffle, detach;
    int parent; /* of a detached one: the descriptor on which it says that others can attach; else -1 */
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
    {"linger", "SECONDS", "ends once nobody has been attached for so long; default: it goes on", CLI_U64,
     .at = offsetof(struct serve, linger), 1, UINT32_MAX},
    {"detach", NULL, "goes on in the background: the command returns when others can attach", CLI_SET,
     .at = offsetof(struct serve, detach)},
    CLI_WHERE_OPTION(struct serve, opening),
    CLI_OPENING_OPTIONS(struct serve, opening),
    CLI_FIELD_OPTION(struct serve, opening),
};

static void print_line(const struct serve *serve, const struct leat_dataset *dataset, struct leat_port *port)
{
    char count[32], path[1200], place[1200], order[64] = "in order", *text = NULL;
    json_t *stat = leat_port_stat(port, &text, NULL) ? NULL : cli_taken(text);
    const char *at = json_string_value(json_object_get(stat, "path"));
    if (serve->shuffle)
        snprintf(order, sizeof order, "shuffled with seed %" PRIu64, serve->seed);
    printf("serving %s as %s, %s samples %s%s%s\n", leat_escape(serve->path, path, sizeof path), serve->name,
           cli_count(leat_dataset_count(dataset), count), order, at ? ", at " : "",
           at ? leat_escape(at, place, sizeof place) : "");
    fflush(stdout);
    json_decref(stat);
}

static bool has_readers(struct leat_port *port)
{
    char *text = NULL;
    json_t *stat = leat_port_stat(port, &text, NULL) ? NULL : cli_taken(text);
    const bool some = !stat || json_array_size(json_object_get(stat, "consumers"));
    json_decref(stat);
    return some;
}

/* Until someone asks it to end, or there has been nobody for so long. */
static int wait_for_end(const struct serve *serve, struct leat_port *port)
{
    struct leat_error error;
    uint64_t idle = 0; /* looks since there was a reader */
    for (uint64_t look = 1; !cli_interrupted(); look++) {
        const int rc = leat_port_wait(port, LOOK_MS, &error);
        if (!rc)
            return CLI_EXIT_OK;
        if (rc != LEAT_E_TIMEOUT)
            return cli_fail(serve->command, &error, NULL);
        idle++;
        if (serve->linger && look % LOOKS_A_TIME == 0 && has_readers(port))
            idle = 0;
        if (serve->linger && idle >= serve->linger * 1000 / LOOK_MS)
            return CLI_EXIT_OK;
    }
    return CLI_EXIT_INTERRUPTED;
}

/* ---- in the background ----------------------------------------------------------------------- */

/* The parent waits until its child says that it serves, or ends. */
static int wait_for_child(pid_t child, int said)
{
    char byte;
    int status = 0;
    if (read(said, &byte, 1) == 1)
        return CLI_EXIT_OK;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : CLI_EXIT_FAILED;
}

/* Before there is any thread. True: this is the child, which goes on; else *exit_code is the parent's. */
static bool begin_detached(struct serve *serve, int *exit_code)
{
    int ends[2];
    const pid_t child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
    if (child < 0) {
        cli_say(serve->command, "no process can be started.");
        *exit_code = CLI_EXIT_FAILED;
        return false;
    }
    close(ends[child ? 1 : 0]);
    if (child) {
        *exit_code = wait_for_child(child, ends[0]);
        return false;
    }
    setsid();
    serve->parent = ends[1];
    return true;
}

/* Its output has been seen; from here on nobody reads it. */
static void leave_parent(struct serve *serve)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nowhere >= 0 && fd <= 2; fd++)
        dup2(nowhere, fd);
    close(nowhere);
    if (write(serve->parent, "", 1) == 1)
        close(serve->parent);
    serve->parent = -1;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int serve_loader(struct serve *serve, const struct leat_dataset *dataset, struct leat_loader *loader)
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
    if (serve->parent >= 0)
        leave_parent(serve);
    const int exit_code = wait_for_end(serve, port);
    leat_port_close(port);
    return exit_code;
}

/* An error of the loader in the words of the command. */
static int fail(const struct serve *serve, struct leat_error *error)
{
    static const char argument[] = "max_held_bytes = ";
    const struct leat_error as = *error;
    if (!strncmp(as.message, argument, sizeof argument - 1))
        snprintf(error->message, sizeof error->message, "--memory %s", as.message + sizeof argument - 1);
    return cli_fail(serve->command, error, NULL);
}

static int open_and_serve(struct serve *serve)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader = NULL;
    struct leat_error error;
    int exit_code = CLI_EXIT_FAILED;
    static const enum leat_on_error choices[] = {LEAT_ON_ERROR_RAISE, LEAT_ON_ERROR_SKIP, LEAT_ON_ERROR_SUBSTITUTE};
    if (serve->program_path && !(serve->program = cli_read_program(serve->command, serve->program_path)))
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
            exit_code = fail(serve, &error);
        else
            exit_code = serve_loader(serve, dataset, loader);
        leat_loader_close(loader);
    }
    leat_dataset_release(dataset);
    free(serve->program);
    return exit_code;
}

/* Each reader takes descriptors of this process: as many as are allowed, not as many as shells begin with. */
static void allow_descriptors(void)
{
    struct rlimit most;
    if (!getrlimit(RLIMIT_NOFILE, &most) && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most); /* without it there is room for fewer readers, which get that answer */
    }
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct serve serve = {.command = command, .batch_size = 64, .parent = -1};
    int exit_code;
    if (!cli_parse(command, argc, argv, &serve, &exit_code))
        return exit_code;
    if (!serve.name)
        return cli_usage_error(command, "--name is missing: what trainings attach to.");
    if (serve.detach && !begin_detached(&serve, &exit_code))
        return exit_code;
    cli_catch_interrupts();
    allow_descriptors();
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
            "  leat serve photos.leat --shuffle --name photos --detach --linger 60\n"
            "\nExit codes: 0 ended by leat port stop or --linger; 1 the data are at fault; 2 could not serve;\n"
            "130 ended by a signal.\n",
    .run = run,
};
