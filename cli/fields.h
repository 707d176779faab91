/* Fields as they are named on a command line: NAME, or NAME=KIND. */
#ifndef LEAT_CLI_FIELDS_H
#define LEAT_CLI_FIELDS_H

#include "args.h"
#include "leat/leat.h"

/* Reads them: "photo", "photo=image", "x=float64", "vec=float32:3", "boxes=float32:*,4"; `*`: the first dimension
 * varies. *out is freed by cli_fields_free. False after a message. */
bool cli_fields_parse(const struct cli_command *command, const struct cli_each *given, struct leat_field **out);
void cli_fields_free(struct leat_field *fields, size_t n);

#endif
