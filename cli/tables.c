/*
 * Files of Parquet and Arrow are read by the Python package, with pyarrow. A command that is written in C and looks at
 * every sample in any case has it write them into a file of leat, which lasts as long as the command.
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

bool cli_are_tables(const struct cli_paths *paths)
{
    static const char *const ends[] = {".parquet", ".pq", ".arrow", ".feather", ".ipc"};
    size_t found = 0;
    for (size_t i = 0; i < paths->n; i++) {
        const size_t n = strlen(paths->at[i]);
        bool table = false;
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            table |= n > strlen(ends[k]) && !strcasecmp(paths->at[i] + n - strlen(ends[k]), ends[k]);
        found += table;
    }
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
    if (!child)
        _exit(cli_become_python(command, NULL, "src", &(struct cli_several){paths->at, paths->n}, "copy", to));
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
