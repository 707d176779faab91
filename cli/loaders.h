/* The loaders of a running process, as leat top and leat doctor read them. */
#ifndef LEAT_CLI_LOADERS_H
#define LEAT_CLI_LOADERS_H

#include <jansson.h>

#include "args.h"

/* The number of a process; 0: the text is none. */
int cli_pid(const char *text);

/* Its loaders, a list as docs/cli.md says. NULL: *exit_code is how the command ends, after a message; or CLI_EXIT_OK
 * without one: the process, which `was_there`, has ended. */
json_t *cli_loaders(const struct cli_command *command, int pid, bool was_there, int *exit_code);

/* Whether it is the same loader; false: another one has its number. */
bool cli_loader_is(const json_t *before, const json_t *now);

/* Seconds from the opening of a loader to the last time that it has written its figures: a rate is that of what was
 * counted between two writings, not between two readings. */
double cli_loader_written(const json_t *loader);

/* The part of the time since `before`, or with NULL since it was opened, that the training has spent in the loader:
 * asleep, or making rows itself. */
double cli_loader_waits(const json_t *now, const json_t *before);

/* The words of a loader about the Ray cluster that makes its rows; NULL: none does. */
const json_t *cli_loader_ray(const json_t *loader);

#endif
