/*
 * The option parser. Not getopt_long: a mistyped option is answered with the one that was probably meant, in one line,
 * and options may stand anywhere between the arguments.
 */
#include "args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv)
{
    *args = (struct cli_args){.command = command, .argc = argc, .at = 1, .argv = argv};
}

/* Distance of Levenshtein, of words too short to need more than a row of 64. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[64];
    if (n >= 64 || m >= 64)
        return 64;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(word) / 2 + 1; /* at most half of the word may differ */
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    /* A beginning of a name is meant to be that name, however much is missing: --thr for --threads. */
    for (size_t i = 0; !best && i < n && strlen(word) >= 2; i++)
        if (strstr(names[i], word))
            best = names[i];
    return best;
}

int cli_usage_error(const struct cli_command *command, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "leat %s: ", command->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nHelp: leat %s --help\n", command->name);
    return CLI_EXIT_FAILED;
}

static int unknown_option(const struct cli_command *command, const char *name, size_t length)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *names[64];
    size_t n = 0;
    for (; n < command->n_options && n < 63; n++)
        names[n] = command->options[n].name;
    names[n++] = "help";
    const char *near = cli_nearest(word, names, n);
    if (near)
        cli_usage_error(command, "there is no option --%s; did you mean --%s?", word, near);
    else
        cli_usage_error(command, "there is no option --%s.", word);
    return CLI_ARG_ERROR;
}

int cli_args_next(struct cli_args *args, const char **value)
{
    const struct cli_command *command = args->command;
    *value = NULL;
    if (args->at >= args->argc)
        return CLI_ARG_END;
    const char *arg = args->argv[args->at++];
    if (args->only_positional || arg[0] != '-' || !arg[1]) {
        *value = arg;
        return CLI_ARG_POSITIONAL;
    }
    if (!strcmp(arg, "--")) {
        args->only_positional = true;
        return cli_args_next(args, value);
    }
    if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
        cli_print_help(command);
        return CLI_ARG_HELP;
    }
    if (arg[1] != '-') {
        cli_usage_error(command, "options begin with two dashes; \"%s\" has one. A file of that name is written ./%s",
                        arg, arg);
        return CLI_ARG_ERROR;
    }
    const char *name = arg + 2;
    size_t length = strcspn(name, "=");
    for (size_t i = 0; i < command->n_options; i++) {
        const struct cli_option *option = &command->options[i];
        if (strlen(option->name) != length || strncmp(option->name, name, length) != 0)
            continue;
        if (!option->value) {
            if (name[length]) {
                cli_usage_error(command, "--%s takes no value.", option->name);
                return CLI_ARG_ERROR;
            }
            return (int)i;
        }
        if (name[length]) {
            *value = name + length + 1;
            return (int)i;
        }
        if (args->at >= args->argc) {
            cli_usage_error(command, "--%s needs a value: --%s %s", option->name, option->name, option->value);
            return CLI_ARG_ERROR;
        }
        *value = args->argv[args->at++];
        return (int)i;
    }
    return unknown_option(command, name, length);
}

int cli_args_exit(int what)
{
    return what == CLI_ARG_HELP ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

int cli_args_positional(const struct cli_command *command, const char *const *names, size_t wanted, size_t got)
{
    if (got < wanted)
        return cli_usage_error(command, "%s is missing. Usage: leat %s %s", names[got], command->name, command->usage);
    if (got > wanted)
        return cli_usage_error(command, "there is one argument too many. Usage: leat %s %s", command->name,
                               command->usage);
    return CLI_EXIT_OK;
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
        cli_usage_error(command, "--%s takes a whole number from %llu, not \"%s\".", option, (unsigned long long)min,
                        text);
    else
        cli_usage_error(command, "--%s takes a whole number from %llu to %llu, not \"%s\".", option,
                        (unsigned long long)min, (unsigned long long)max, text);
    return false;
}

bool cli_parse_unsigned(const struct cli_command *command, const char *option, const char *text, unsigned min,
                        unsigned max, unsigned *out)
{
    uint64_t wide;
    if (!cli_parse_u64(command, option, text, min, max, &wide))
        return false;
    *out = (unsigned)wide;
    return true;
}

bool cli_parse_bytes(const struct cli_command *command, const char *option, const char *text, uint64_t *out)
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

bool cli_parse_seconds(const struct cli_command *command, const char *option, const char *text, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (!errno && end != text && !*end && *out > 0 && *out <= 86400)
        return true;
    cli_usage_error(command, "--%s takes seconds above 0, such as 2 or 0.5, not \"%s\".", option, text);
    return false;
}

bool cli_parse_choice(const struct cli_command *command, const char *option, const char *text,
                      const char *const *choices, size_t n, int *out)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(text, choices[i])) {
            *out = (int)i;
            return true;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 !i           ? ""
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 choices[i]);
    }
    cli_usage_error(command, "--%s takes %s, not \"%s\".", option, list, text);
    return false;
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
