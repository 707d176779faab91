/* The common part of the packing command and its report. */
#ifndef LEAT_CLI_PACK_H
#define LEAT_CLI_PACK_H

#include <stdbool.h>

#include "args.h"
#include "leat/leat.h"
#include "opening.h"

#define CLI_PACK_FIELDS 256

struct cli_pack {
    const struct cli_command *command;
    int argc;
    char **argv;
    struct cli_several sources;
    const char *src, *dst; /* src: the name of the sources in messages, and if there is one its path */
    char sources_name[1200];
    int src_length; /* without slashes at the end */
    struct leat_writer_options options;
    struct cli_opening opening;
    bool quiet;
    const char *tokenizer, *text, *tokens, *chat; /* for text: NULL, or the option's value */
    const char *handed_on;                        /* of further options, which Python reads as they were typed */
    int choice_handed_on;
    bool flag_handed_on;

    struct leat_dataset *dataset;
    struct leat_writer *writer;
    bool by_path;          /* the samples are files of the folder `src` */
    size_t path_field;     /* if by_path: their field in the data set, else SIZE_MAX */
    bool resumed;          /* an earlier run had written something */
    uint64_t count, begin; /* samples of the source; the first one that this run adds */
    uint64_t source_bytes; /* of the values of varying size */
    double seconds;        /* that this run took */

    struct leat_field fields[CLI_PACK_FIELDS]; /* the data to write */
    size_t indices[CLI_PACK_FIELDS];           /* the same fields in the data set */
    size_t n_fields;
    struct leat_value lengths;       /* of the files, if by_path: the column of u64 */
    struct leat_value labels_column; /* `label`, if it is int64; else data is NULL */
};

/* Writes DST.bad.jsonl if there are bad samples, and prints the report. Returns an exit code. */
int cli_pack_report(const struct cli_pack *pack);

#endif
