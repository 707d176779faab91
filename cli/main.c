/*
 * The command line of leat: finds the command and runs it. Everything is done through include/leat/leat.h, so that
 * whatever the command can do, a program in C can do too.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "leat/leat.h"

const struct cli_command *const cli_commands[] = {
    &cli_pack,   &cli_convert, &cli_info,   &cli_stats, &cli_view, &cli_verify, &cli_cat,  &cli_mix,       &cli_prompts,
    &cli_replay, &cli_bench,   &cli_doctor, &cli_trace, &cli_top,  &cli_serve,  &cli_port, &cli_completion};
#define N_COMMANDS (sizeof cli_commands / sizeof *cli_commands)
const size_t cli_n_commands = N_COMMANDS;

static void print_overview(void)
{
    printf("leat feeds training: it packs samples into a file and delivers batches of them.\n\n"
           "Usage: leat COMMAND [arguments] [options]\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-12s%s\n", cli_commands[i]->name, cli_commands[i]->summary);
    printf("\nOptions:\n"
           "  --help     this text; leat COMMAND --help explains one command\n"
           "  --version  the version\n"
           "  --man      the manual page; leat --man COMMAND: that of one command\n"
           "\nThe first steps:\n"
           "  leat pack photos/ photos.leat     a folder of photos becomes one file\n"
           "  leat info photos.leat             what is in it\n"
           "  leat view photos.leat --out a.png what it looks like\n"
           "  leat bench photos.leat            how fast this machine can be fed from it\n"
           "\nExit codes:\n"
           "  0    done\n"
           "  1    the data are at fault: verify found faults, a sample is broken or a checksum does not hold\n"
           "  2    it could not be done: a wrong option, a missing file, a full disk; the message says what to do\n"
           "  130  interrupted with Ctrl-C\n"
           "\nEnvironment:\n"
           "  LEAT_LOG       error, warning, info or debug: what the library does, on standard error\n"
           "  LEAT_LOG_FILE  a file that gets the log instead\n");
}

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, cli_commands[i]->name))
            return cli_commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    char shown[600];
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = cli_commands[i]->name;
    const char *near = leat_nearest(name, names, N_COMMANDS);
    static const char *const options[] = {"help", "version", "man"};
    const char *option =
        name[0] == '-' ? leat_nearest(name + strspn(name, "-"), options, sizeof options / sizeof *options) : NULL;
    if (option)
        fprintf(stderr, "leat: there is no option %s before the command; did you mean --%s?",
                leat_escape(name, shown, sizeof shown), option);
    else if (name[0] == '-')
        fprintf(stderr, "leat: there is no option %s before the command: options of a command stand behind it.",
                leat_escape(name, shown, sizeof shown));
    else
        fprintf(stderr, "leat: there is no command \"%s\"", leat_escape(name, shown, sizeof shown));
    if (near && name[0] != '-')
        fprintf(stderr, "; did you mean %s?", near);
    else if (name[0] != '-')
        fputc('.', stderr);
    fprintf(stderr, "\nHelp: leat --help\n");
    return CLI_EXIT_FAILED;
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

/* Ends with a failure if output could not be written: `leat info > /dev/full`. `command`: NULL for leat itself. */
static int leave(const struct cli_command *command, int code)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    const int why = errno; /* 0: an earlier write failed, and there was nothing left to flush */
    fprintf(stderr, "leat%s%s: standard output could not be written%s%s.\n", command ? " " : "",
            command ? command->name : "", why ? ": " : "", why ? strerror(why) : "");
    return code ? code : CLI_EXIT_FAILED;
}

/* Takes the numbers of standard streams that are closed: the next file to be opened would have one of them, and get
 * what is printed. Reading or writing them is an error as before. */
static void hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            break;
}

int main(int argc, char **argv)
{
    hold_streams();
    /* A limit on file size is to be an error of write, as a full disk is, not a signal that kills. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        fprintf(stderr, "leat: a command is missing: ");
        for (size_t i = 0; i < N_COMMANDS; i++)
            fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 == N_COMMANDS ? " or " : ", ", cli_commands[i]->name);
        fprintf(stderr, ".\nHelp: leat --help\n");
        return CLI_EXIT_FAILED;
    }
    const char *name = argv[1];
    const bool man = !strcmp(name, "--man");
    if (man || is_help(name)) {
        const struct cli_command *about = argc > 2 ? find(argv[2]) : NULL;
        if (argc > 2 && !about)
            return unknown(argv[2]);
        if (about)
            (man ? cli_print_man : cli_print_help)(about);
        else
            (man ? cli_print_man_of_all : print_overview)();
        return leave(NULL, CLI_EXIT_OK);
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        printf("leat %s\n", leat_version());
        return leave(NULL, CLI_EXIT_OK);
    }
    const struct cli_command *command = find(name);
    if (!command)
        return unknown(name);
    return leave(command, command->run(command, argc - 1, argv + 1));
}
