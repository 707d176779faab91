/*
 * Files of Parquet and Arrow are read by the Python package, with pyarrow; those of single cells, with h5py and zarr. A
 * command that is written in C and looks at every sample in any case has it write them into a file of leat, which lasts
 * as long as the command.
 */
#include "tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "print.h"
#include "python.h"

static bool ends_so(const char *path, const char *const *ends)
{
    const size_t n = strlen(path);
    for (; *ends; ends++)
        if (n > strlen(*ends) && !strcasecmp(path + n - strlen(*ends), *ends))
            return true;
    return false;
}

/* Whether a path is a folder with a file of one of these names. */
static bool holds(const char *path, const char *const *names)
{
    char inner[4096];
    for (; *names; names++)
        if ((size_t)snprintf(inner, sizeof inner, "%s/%s", path, *names) < sizeof inner && !access(inner, F_OK))
            return true;
    return false;
}

bool cli_are_tables(const struct cli_paths *paths)
{
    static const char *const ends[] = {".parquet", ".pq",           ".arrow",       ".feather", ".ipc",
                                       ".lance",   ".array_record", ".arrayrecord", NULL},
                             *const held[] = {"state.json", "dataset_dict.json", NULL};
    size_t found = 0;
    for (size_t i = 0; i < paths->n; i++)
        found += ends_so(paths->at[i], ends) || holds(paths->at[i], held);
    return found == paths->n;
}

bool cli_are_cells(const struct cli_paths *paths)
{
    static const char *const ends[] = {".h5ad", ".h5", ".hdf5", ".zarr", ".zarr.zip", ".zarr/", NULL},
                             *const held[] = {"matrix.mtx", "matrix.mtx.gz", "header.sch", NULL};
    size_t found = 0;
    for (size_t i = 0; i < paths->n; i++)
        found += ends_so(paths->at[i], ends) || holds(paths->at[i], held);
    return found == paths->n;
}

/* Python writes the samples to `to`. Returns its exit code. */
static int copy(const struct cli_command *command, const struct cli_paths *paths, const char *to)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) {
        cli_say(command, "Python could not be started: %s.", strerror(errno));
        return CLI_EXIT_FAILED;
    }
    struct cli_command copying = *command;
    copying.name = "stats"; /* the part of it that Python does, whatever command wants the copy */
    if (!child)
        _exit(cli_become_python(&copying, NULL, "src", &(struct cli_several){paths->at, paths->n}, "copy", to));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_EXIT_INTERRUPTED;
}

struct leat_dataset *cli_open_tables(const struct cli_command *command, const struct cli_paths *paths, int *exit_code)
{
    const char *base = getenv("TMPDIR");
    char folder[4096], path[4200], partial[4300];
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_dataset *dataset = NULL;
    struct leat_error error;
    *exit_code = CLI_EXIT_FAILED;
    snprintf(folder, sizeof folder, "%s/leat-table-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        cli_say(command, "no folder for temporary files can be made: %s.", strerror(errno));
        return NULL;
    }
    snprintf(path, sizeof path, "%s/table.leat", folder);
    snprintf(partial, sizeof partial, "%s.partial", path);
    *exit_code = copy(command, paths, path);
    if (!*exit_code && leat_dataset_open(path, &options, &dataset, &error))
        *exit_code = cli_fail(command, &error, NULL);
    unlink(path);
    unlink(partial);
    rmdir(folder);
    return dataset;
}
