/* The way a command opens its data set: options that all commands share. */
#ifndef LEAT_CLI_OPENING_H
#define LEAT_CLI_OPENING_H

#include "args.h"
#include "leat/leat.h"
#include "paths.h"

enum cli_tables {
    CLI_TABLES_NONE = 0, /* the command does not take them */
    CLI_TABLES_ALL,      /* a copy of all samples */
    CLI_TABLES_PART,     /* of those that its --id or --where asks for, which begin with 0 */
    CLI_TABLES_ABOUT     /* of none; the metadata say what is known of the files */
};

struct cli_opening {
    enum leat_labels labels;
    const char *coco, *yolo, *voc, *masks; /* the annotations: at most one, the others are NULL */
    const char *classes;                   /* a file with a name a line, or NULL */
    const char *where;                     /* only the samples for which this SQL expression is true, or NULL */
    struct cli_each fields;                /* those to take: NAME, or NAME=KIND */
    unsigned on_bad;                       /* of entries and records that are wrong: 0 as it is, 1 skip, 2 raise */
    bool events, sort;                     /* lines are events; those out of order are sorted */
    uint64_t block;                        /* of tokens of LitData: so many are a sample, or 0 */
    const char *features;                  /* of events: a file of NumPy, or NULL */
    bool quiet;                            /* no progress */
    bool check_sizes;                      /* those of all photos */
    enum cli_tables tables;                /* what the command wants of files that Python reads: tables.h */
    struct cli_each fills;                 /* of those, NAME=VALUE for missing values */
    const char *split;                     /* of a folder of Hugging Face, or NULL */
    const void *parsed;                    /* for them: the structure of the command; NULL: its options are its own */
    bool by_python;                        /* they were such files */
};

/* Their entries in the table of a command, in whose structure `member` is a struct cli_opening. */
#define CLI_OPENING_OPTIONS(type, member)                                                                              \
    {"labels",                                                                                                         \
     "WHAT",                                                                                                           \
     "of a folder: auto (by sub-folder, where there are any), folders (by sub-folder, else\n"                          \
     "an error) or none; default: auto",                                                                               \
     CLI_CHOICE,                                                                                                       \
     .at = offsetof(type, member.labels),                                                                              \
     .choices = "auto, folders or none"},                                                                              \
        {"coco", "FILE",                                                                                               \
         "the folder holds the photos of this file of COCO annotations, such as\n"                                     \
         "instances_train2017.json",                                                                                   \
         CLI_TEXT, .at = offsetof(type, member.coco)},                                                                 \
        {"yolo", "FOLDER",                                                                                             \
         "the folder holds the photos of these text files of YOLO: one per photo, a line per\n"                        \
         "box or polygon",                                                                                             \
         CLI_TEXT, .at = offsetof(type, member.yolo)},                                                                 \
        {"voc", "FOLDER", "the folder holds the photos of these XML files of Pascal VOC: one per photo", CLI_TEXT,     \
         .at = offsetof(type, member.voc)},                                                                            \
        {"masks", "FOLDER",                                                                                            \
         "the folder holds the photos of these PNGs of class ids: one per photo, of its name; or\n"                    \
         "a panoptic file of COCO, of whose segments they are made",                                                   \
         CLI_TEXT, .at = offsetof(type, member.masks)},                                                                \
        {"classes", "FILE",                                                                                            \
         "names of the classes of --yolo, --voc or --masks by their numbers, one a line; an\n"                         \
         "object of another class is wrong",                                                                           \
         CLI_TEXT, .at = offsetof(type, member.classes)},                                                              \
        {"events", NULL, "the file has a line \"src dst time\" for each event; JODIE's and TGN's need no option",      \
         CLI_SET, .at = offsetof(type, member.events)},                                                                \
        {"sort", NULL, "sort events that are out of order by time", CLI_SET, .at = offsetof(type, member.sort)},       \
        {"features", "NPY", "the features of events: an array of NumPy with a row for each", CLI_TEXT,                 \
         .at = offsetof(type, member.features)},                                                                       \
        {"block",                                                                                                      \
         "N",                                                                                                          \
         "of tokens of LitData: so many are a sample",                                                                 \
         CLI_U64,                                                                                                      \
         .min = 1,                                                                                                     \
         .max = INT64_MAX,                                                                                             \
         .at = offsetof(type, member.block)},                                                                          \
    {                                                                                                                  \
        "on-bad", "WHAT",                                                                                              \
            "of what is wrong in the annotations, photos that are missing, and broken records of\n"                    \
            "text: auto, skip (leave the entry out and count it) or raise (stop); default: auto,\n"                    \
            "which is skip for annotations and raise for records",                                                     \
            CLI_CHOICE, .at = offsetof(type, member.on_bad), .choices = "auto, skip or raise"                          \
    }

/* For commands that take fields. */
#define CLI_FIELD_OPTION(type, member)                                                                                 \
    {                                                                                                                  \
        "field", "NAME[=KIND]",                                                                                        \
            "take this field, and no other but those that are given, too; with what it is:\n"                          \
            "photo=image, vec=float32:3, ids=int64:*, x=bytes",                                                        \
            CLI_EACH, .at = offsetof(type, member.fields)                                                              \
    }

/* For commands that take tables. */
#define CLI_TABLE_OPTIONS(type, member)                                                                                \
    {"fill", "NAME=VALUE",                                                                                             \
     "of Parquet and Arrow: what stands for missing values of this column, such as\n"                                  \
     "year=-1, title= or tags=[]; any number of times",                                                                \
     CLI_EACH, .at = offsetof(type, member.fills)},                                                                    \
    {                                                                                                                  \
        "split", "NAME", "of a folder of Hugging Face with several splits, the one to open, such as train", CLI_TEXT,  \
            .at = offsetof(type, member.split)                                                                         \
    }

/* For commands that can work on a part of the samples. */
#define CLI_WHERE_OPTION(type, member)                                                                                 \
    {                                                                                                                  \
        "where", "CLAUSE",                                                                                             \
            "only the samples for which this SQL expression over the fields is true, such as\n"                        \
            "\"language = 'en' AND length > 200\"",                                                                    \
            CLI_TEXT, .at = offsetof(type, member.where)                                                               \
    }

/* Opens files, or the expansions of their patterns, as one data set. After a message it returns NULL. */
struct leat_dataset *cli_open_all(const struct cli_command *command, const struct cli_several *given,
                                  struct cli_opening *opening, int *exit_code);
/* The same of one path or pattern. */
struct leat_dataset *cli_open_as(const struct cli_command *command, const char *path, struct cli_opening *opening,
                                 int *exit_code);

#endif
