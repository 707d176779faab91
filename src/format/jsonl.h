/* The common part of the files of the format jsonl: jsonl.c (the source), jsonl_fields.c (its fields). */
#ifndef LEAT_FORMAT_JSONL_H
#define LEAT_FORMAT_JSONL_H

#include "format/source.h"
#include "format/text_file.h"

/* A field, and where it comes from. */
struct leat_jsonl_field {
    uint32_t node;              /* of the joined tree */
    bool is_valid;              /* says whether the property of that node has a value */
    bool whole;                 /* JSON as it stands */
    enum leat_record_type list; /* of a list: what its elements are read as */
};

/* The part of a field that a file has. */
struct leat_jsonl_column {
    uint32_t node;      /* of the file's tree; 0: no record has it */
    const void *values; /* MAPPED, or codes of words; NULL: the same for all, or it is read from the record */
    const uint64_t *starts;
    const char *words;
};

struct leat_jsonl_file {
    struct leat_text_file text;
    uint32_t *nodes;                   /* of the joined tree: that of the file's, 0: none */
    struct leat_jsonl_column *columns; /* of each field */
};

struct leat_jsonl {
    struct leat_text_source text;
    struct leat_jsonl_file *files; /* of those of `text` */
    struct leat_property_tree tree;
    struct leat_field *fields;
    struct leat_jsonl_field *origins;
    uint8_t *storage;
    size_t fields_room, origins_room, storage_room;
    char **names;
    size_t names_room;
    void **owned;
    size_t n_owned, owned_room;
};

/* Makes fields, storage and columns of what the files have. INVALID, NOMEM. */
int leat_jsonl_make_fields(struct leat_jsonl *j, const struct leat_open_options *options, struct leat_error *error);

/* Marks what stands around wanted nodes of a tree. */
void leat_jsonl_want_below(const struct leat_property_tree *tree, uint8_t *wanted);
/* Adds to the broken records of a file those with NaN or Infinity in a value that these fields keep as JSON, which it
 * is not: jsonl_nan.c. CORRUPT with LEAT_BAD_RAISE; IO, CHANGED, NOMEM. */
int leat_jsonl_judge(const struct leat_jsonl *j, struct leat_jsonl_file *file, const struct leat_open_options *options,
                     struct leat_error *error);

#endif
