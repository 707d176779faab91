/* Records that were left out on the way to a file, as its metadata say it. */
#ifndef LEAT_CLI_LEFT_OUT_H
#define LEAT_CLI_LEFT_OUT_H

#include <jansson.h>

#include "args.h"
#include "leat/leat.h"

/* The entries of a data set's metadata; NULL: none. Released by the caller. */
json_t *cli_left_out(const struct leat_dataset *dataset);
/* Metadata, a JSON object, with the records that opening the data set has left out; freed with free. NULL: it was
 * nothing, or the metadata cannot have it, after a message. */
char *cli_metadata_left_out(const struct cli_command *command, const struct leat_dataset *dataset,
                            const char *metadata);
/* A line with the counts, and some with the first records. NULL: nothing is printed. */
void cli_print_left_out(const json_t *left_out);

#endif
