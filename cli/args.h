/*
 * Options of a command line. Each command has one table of options: it is parsed by it, and its help is printed from
 * it, so that the two cannot differ.
 */
#ifndef LEAT_CLI_ARGS_H
#define LEAT_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The way the value of an option is read, and the type that it is stored as. */
enum cli_type {
    CLI_SET,          /* no value: bool, becomes true */
    CLI_CLEAR,        /* no value: bool, becomes false */
    CLI_TEXT,         /* const char * */
    CLI_U64,          /* uint64_t, min to max */
    CLI_UNSIGNED,     /* unsigned, min to max */
    CLI_BYTES,        /* uint64_t, with K, M, G, T */
    CLI_SECONDS,      /* double */
    CLI_MILLISECONDS, /* double */
    CLI_EACH,         /* struct cli_each: the option may be given several times */
    CLI_CHOICE        /* int or an enum: the number of a word among `choices` */
};

#define CLI_EACH_MOST 64
struct cli_each {
    const char *at[CLI_EACH_MOST];
    size_t n;
};

struct cli_option {
    const char *name;  /* without the dashes */
    const char *value; /* the word for the value in the help ("N"), or NULL: takes none */
    const char *help;  /* lines separated by \n */
    enum cli_type type;
    size_t at; /* the place of the result: an offset in the structure that the command fills */
    uint64_t min, max;
    const char *choices; /* as they are listed in messages: "mark, skip or raise" */
    const char *needs;   /* the option without which this one means nothing, or NULL */
    bool may_be_empty;   /* of CLI_TEXT */
    bool is_written;     /* it names a file that is replaced, which no other argument may name */
};

#define CLI_ARGUMENTS 2

struct cli_several {
    char *const *at;
    size_t n;
};

struct cli_command {
    const char *name;
    const char *usage;   /* the text behind the name: "SRC DST [options]" */
    const char *summary; /* one line, no full stop */
    const char *about;   /* paragraphs, ended by a newline */
    struct {
        const char *name;
        size_t at;
    } arguments[CLI_ARGUMENTS]; /* all are needed; stored as const char * */
    /* The last argument, or the first one, may stand several times: it is stored as struct cli_several. */
    bool several, several_first;
    const char *instead_of_first; /* NULL, or an option that stands in the place of the first argument */
    const struct cli_option *options;
    size_t n_options;
    const char *more; /* examples and exit codes, ended by a newline */
    int (*run)(const struct cli_command *command, int argc, char **argv); /* argv[0] is the command's name */
};

enum { CLI_EXIT_OK = 0, CLI_EXIT_FAULTS = 1, CLI_EXIT_FAILED = 2, CLI_EXIT_INTERRUPTED = 130 };

/* Stores the arguments and options of a command line in `into`, the structure of the command. Returns false after a
 * message or the help; *exit_code then is how the command ends. */
bool cli_parse(const struct cli_command *command, int argc, char **argv, void *into, int *exit_code);

/* The value of option `i` of the command that was parsed, as it was typed, "yes" if it takes none; NULL: it was not
 * given. */
const char *cli_typed(size_t i);

/* Whether a file that gets a picture has no ending of another kind than `ending` (".png"). False after a message. NULL
 * fits. */
bool cli_ending_fits(const struct cli_command *command, const char *option, const char *path, const char *ending);

/* Reports the error of the command line, and the place of the help. Returns CLI_EXIT_FAILED. */
int cli_usage_error(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A number of a list that a command reads itself. After a message about the option it returns false. */
bool cli_parse_u64(const struct cli_command *command, const char *option, const char *text, uint64_t min, uint64_t max,
                   uint64_t *out);

void cli_print_help(const struct cli_command *command);

#endif
