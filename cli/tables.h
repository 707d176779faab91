/* Files that Python reads, of tables and of cells, for commands that look at all samples. */
#ifndef LEAT_CLI_TABLES_H
#define LEAT_CLI_TABLES_H

#include "leat/leat.h"
#include "opening.h"
#include "paths.h"

/* Whether a file is leat's own, or a manifest of such, whatever its name says. As leat/data/paths.py. */
bool cli_is_own(const char *path);
/* Whether a file is a manifest of leat's shards. */
bool cli_is_manifest(const char *path);
/* The first of them that is a table (Parquet, Arrow, a folder of Hugging Face, Lance, ArrayRecord) or a file of single
 * cells, by its name or by what a folder holds. NULL: none is, or it is not there. */
const char *cli_read_by_python(const struct cli_paths *paths);
/* Opens what `o->tables` says of their samples, as a file of leat in $TMPDIR that has no name any more. Samples with
 * missing values are left out of a copy of all, with a message. NULL after a message. */
struct leat_dataset *cli_open_tables(const struct cli_command *command, const struct cli_paths *paths,
                                     const struct cli_opening *o, int *exit_code);
/* Runs `leat verify` of one of them in Python, which reads all of its values and prints each fault. Returns its exit
 * code. */
int cli_verify_table(const struct cli_command *command, const char *path, bool quiet);

#endif
