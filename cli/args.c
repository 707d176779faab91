/*
 * The option parser. It does not use getopt_long: a mistyped option is answered with the one that was probably meant,
 * in one line, and options may stand anywhere between the arguments.
 */
#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "leat/leat.h"
#include "print.h"

/* The texts of the options of the command that was parsed last. */
#define MOST_OPTIONS 64
static const char *typed[MOST_OPTIONS];

const char *cli_typed(size_t i)
{
    return typed[i];
}

int cli_usage_error(const struct cli_command *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    cli_say_list(command, format, list);
    va_end(list);
    fprintf(stderr, "Help: leat %s --help\n", command->name);
    return CLI_EXIT_FAILED;
}

static bool unknown_option(const struct cli_command *command, const char *name, size_t length)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *names[MOST_OPTIONS + 1];
    size_t n = 0;
    for (; n < command->n_options; n++)
        names[n] = command->options[n].name;
    names[n++] = "help";
    const char *near = leat_nearest(word, names, n);
    for (size_t i = 0; !near && !strcmp(word, "annotations") && i < n; i++)
        if (!strcmp(names[i], "coco")) /* leat.open has one argument for all three */
            near = "coco, --yolo or --voc";
    if (near)
        cli_usage_error(command, "there is no option --%s; did you mean --%s?", word, near);
    else
        cli_usage_error(command, "there is no option --%s.", word);
    return false;
}

/* A plain unsigned number: strtoull alone would take "-1" and " 3". */
static bool plain_u64(const char *text, uint64_t *out, const char **end)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *stop;
    errno = 0;
    unsigned long long number = strtoull(text, &stop, 10);
    if (errno)
        return false;
    *out = number;
    *end = stop;
    return true;
}

bool cli_parse_u64(const struct cli_command *command, const char *option, const char *text, uint64_t min, uint64_t max,
                   uint64_t *out)
{
    const char *end;
    if (plain_u64(text, out, &end) && !*end && *out >= min && *out <= max)
        return true;
    if (max == UINT64_MAX || max == INT64_MAX)
        cli_usage_error(command, "--%s takes a whole number from %" PRIu64 ", not \"%s\".", option, min, text);
    else
        cli_usage_error(command, "--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not \"%s\".", option, min,
                        max, text);
    return false;
}

static bool parse_bytes(const struct cli_command *command, const char *option, const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    const char *end;
    uint64_t number;
    if (plain_u64(text, &number, &end)) {
        unsigned shift = 0;
        const char *found = *end ? strchr(suffixes, *end & ~0x20) : NULL;
        if (found) {
            shift = 10 * (unsigned)(found - suffixes + 1);
            end++;
            if ((*end & ~0x20) == 'I')
                end++;
        }
        if ((*end & ~0x20) == 'B')
            end++;
        if (!*end && number <= (UINT64_MAX >> 1) >> shift) {
            *out = number << shift;
            return true;
        }
    }
    cli_usage_error(command, "--%s takes a number of bytes, such as 1000000, 512M or 4G, not \"%s\".", option, text);
    return false;
}

/* `unit` is a second in what is given. */
static bool parse_time(const struct cli_command *command, const char *option, const char *text, double unit,
                       double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (!errno && end != text && !*end && *out > 0 && *out <= 86400 * unit)
        return true;
    cli_usage_error(command, "--%s takes %s, at most a day, not \"%s\".", option,
                    unit > 1 ? "milliseconds above 0, such as 120 or 8.5" : "seconds above 0, such as 2 or 0.5", text);
    return false;
}

/* `choices` as in "mark, skip or raise"; *out is the number of the word in it. */
static bool parse_choice(const struct cli_command *command, const char *option, const char *text, const char *choices,
                         int *out)
{
    char words[256];
    const char *names[MOST_OPTIONS], *near;
    size_t n = 0;
    snprintf(words, sizeof words, "%s", choices);
    for (char *word = words, *next; word && n < MOST_OPTIONS; word = next) {
        char *end = word + strcspn(word, ", ");
        next = !strncmp(end, ", ", 2) ? end + 2 : !strncmp(end, " or ", 4) ? end + 4 : NULL;
        *end = 0;
        if (!strcmp(text, word)) {
            *out = (int)n;
            return true;
        }
        names[n++] = word;
    }
    near = leat_nearest(text, names, n);
    if (near)
        cli_usage_error(command, "--%s takes %s, not \"%s\"; did you mean %s?", option, choices, text, near);
    else
        cli_usage_error(command, "--%s takes %s, not \"%s\".", option, choices, text);
    return false;
}

/* Stores the value of an option in the structure of the command. */
static bool store(const struct cli_command *command, const struct cli_option *option, const char *text, char *into)
{
    void *at = into + option->at;
    uint64_t number;
    switch (option->type) {
    case CLI_SET:
        *(bool *)at = true;
        return true;
    case CLI_CLEAR:
        *(bool *)at = false;
        return true;
    case CLI_TEXT:
        *(const char **)at = text;
        return true;
    case CLI_EACH: {
        struct cli_each *each = at;
        if (each->n == CLI_EACH_MOST) {
            cli_usage_error(command, "--%s is given more than %d times.", option->name, CLI_EACH_MOST);
            return false;
        }
        each->at[each->n++] = text;
        return true;
    }
    case CLI_U64:
        return cli_parse_u64(command, option->name, text, option->min, option->max, at);
    case CLI_UNSIGNED:
        if (!cli_parse_u64(command, option->name, text, option->min, option->max, &number))
            return false;
        *(unsigned *)at = (unsigned)number;
        return true;
    case CLI_BYTES:
        return parse_bytes(command, option->name, text, at);
    case CLI_SECONDS:
        return parse_time(command, option->name, text, 1, at);
    case CLI_MILLISECONDS:
        return parse_time(command, option->name, text, 1000, at);
    case CLI_CHOICE:
        return parse_choice(command, option->name, text, option->choices, at);
    }
    return false;
}

/* The option that a word names: `name`, or `name=value`. NULL: there is none. */
static const struct cli_option *find_option(const struct cli_command *command, const char *name)
{
    const size_t length = strcspn(name, "=");
    for (size_t i = 0; i < command->n_options; i++)
        if (strlen(command->options[i].name) == length && !strncmp(command->options[i].name, name, length))
            return &command->options[i];
    return NULL;
}

/* Takes the option `arg`, and the argument after it if that is its value. An option is no value: it was left out. */
static bool take_option(const struct cli_command *command, int argc, char **argv, int *i, void *into)
{
    const char *arg = argv[*i], *name = arg + 2;
    if (arg[1] != '-') {
        cli_usage_error(command, "options begin with two dashes; \"%s\" has one. A file of that name is written ./%s",
                        arg, arg);
        return false;
    }
    const size_t length = strcspn(name, "=");
    const struct cli_option *option = find_option(command, name);
    if (!option)
        return unknown_option(command, name, length);
    if (!option->value && name[length]) {
        cli_usage_error(command, "--%s takes no value.", option->name);
        return false;
    }
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (option->value && !name[length] && (!next || (!strncmp(next, "--", 2) && find_option(command, next + 2)))) {
        cli_usage_error(command, "--%s needs a value: --%s %s", option->name, option->name, option->value);
        return false;
    }
    const char *text = name[length] ? name + length + 1 : option->value ? argv[++*i] : "yes";
    if (option->type == CLI_TEXT && !*text && !option->may_be_empty) {
        cli_usage_error(command, "the value of --%s is empty: --%s %s", option->name, option->name, option->value);
        return false;
    }
    const char **before = &typed[option - command->options];
    if (*before && option->type != CLI_EACH && strcmp(*before, text) != 0) {
        cli_usage_error(command, "--%s is given twice, as \"%s\" and as \"%s\": it takes one value.", option->name,
                        *before, text);
        return false;
    }
    *before = text;
    return store(command, option, text, into);
}

static bool was_given(const struct cli_command *command, const char *name)
{
    size_t i = 0;
    while (i < command->n_options && strcmp(command->options[i].name, name) != 0)
        i++;
    return i < command->n_options && typed[i];
}

/* Whether each option that was given has the one that it needs. False after a message. */
static bool options_fit(const struct cli_command *command)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const struct cli_option *option = &command->options[i];
        if (typed[i] && option->needs && !was_given(command, option->needs)) {
            cli_usage_error(command, "--%s needs --%s.", option->name, option->needs);
            return false;
        }
    }
    return true;
}

/* A file that is there and would be written, and the two places where it lies: that of its name, whose folder alone is
 * without links, and that behind all links. */
struct output {
    struct stat file;
    char *at[2]; /* NULL: unknown */
};

static bool find_output(const char *path, struct output *out)
{
    *out = (struct output){0};
    if (stat(path, &out->file) || !S_ISREG(out->file.st_mode))
        return false;
    char *copy = strdup(path), *folder = copy ? realpath(dirname(copy), NULL) : NULL;
    if (!folder || asprintf(&out->at[0], "%s/", strcmp(folder, "/") ? folder : "") < 0)
        out->at[0] = NULL;
    out->at[1] = realpath(path, NULL);
    free(folder);
    free(copy);
    return true;
}

/* Whether a path is that of the manifest of a shard that is the output: it stands for both. */
static bool is_manifest_of(const char *path, const struct output *out)
{
    char *manifest = realpath(path, NULL), **paths = NULL;
    size_t n = 0;
    if (manifest && out->at[1])
        leat_paths_expand((const char *const[]){manifest, out->at[1]}, 2, &paths, &n, NULL);
    leat_free(paths);
    free(manifest);
    return n == 1;
}

/* Whether a path is the output's, or that of its manifest or of a folder around it: files of any name may be data
 * there. */
static bool is_around(const char *path, const struct output *out)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    if (!S_ISDIR(st.st_mode))
        return (st.st_dev == out->file.st_dev && st.st_ino == out->file.st_ino) || is_manifest_of(path, out);
    char *folder = realpath(path, NULL);
    const size_t n = !folder || !strcmp(folder, "/") ? 0 : strlen(folder);
    bool found = false;
    for (int i = 0; i < 2; i++)
        found = found || (folder && out->at[i] && !strncmp(out->at[i], folder, n) && out->at[i][n] == '/');
    free(folder);
    return found;
}

/* Whether one of the paths that a word means is the output's. A word that means none is an error of the command. */
static bool is_read(const char *word, const struct output *out)
{
    char **paths = NULL;
    size_t n = 0;
    bool found = false;
    leat_paths_expand(&word, 1, &paths, &n, NULL);
    for (size_t i = 0; i < n && !found; i++)
        found = is_around(paths[i], out);
    leat_free(paths);
    return found;
}

/* Whether option `k` has a file read that would be replaced. Only some are about folders. */
static bool has_read(const struct cli_option *option, const char *text, const struct output *out)
{
    struct stat st;
    return option->type == CLI_TEXT && !option->is_written && !stat(text, &st) &&
           (!S_ISDIR(st.st_mode) || !strcmp(option->value, "FOLDER")) && is_around(text, out);
}

/* Whether no file that is read would be replaced. False after a message. */
static bool outputs_fit(const struct cli_command *command, char *const *arguments, size_t n)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const char *by = NULL; /* the word that has it read */
        struct output out;
        if (!typed[i] || !command->options[i].is_written || !find_output(typed[i], &out))
            continue;
        for (size_t k = 0; k < n && !by; k++)
            by = is_read(arguments[k], &out) ? arguments[k] : NULL;
        for (size_t k = 0; k < command->n_options && !by; k++)
            by = typed[k] && has_read(&command->options[k], typed[k], &out) ? typed[k] : NULL;
        free(out.at[0]);
        free(out.at[1]);
        if (!by)
            continue;
        struct stat st;
        const bool itself = !stat(by, &st) && !S_ISDIR(st.st_mode);
        cli_usage_error(command, "--%s would replace %s, which is read%s%s: choose another name.",
                        command->options[i].name, typed[i], itself ? "" : " as a part of ", itself ? "" : by);
        return false;
    }
    return true;
}

bool cli_ending_fits(const struct cli_command *command, const char *option, const char *path, const char *ending)
{
    static const char *const others[] = {".png",  ".svg", ".pdf",  ".eps",  ".ps",  ".htm", ".html", ".jpg",
                                         ".jpeg", ".gif", ".webp", ".avif", ".jxl", ".bmp", ".tif",  ".tiff"};
    const char *found = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; found && i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(found, others[i]) && strcasecmp(found, ending) != 0) {
            cli_usage_error(command, "--%s %s: what is drawn there is a %s: name it so.", option, path, ending);
            return false;
        }
    return true;
}

/* Stores the n arguments; `wanted` of them are needed. */
static void store_arguments(const struct cli_command *command, char *const *arguments, size_t n, size_t wanted,
                            char *into)
{
    if (command->instead_of_first && was_given(command, command->instead_of_first)) {
        *(const char **)(void *)(into + command->arguments[1].at) = arguments[0];
        return;
    }
    const size_t more = n - wanted, several = command->several_first ? 0 : wanted - 1;
    for (size_t i = 0; i < wanted; i++) {
        void *at = into + command->arguments[i].at;
        char *const *given = arguments + i + (i > several ? more : 0);
        if (i == several && (command->several || command->several_first))
            *(struct cli_several *)at = (struct cli_several){given, more + 1};
        else
            *(const char **)at = *given;
    }
}

bool cli_parse(const struct cli_command *command, int argc, char **argv, void *into, int *exit_code)
{
    static char **arguments; /* of the command, to its end; argv stays as typed */
    bool several = command->several || command->several_first;
    size_t n = 0, wanted = 0, first = 0;
    bool only_arguments = false;
    free(arguments);
    memset(typed, 0, sizeof typed);
    arguments = calloc((size_t)argc + 1, sizeof *arguments);
    if (!arguments) {
        cli_say(command, "There is no memory for the arguments.");
        *exit_code = CLI_EXIT_FAILED;
        return false;
    }
    while (wanted < CLI_ARGUMENTS && command->arguments[wanted].name)
        wanted++;
    *exit_code = CLI_EXIT_FAILED;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (!arg[0] || (!only_arguments && !strcmp(arg, "-"))) {
            cli_usage_error(command, arg[0]
                                         ? "- is no file: nothing is read from standard input or written to standard "
                                           "output in its place. A file of that name is written ./-"
                                         : "an argument is empty: a variable of the shell may not be set.");
            return false;
        } else if (only_arguments || arg[0] != '-') {
            arguments[n++] = argv[i];
        } else if (!strcmp(arg, "--")) {
            only_arguments = true;
        } else if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            cli_print_help(command);
            *exit_code = CLI_EXIT_OK;
            return false;
        } else if (!take_option(command, argc, argv, &i, into)) {
            return false;
        }
    }
    if (command->instead_of_first && was_given(command, command->instead_of_first)) {
        several = false;
        first = 1;
        wanted--;
    }
    if (n < wanted)
        cli_usage_error(command, "%s is missing. Usage: leat %s %s", command->arguments[first + n].name, command->name,
                        command->usage);
    else if (n > wanted && !several)
        cli_usage_error(command, "there is one argument too many. Usage: leat %s %s", command->name, command->usage);
    else if (wanted)
        store_arguments(command, arguments, n, wanted, into);
    return (n == wanted || (several && n > wanted)) && options_fit(command) && outputs_fit(command, arguments, n);
}

static void print_option(const char *name, const char *value, const char *help)
{
    char left[48];
    int width = snprintf(left, sizeof left, "  --%s%s%s", name, value ? " " : "", value ? value : "");
    const char *line = help;
    printf("%-24s", left);
    if (width > 22)
        printf("\n%-24s", "");
    for (;;) {
        size_t length = strcspn(line, "\n");
        printf("%.*s\n", (int)length, line);
        if (!line[length])
            break;
        line += length + 1;
        printf("%-24s", "");
    }
}

void cli_print_help(const struct cli_command *command)
{
    printf("leat %s: %s\n\nUsage: leat %s %s\n\n%s", command->name, command->summary, command->name, command->usage,
           command->about);
    printf("\nOptions:\n");
    for (size_t i = 0; i < command->n_options; i++)
        print_option(command->options[i].name, command->options[i].value, command->options[i].help);
    print_option("help", NULL, "this text");
    printf("\n%s", command->more);
}
