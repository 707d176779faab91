/*
 * Manual pages and completion for shells, from the tables that the command line itself is parsed by, so that they
 * cannot differ from it.
 *
 *     leat --man           leat(1); leat --man view: leat-view(1), as roff
 *     leat completion SH   a script for bash, zsh or fish
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "leat/leat.h"
#include "print.h"

/* ---- manual pages ---------------------------------------------------------------------------- */

/* Text as roff: dashes are dashes that a shell takes, and no line begins with a request. */
static void print_roff(const char *text)
{
    bool first = true;
    for (; *text; text++) {
        if (first && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        first = *text == '\n';
    }
}

/* Paragraphs; lines that are indented stay as they are. */
static void print_prose(const char *text)
{
    bool kept = false;
    while (*text) {
        const size_t length = strcspn(text, "\n");
        const bool indented = text[0] == ' ';
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        if (indented != kept) {
            printf(indented ? ".PP\n.nf\n.RS 2\n" : ".RE\n.fi\n.PP\n");
            kept = indented;
        }
        if (!length) {
            printf(".PP\n");
        } else {
            print_roff(line + (indented ? strspn(line, " ") : 0));
            putchar('\n');
        }
        text += length + (text[length] == '\n');
    }
    if (kept)
        printf(".RE\n.fi\n");
}

static void print_option(const char *name, const char *value, const char *help)
{
    printf(".TP\n.B \\-\\-");
    print_roff(name);
    if (value)
        printf(" \\fI%s\\fR", value);
    putchar('\n');
    print_prose(help);
}

void cli_print_man(const struct cli_command *command)
{
    char title[64];
    snprintf(title, sizeof title, "LEAT-%s", command->name);
    for (char *c = title; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    printf(".TH \"%s\" 1 \"\" \"leat %s\" \"leat\"\n.SH NAME\nleat\\-%s \\- ", title, leat_version(), command->name);
    print_roff(command->summary);
    printf("\n.SH SYNOPSIS\n.B leat %s\n", command->name);
    print_roff(command->usage);
    printf("\n.SH DESCRIPTION\n");
    print_prose(command->about);
    printf(".SH OPTIONS\n");
    for (size_t i = 0; i < command->n_options; i++)
        print_option(command->options[i].name, command->options[i].value, command->options[i].help);
    print_option("help", NULL, "the options, in short");
    printf(".SH EXAMPLES AND EXIT CODES\n");
    print_prose(command->more);
    printf(".SH SEE ALSO\n.BR leat (1)\n");
}

void cli_print_man_of_all(void)
{
    printf(".TH LEAT 1 \"\" \"leat %s\" \"leat\"\n.SH NAME\nleat \\- feeds training: packs samples into a file and "
           "delivers batches of them\n.SH SYNOPSIS\n.B leat\n.I COMMAND\n[arguments] [options]\n.SH COMMANDS\n",
           leat_version());
    for (size_t i = 0; i < cli_n_commands; i++) {
        printf(".TP\n.BR leat\\-%s (1)\n", cli_commands[i]->name);
        print_roff(cli_commands[i]->summary);
        putchar('\n');
    }
    printf(".SH ENVIRONMENT\n.TP\n.B LEAT_LOG\nerror, warning, info or debug: what the library does, on standard "
           "error\n.TP\n.B LEAT_LOG_FILE\na file that gets the log instead\n.SH EXIT STATUS\n0: done; 1: the data are "
           "at fault; 2: it could not be done; 130: interrupted.\n");
}

/* ---- completion ------------------------------------------------------------------------------ */

/* A text inside of single quotes of a shell; lines become one. */
static void print_quoted(const char *text, const char *escaped_quote)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs(escaped_quote, stdout);
        else
            putchar(*text == '\n' ? ' ' : *text);
}

/* Each word of "mark, skip or raise", and a space behind it. */
static void print_choices(const char *choices)
{
    while (*choices) {
        const int length = (int)strcspn(choices, ", ");
        printf("%.*s ", length, choices);
        choices += length;
        choices += !strncmp(choices, ", ", 2) ? 2 : !strncmp(choices, " or ", 4) ? 4 : 0;
    }
}

static bool takes_file(const struct cli_option *option)
{
    return option->type == CLI_TEXT;
}

static void complete_bash(void)
{
    printf("# bash completion of leat %s: source it, or put it into ~/.local/share/bash-completion/completions/leat\n"
           "_leat()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]}\n    COMPREPLY=()\n    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W '",
           leat_version());
    for (size_t i = 0; i < cli_n_commands; i++)
        printf("%s ", cli_commands[i]->name);
    printf("help --help --version' -- \"$word\"))\n        return\n    fi\n    case $command$before in\n");
    for (size_t i = 0; i < cli_n_commands; i++)
        for (size_t k = 0; k < cli_commands[i]->n_options; k++) {
            const struct cli_option *option = &cli_commands[i]->options[k];
            if (!option->value || takes_file(option))
                continue;
            printf("    %s--%s)\n        COMPREPLY=($(compgen -W '", cli_commands[i]->name, option->name);
            if (option->type == CLI_CHOICE)
                print_choices(option->choices);
            printf("' -- \"$word\"))\n        return ;;\n");
        }
    printf("    esac\n    if [[ $word == -* ]]; then\n        case $command in\n");
    for (size_t i = 0; i < cli_n_commands; i++) {
        printf("        %s) COMPREPLY=($(compgen -W '", cli_commands[i]->name);
        for (size_t k = 0; k < cli_commands[i]->n_options; k++)
            printf("--%s ", cli_commands[i]->options[k].name);
        printf("--help' -- \"$word\")) ;;\n");
    }
    printf("        esac\n    elif [[ $command == completion ]]; then\n"
           "        COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\"))\n    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}\ncomplete -o filenames -F _leat leat\n");
}

/* In a description of zsh, brackets and colons are escaped. */
static void print_zsh(const char *text)
{
    for (; *text; text++) {
        if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            putchar('\\');
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text == '\n' ? ' ' : *text);
    }
}

static void complete_zsh(void)
{
    printf("#compdef leat\n# zsh completion of leat %s: put it into a folder of $fpath, as _leat\n_leat() {\n"
           "  local -a commands\n  commands=(\n",
           leat_version());
    for (size_t i = 0; i < cli_n_commands; i++) {
        printf("    '%s:", cli_commands[i]->name);
        print_zsh(cli_commands[i]->summary);
        printf("'\n");
    }
    printf("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
           "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n");
    for (size_t i = 0; i < cli_n_commands; i++) {
        printf("    %s)\n      _arguments '--help[the options]'", cli_commands[i]->name);
        for (size_t k = 0; k < cli_commands[i]->n_options; k++) {
            const struct cli_option *option = &cli_commands[i]->options[k];
            printf(" \\\n        '--%s[", option->name);
            print_zsh(option->help);
            putchar(']');
            if (option->type == CLI_CHOICE) {
                printf(":%s:(", option->value);
                print_choices(option->choices);
                putchar(')');
            } else if (option->value) {
                printf(":%s:%s", option->value, takes_file(option) ? "_files" : "");
            }
            putchar('\'');
        }
        printf(!strcmp(cli_commands[i]->name, "completion") ? " \\\n        '1:shell:(bash zsh fish)' ;;\n"
                                                            : " \\\n        '*:file:_files' ;;\n");
    }
    printf("  esac\n}\n_leat \"$@\"\n");
}

static void complete_fish(void)
{
    printf("# fish completion of leat %s: put it into ~/.config/fish/completions/leat.fish\n", leat_version());
    for (size_t i = 0; i < cli_n_commands; i++) {
        const struct cli_command *command = cli_commands[i];
        printf("complete -c leat -n __fish_use_subcommand -f -a %s -d '", command->name);
        print_quoted(command->summary, "\\'");
        printf("'\n");
        for (size_t k = 0; k < command->n_options; k++) {
            const struct cli_option *option = &command->options[k];
            printf("complete -c leat -n '__fish_seen_subcommand_from %s' -l %s", command->name, option->name);
            if (option->value)
                printf(takes_file(option) ? " -r" : " -x");
            if (option->type == CLI_CHOICE) {
                printf(" -a '");
                print_choices(option->choices);
                putchar('\'');
            }
            printf(" -d '");
            print_quoted(option->help, "\\'");
            printf("'\n");
        }
    }
    printf("complete -c leat -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n");
}

struct wish {
    const char *shell;
};

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct wish wish = {0};
    int exit_code;
    if (!cli_parse(command, argc, argv, &wish, &exit_code))
        return exit_code;
    if (!strcmp(wish.shell, "bash"))
        complete_bash();
    else if (!strcmp(wish.shell, "zsh"))
        complete_zsh();
    else if (!strcmp(wish.shell, "fish"))
        complete_fish();
    else
        return cli_usage_error(command, "there is completion for bash, zsh and fish, not for \"%s\".", wish.shell);
    return CLI_EXIT_OK;
}

const struct cli_command cli_completion = {
    .name = "completion",
    .usage = "SHELL",
    .summary = "a script that completes commands and options in bash, zsh or fish",
    .about = "Prints the script; its first line says where it belongs. leat --man prints the manual page, and\n"
             "leat --man COMMAND that of a command.\n",
    .arguments = {{"SHELL", offsetof(struct wish, shell)}},
    .more = "Examples:\n"
            "  leat completion bash > ~/.local/share/bash-completion/completions/leat\n"
            "  leat --man view | man -l -\n"
            "\nExit codes: 0 printed; 2 there is no such shell.\n",
    .run = run,
};
