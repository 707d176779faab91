/*
 * Files of Parquet and Arrow are read by the Python package, with pyarrow; those of single cells, with h5py and zarr. A
 * command that is written in C and looks at every sample in any case has it write them into a file of leat, which lasts
 * as long as the command.
 */
#include "tables.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "print.h"
#include "python.h"
#include "temporary.h"

enum { PATH = 4096 };

static bool ends_so(const char *path, const char *const *ends)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    for (; *ends; ends++)
        if (n > strlen(*ends) && !strncasecmp(path + n - strlen(*ends), *ends, strlen(*ends)))
            return true;
    return false;
}

static bool is_in(const char *folder, const char *name, char inner[PATH])
{
    return snprintf(inner, PATH, "%s/%s", folder, name) < PATH && !access(inner, F_OK);
}

/* Whether a path is a folder with a file of one of these names. */
static bool holds(const char *path, const char *const *names)
{
    char inner[PATH];
    for (; *names; names++)
        if (is_in(path, *names, inner))
            return true;
    return false;
}

/* Whether a file in a folder has this word among its first bytes. */
static bool says(const char *folder, const char *name, const char *word)
{
    enum { LOOKED = 4 << 20 }; /* as leat/data/hugging_face.py */
    char inner[PATH], *text = malloc(LOOKED + 1);
    FILE *file = text && is_in(folder, name, inner) ? fopen(inner, "r") : NULL;
    if (text)
        text[file ? fread(text, 1, LOOKED, file) : 0] = 0;
    if (file)
        fclose(file);
    const bool found = text && strstr(text, word);
    free(text);
    return found;
}

/* Whether a folder, whatever characters its name has, holds files that fit a pattern. */
static bool fits(const char *folder, const char *pattern)
{
    char text[2 * PATH];
    size_t n = 0;
    glob_t found = {0};
    for (; *folder && n + 2 < PATH; text[n++] = *folder++)
        if (strchr("*?[]{}\\", *folder))
            text[n++] = '\\';
    const bool good = !*folder && snprintf(text + n, sizeof text - n, "/%s", pattern) < PATH &&
                      !glob(text, GLOB_NOSORT | GLOB_BRACE, NULL, &found);
    globfree(&found);
    return good;
}

/* Whether a folder is one of Hugging Face: saved by its datasets (others have a state.json, too), or of the Hub. Photos
 * whose card names them are a folder of photos; beside tables there may be a picture of the card. */
static bool is_of_hugging_face(const char *path)
{
    static const char *const marks[] = {"README.md", ".gitattributes", NULL};
    char inner[PATH];
    if (is_in(path, "dataset_dict.json", inner) || says(path, "state.json", "\"_data_files\""))
        return true;
    if (says(path, "README.md", "\nconfigs:") && says(path, "README.md", "data_files"))
        return fits(path, "{,*/,*/*/}*.{parquet,arrow}") || !fits(path, "{,*/,*/*/}*.[JPjp][NPnp]*[Gg]");
    return holds(path, marks) && fits(path, "{,data/}*-of-[0-9]*.parquet");
}

static const char manifest[] = "{\"format\": \"leat-manifest\"";

static void read_head(const char *path, char head[sizeof manifest])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    memset(head, 0, sizeof manifest);
    if (fd >= 0 && read(fd, head, sizeof manifest - 1) < 0)
        *head = 0;
    if (fd >= 0)
        close(fd);
}

bool cli_is_manifest(const char *path)
{
    char head[sizeof manifest];
    read_head(path, head);
    return !strcmp(head, manifest);
}

bool cli_is_own(const char *path)
{
    static const char own[] = "\x89LEAT\r\n\x1a";
    char head[sizeof manifest];
    read_head(path, head);
    return !strncmp(head, own, sizeof own - 1) || !strcmp(head, manifest);
}

const char *cli_read_by_python(const struct cli_paths *paths)
{
    static const char *const tables[] = {".parquet", ".pq",           ".arrow",       ".feather", ".ipc",
                                         ".lance",   ".array_record", ".arrayrecord", NULL},
                             *const cells[] = {".h5ad", ".h5", ".hdf5", ".zarr", ".zarr.zip", NULL},
                             *const of_cells[] = {"matrix.mtx", "matrix.mtx.gz", "header.sch", NULL};
    for (size_t i = 0; i < paths->n; i++)
        if (((ends_so(paths->at[i], tables) || ends_so(paths->at[i], cells)) && !cli_is_own(paths->at[i])) ||
            holds(paths->at[i], of_cells) || is_of_hugging_face(paths->at[i]))
            return access(paths->at[i], F_OK) ? NULL : paths->at[i];
    return NULL;
}

/* A process that is told to end ends Python first, and removes what that has written; then it ends by that signal. */
static volatile sig_atomic_t ending;
static volatile pid_t python;

static void end_python(int number)
{
    ending = number;
    if (python > 0)
        kill(python, SIGTERM);
}

static const int endings[] = {SIGTERM, SIGHUP, SIGINT};
enum { ENDINGS = sizeof endings / sizeof *endings };

static void end_as_told(void)
{
    if (ending)
        raise(ending);
}

/* Python runs as `command`, whose options it gets if `parsed` is not NULL. Returns its exit code. */
static int run_python(const struct cli_command *command, const void *parsed, const struct cli_paths *paths,
                      const char *more, const char *value)
{
    const struct sigaction catch = {.sa_handler = end_python};
    struct sigaction before[ENDINGS];
    int status = 0;
    fflush(NULL);
    python = 0;
    for (size_t i = 0; i < ENDINGS; i++)
        if (!sigaction(endings[i], NULL, &before[i]) && before[i].sa_handler != SIG_IGN) /* as nohup wants it */
            sigaction(endings[i], &catch, NULL);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
        cli_say(command, "Python could not be started: %s.", strerror(errno));
        return CLI_EXIT_FAILED;
    }
    struct cli_command as = *command;
    if (!parsed)
        as.n_options = 0;
    if (!child) {
        for (size_t i = 0; i < ENDINGS; i++)
            sigaction(endings[i], &before[i], NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* the parent may be killed */
        if (getppid() != parent || ending)
            _exit(CLI_EXIT_FAILED);
        _exit(cli_become_python(&as, parsed, "src", &(struct cli_several){paths->at, paths->n}, more, value));
    }
    python = child;
    if (ending)
        kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    python = 0;
    for (size_t i = 0; i < ENDINGS; i++)
        sigaction(endings[i], &before[i], NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_EXIT_INTERRUPTED;
}

int cli_verify_table(const struct cli_command *command, const char *path, bool quiet)
{
    char *one = (char *)(uintptr_t)path;
    const int code = run_python(command, NULL, &(struct cli_paths){.at = &one, .n = 1}, quiet ? "quiet" : NULL, "");
    end_as_told();
    return code;
}

struct leat_dataset *cli_open_tables(const struct cli_command *command, const struct cli_paths *paths,
                                     const struct cli_opening *o, int *exit_code)
{
    static const char *const wishes[] = {NULL, "copy", "part", "about"};
    char folder[CLI_FOLDER], path[CLI_FOLDER + 16];
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *dataset = NULL;
    struct leat_error error;
    if (cli_temporary_make("table", folder, &error)) {
        *exit_code = cli_fail(command, &error, NULL);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/table.leat", folder);
    *exit_code = run_python(command, o->parsed, paths, wishes[o->tables], path);
    if (!*exit_code && leat_dataset_open(path, &options, &dataset, &error))
        *exit_code = cli_fail(command, &error, NULL);
    cli_temporary_remove(folder);
    end_as_told();
    return dataset;
}
