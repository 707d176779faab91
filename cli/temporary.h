/*
 * A folder for temporary files in $TMPDIR.
 */
#ifndef LEAT_CLI_TEMPORARY_H
#define LEAT_CLI_TEMPORARY_H

#include <stdbool.h>

#include "leat/leat.h"

enum { CLI_FOLDER = 4096 }; /* bytes of its path */

/* Makes `folder`, whose name begins with leat-`what`. After LEAT_E_IO there is none, and its path is "". */
int cli_temporary_make(const char *what, char folder[CLI_FOLDER], struct leat_error *error);

/* Words the error of writing a file in it: the writer's advice to resume does not fit. True: it is one. */
bool cli_temporary_failed(const char *folder, struct leat_error *error);

/* Removes the folder with its files, also those that a writer that was stopped has left. */
void cli_temporary_remove(const char *folder);

#endif
