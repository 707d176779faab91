/*
 * leat mix show: the options are checked here. Mixtures are declared in Python, so the Python package does the work.
 */
#include <string.h>

#include "commands.h"
#include "python.h"

struct mix {
    const char *action, *spec, *text;
    uint64_t number;
    bool flag;
};

/* All are handed over as they were typed. */
static const struct cli_option options[] = {
    {"out", "FILE", "draw shares and passes into a .png, .pdf or .svg (needs matplotlib)", CLI_TEXT,
     .at = offsetof(struct mix, text), .is_written = true},
    {"log", "FILE", "JSON of a run's decisions (loader.log), or of its state", CLI_TEXT,
     .at = offsetof(struct mix, text)},
    {"batch-size", "N", "rows of a batch of all ranks together: places are then steps", CLI_U64,
     .at = offsetof(struct mix, number), 1, INT64_MAX},
    {"epochs", "N", "how much is shown; the default: whole epochs,\nup to the last change of shares", CLI_U64,
     .at = offsetof(struct mix, number), 1, INT64_MAX},
    {"steps", "N", "the same in steps", CLI_U64, .at = offsetof(struct mix, number), 1, INT64_MAX},
    {"rows", "N", "the same in rows", CLI_U64, .at = offsetof(struct mix, number), 1, INT64_MAX},
    {"seed", "N", "of the order, which a state says; it matters only for\nthe tokens of rows that differ in length",
     CLI_U64, .at = offsetof(struct mix, number), 0, INT64_MAX},
    {"json", NULL, "everything as one JSON object", CLI_SET, .at = offsetof(struct mix, flag)},
};

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct mix mix;
    int exit_code;
    if (!cli_parse(command, argc, argv, &mix, &exit_code))
        return exit_code;
    if (strcmp(mix.action, "show") != 0)
        return cli_usage_error(command, "there is no \"%s\"; did you mean leat mix show?", mix.action);
    return cli_become_python(command, &mix, "spec", &(struct cli_several){(char *const *)&mix.spec, 1}, NULL, NULL);
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
