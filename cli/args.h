/*
 * Options of a command line. Each command has one table of options: it is parsed by it, and its help is printed from
 * it, so that the two cannot differ.
 */
#ifndef LEAT_CLI_ARGS_H
#define LEAT_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_option {
    const char *name;  /* without the dashes */
    const char *value; /* what stands for the value in the help ("N"), or NULL: takes none */
    const char *help;  /* lines separated by \n */
};

struct cli_command {
    const char *name;
    const char *usage;   /* what follows the name: "SRC DST [options]" */
    const char *summary; /* one line, no full stop */
    const char *about;   /* paragraphs, ended by a newline */
    const struct cli_option *options;
    size_t n_options;
    const char *more; /* examples and exit codes, ended by a newline */
    int (*run)(const struct cli_command *command, int argc, char **argv); /* argv[0] is the command's name */
};

enum { CLI_EXIT_OK = 0, CLI_EXIT_FAULTS = 1, CLI_EXIT_FAILED = 2, CLI_EXIT_INTERRUPTED = 130 };

struct cli_args {
    const struct cli_command *command;
    int argc, at;
    char **argv;
    bool only_positional; /* after "--" */
};

enum { CLI_ARG_POSITIONAL = -1, CLI_ARG_END = -2, CLI_ARG_HELP = -3, CLI_ARG_ERROR = -4 };

void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv);
/* The next argument: the index of an option in the table with *value set, or one of CLI_ARG_*. After HELP the help is
 * printed, after ERROR the message; the command then ends with cli_args_exit. */
int cli_args_next(struct cli_args *args, const char **value);
int cli_args_exit(int what);

/* Says what is wrong with the command line, and where help is. Returns CLI_EXIT_FAILED. */
int cli_usage_error(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes positional arguments beyond `wanted` as an error; names the missing one. `names` as in "SRC", "DST". */
int cli_args_positional(const struct cli_command *command, const char *const *names, size_t wanted, size_t got);

/* Values. On failure they print what would be accepted and return false. */
bool cli_parse_u64(const struct cli_command *command, const char *option, const char *text, uint64_t min, uint64_t max,
                   uint64_t *out);
bool cli_parse_unsigned(const struct cli_command *command, const char *option, const char *text, unsigned min,
                        unsigned max, unsigned *out);
bool cli_parse_bytes(const struct cli_command *command, const char *option, const char *text,
                     uint64_t *out); /* K, M, G, T */
bool cli_parse_seconds(const struct cli_command *command, const char *option, const char *text, double *out);
bool cli_parse_choice(const struct cli_command *command, const char *option, const char *text,
                      const char *const *choices, size_t n, int *out);

void cli_print_help(const struct cli_command *command);

/* The nearest of `names` to `word`, if it is near enough to be meant; else NULL. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

#endif
