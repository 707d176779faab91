/* The files that a command is about: paths.h. */
#include "paths.h"

#include <stdio.h>

#include "leat/leat.h"
#include "print.h"

bool cli_paths_init(struct cli_paths *paths, const struct cli_command *command, const struct cli_several *given)
{
    struct leat_error error;
    *paths = (struct cli_paths){0};
    if (!leat_paths_expand((const char *const *)given->at, given->n, &paths->at, &paths->n, &error))
        return true;
    cli_fail(command, &error, NULL);
    return false;
}

void cli_paths_destroy(struct cli_paths *paths)
{
    leat_free(paths->at);
    *paths = (struct cli_paths){0};
}

const char *cli_paths_name(const struct cli_several *given, char *out, size_t room)
{
    if (given->n == 1)
        return given->at[0];
    snprintf(out, room, "%s and %zu more", given->at[0], given->n - 1);
    return out;
}
