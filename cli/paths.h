/* The files that a command is about: one or several, each a path or a pattern such as part-{000..009}.jsonl. */
#ifndef LEAT_CLI_PATHS_H
#define LEAT_CLI_PATHS_H

#include "args.h"

struct cli_paths {
    char **at; /* NULL before cli_paths_init, and if there are none */
    size_t n;
};

/* The paths that are meant, as of leat_paths_expand. False after a message. */
bool cli_paths_init(struct cli_paths *paths, const struct cli_command *command, const struct cli_several *given);
void cli_paths_destroy(struct cli_paths *paths);

/* Their name in messages: the first one, and the number of those that follow. */
const char *cli_paths_name(const struct cli_several *given, char *out, size_t room);

#endif
