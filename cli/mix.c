/*
 * leat mix show: the options are checked here. Mixtures are declared in Python, so the Python package does the work.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "print.h"
#include "python.h"

struct mix {
    const char *action, *spec, *out, *log;
    uint64_t batch_size, epochs, steps, rows, seed;
    bool json;
};

#define ABSENT UINT64_MAX

static const struct cli_option options[] = {
    {"out", "FILE", "draw shares and passes into a .png, .pdf or .svg (needs matplotlib)", CLI_TEXT,
     offsetof(struct mix, out), 0, 0, NULL},
    {"log", "FILE", "JSON of a run's decisions (loader.log), or of its state", CLI_TEXT, offsetof(struct mix, log), 0,
     0, NULL},
    {"batch-size", "N", "rows of a batch of all ranks together: places are then steps", CLI_U64,
     offsetof(struct mix, batch_size), 1, INT64_MAX, NULL},
    {"epochs", "N", "how much is shown; the default: whole epochs,\nup to the last change of shares", CLI_U64,
     offsetof(struct mix, epochs), 1, INT64_MAX, NULL},
    {"steps", "N", "the same in steps", CLI_U64, offsetof(struct mix, steps), 1, INT64_MAX, NULL},
    {"rows", "N", "the same in rows", CLI_U64, offsetof(struct mix, rows), 1, INT64_MAX, NULL},
    {"seed", "N", "of the order; it matters only for the tokens of rows\nthat differ in length", CLI_U64,
     offsetof(struct mix, seed), 0, INT64_MAX, NULL},
    {"json", NULL, "everything as one JSON object", CLI_SET, offsetof(struct mix, json), 0, 0, NULL},
};

static const char *number(uint64_t n, char out[24])
{
    snprintf(out, 24, "%" PRIu64, n);
    return n == ABSENT ? NULL : out;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct mix mix = {.batch_size = ABSENT, .epochs = ABSENT, .steps = ABSENT, .rows = ABSENT, .seed = ABSENT};
    char text[5][24];
    int exit_code;
    if (!cli_parse(command, argc, argv, &mix, &exit_code))
        return exit_code;
    if (strcmp(mix.action, "show") != 0)
        return cli_usage_error(command, "there is no \"%s\"; did you mean leat mix show?", mix.action);
    const char *const pairs[][2] = {
        {"spec", mix.spec},
        {"out", mix.out},
        {"log", mix.log},
        {"batch_size", number(mix.batch_size, text[0])},
        {"epochs", number(mix.epochs, text[1])},
        {"steps", number(mix.steps, text[2])},
        {"rows", number(mix.rows, text[3])},
        {"seed", number(mix.seed, text[4])},
        {"json", mix.json ? "yes" : NULL},
    };
    return cli_become_python(command, pairs, sizeof pairs / sizeof *pairs);
}

const struct cli_command cli_mix = {
    .name = "mix",
    .usage = "show SPEC [options]",
    .summary = "show what a mixture gives: shares, passes of each source",
    .about = "SPEC is a mixture: module:attribute or file.py:name of Python, which is run, with a leat.Mix, a\n"
             "leat.Schedule, a Loader of one or a function that gives one; a .toml or .json file that names sources\n"
             "and shares; or a .json file of a loader's state. The plan is computed, exactly, and nothing is read.\n",
    .arguments = {{"show", offsetof(struct mix, action)}, {"SPEC", offsetof(struct mix, spec)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat mix show train.py:mix --batch-size 64 --out mix.png\n"
            "  leat mix show mix.toml --epochs 3\n"
            "  leat mix show train.py:mix --log run/log.json\n"
            "\nExit codes: 0 shown; 2 could not run.\n",
    .run = run,
};
