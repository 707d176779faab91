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
    const char *of_python; /* a Python data set in the place of the sources, or NULL */
    unsigned workers;
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

/* The options of commands that write what they have opened, and change no sample. */
#define CLI_WRITING_OPTIONS                                                                                            \
    {"num-threads",                                                                                                    \
     "N",                                                                                                              \
     "threads that read and check; default: as many as this process may use",                                          \
     CLI_UNSIGNED,                                                                                                     \
     .at = offsetof(struct cli_pack, options.num_threads),                                                             \
     1,                                                                                                                \
     4096},                                                                                                            \
        {"shard-bytes", "SIZE",                                                                                        \
         "begin a new file when one has this many bytes (K, M, G: 1024s); DST is then a\n"                             \
         "manifest that opens as one data set; default: one file",                                                     \
         CLI_BYTES, .at = offsetof(struct cli_pack, options.shard_bytes)},                                             \
        {"overwrite", NULL,                                                                                            \
         "replace DST if it exists; the old one stays until the new one is complete. Start\n"                          \
         "again if an interrupted run has left a DST.partial",                                                         \
         CLI_SET, .at = offsetof(struct cli_pack, options.overwrite)},                                                 \
        {"resume", NULL, "continue an interrupted run from its DST.partial", CLI_SET,                                  \
         .at = offsetof(struct cli_pack, options.resume)},                                                             \
        {"no-check", NULL,                                                                                             \
         "do not decode each photo to find broken ones: faster, but training meets them\n"                             \
         "(--photos fast and raw find them anyway)",                                                                   \
         CLI_CLEAR, .at = offsetof(struct cli_pack, options.check)},                                                   \
        {"lenient", NULL,                                                                                              \
         "photos that can be decoded with warnings (extraneous bytes, a premature end) are not\n"                      \
         "broken; they are counted by kind, and decoded with Decode(strict=False)",                                    \
         CLI_SET, .at = offsetof(struct cli_pack, options.lenient)},                                                   \
        CLI_WHERE_OPTION(struct cli_pack, opening), CLI_OPENING_OPTIONS(struct cli_pack, opening),                     \
        CLI_FIELD_OPTION(struct cli_pack, opening), CLI_TABLE_OPTIONS(struct cli_pack, opening),                       \
        {"metadata", "JSON", "an object to keep in the file, such as '{\"licence\": \"CC0\"}'", CLI_TEXT,              \
         .at = offsetof(struct cli_pack, options.metadata)},                                                           \
        {"photos",                                                                                                     \
         "FORM",                                                                                                       \
         "how photos are stored: original (byte for byte), fast (JPEGs in a form that\n"                               \
         "decodes several times faster to the same pixels and gives the original file back)\n"                         \
         "or raw (as pixels); default: original. leat bench --photos SRC compares them",                               \
         CLI_CHOICE,                                                                                                   \
         .at = offsetof(struct cli_pack, options.photos),                                                              \
         .choices = "original, fast or raw"},                                                                          \
    {                                                                                                                  \
        "quiet", NULL, "no progress and no report; errors and DST.bad.jsonl remain", CLI_SET,                          \
            .at = offsetof(struct cli_pack, quiet)                                                                     \
    }

/* Packs as the command says, whose options are these or more. Returns an exit code. */
int cli_pack_run(const struct cli_command *command, int argc, char **argv);
/* Writes DST.bad.jsonl if there are bad samples, and prints the report. Returns an exit code. */
int cli_pack_report(const struct cli_pack *pack);

#endif
