/* The parts of the command line that the Python package does: whatever needs a tokenizer, and mixtures. */
#ifndef LEAT_CLI_PYTHON_H
#define LEAT_CLI_PYTHON_H

#include <stddef.h>

#include "args.h"

/* Becomes Python, which runs `leat.commands.main` with pairs of a name and a value: does not return, unless no Python
 * can be started. The message is printed, and the exit code returned. The pairs are all options that were given, as
 * typed (numbers of bytes in digits, "-" in a name as "_"; of one that was given several times "name", "name 1" and so
 * on); the paths, as `name`, "name 1", "name 2" and so on; and one more, if it has a name. */
int cli_become_python(const struct cli_command *command, const void *parsed, const char *name,
                      const struct cli_several *paths, const char *more, const char *value);

#endif
