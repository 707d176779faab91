/* The parts of the command line that the Python package does: whatever needs a tokenizer, and mixtures. */
#ifndef LEAT_CLI_PYTHON_H
#define LEAT_CLI_PYTHON_H

#include <stddef.h>

#include "args.h"

/* Becomes Python, which runs `leat.text.command` with pairs of a name and a value: does not return, unless no Python
 * can be started. The message is printed, and the exit code returned. A pair whose value is NULL is left out. */
int cli_become_python(const struct cli_command *command, const char *const (*pairs)[2], size_t n);

/* The same with several values of one pair more, which come as `name`, "name 1", "name 2" and so on. */
int cli_become_python_with(const struct cli_command *command, const char *name, const struct cli_several *values,
                           const char *const (*pairs)[2], size_t n);

#endif
