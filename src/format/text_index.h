/*
 * The facts of a file of lines of text once it was read to its end: where each record lies, which are broken, and
 * for JSONL the properties of the records, with columns of those that are numbers, booleans or words. It is made by
 * text_scan.h, and kept in a file beside the source or in `index_dir` (text_index_file.c; the layout is in
 * docs/format.md). It depends on nothing but the bytes of the source.
 *
 * All pointers lead into memory of the index, or into the mapped file that it was read from.
 */
#ifndef LEAT_FORMAT_TEXT_INDEX_H
#define LEAT_FORMAT_TEXT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/json_record.h"
#include "io/frames.h"

/* A record: a line without the white space around it. */
struct leat_text_line {
    uint64_t offset; /* among the decoded bytes */
    uint32_t length;
    uint32_t check; /* the lower half of leat_hash64 of its bytes */
};

/* A record that is broken. */
struct leat_text_bad {
    uint64_t record, line; /* numbers, of the line from 1 */
    uint64_t at;           /* the byte, among the decoded ones, where it is */
    uint64_t fault;        /* enum leat_json_fault */
};

enum leat_text_column { LEAT_COLUMN_NONE = 0, LEAT_COLUMN_NUMBERS, LEAT_COLUMN_BOOLS, LEAT_COLUMN_WORDS };

/* A longer text is no word; with more words, a property has no column. */
#define LEAT_WORD_BYTES 256
#define LEAT_WORDS 65536

/* Belongs to a node of the tree. */
struct leat_text_property {
    uint64_t types;                    /* 1 << enum leat_record_type, of good records */
    uint64_t present;                  /* good records in which it has a value that is not null */
    uint64_t lines[LEAT_RECORD_TYPES]; /* from 1: where each type stands first; 0: nowhere */
    uint64_t integers;                 /* what some are, alone or in a list: LEAT_INTEGERS_BELOW and so on */
    uint64_t nan;                      /* from 1: the first line in which it is NaN or Infinity, or has one in a list */
    uint64_t column;                   /* enum leat_text_column */
    const void *values;                /* a value of each record: NUMBERS 8 bytes (int64_t, uint64_t if `types` has
                                        * UINT, double if it has FLOAT), BOOLS 1, WORDS a uint32_t; else 0 */
    const uint8_t *valid;              /* of each record 0 or 1; NULL: all are 1 */
    const uint64_t *starts;            /* n_words + 1, in `words` */
    const char *words;
    uint64_t n_words;
    uint64_t hash; /* of the column as it stands in a file; 0: it was made in this process */
};

struct leat_text_index {
    uint64_t count;   /* records, broken ones too */
    uint64_t n_lines; /* of the file */
    uint64_t bytes;   /* decoded */
    const struct leat_text_line *lines;
    const struct leat_text_bad *bad; /* by record */
    uint64_t n_bad;
    struct leat_property_tree tree;
    struct leat_text_property *properties; /* tree.n */
    uint64_t sums[2][2];                   /* for the fingerprint: of all records; of the good ones */
    const struct leat_frame *frames;       /* n_frames + 1; NULL: the file is not compressed */
    uint64_t n_frames;
    uint64_t copy_bytes; /* above 0: the frames are those of a copy, which has so many bytes */
    /* owned */
    void **owned;
    size_t n_owned, owned_room;
    struct leat_io_file *file; /* that is mapped */
    const char *path;          /* where it is kept; NULL: nowhere */
    uint64_t inode;            /* of that file */
    uint64_t lines_hash;       /* of `lines` as they stand there */
};

/* Compares the checksum of a property's column, of an index that was read from a file. CORRUPT, IO. */
int leat_text_index_check(const struct leat_text_index *index, const struct leat_text_property *property,
                          struct leat_error *error);

/* Memory that lives as long as the index; NULL: there is none. Zeroed. */
void *leat_text_index_room(struct leat_text_index *index, uint64_t count, size_t each);
void leat_text_index_destroy(struct leat_text_index *index);
/* How many broken records are before or at `record`; whether it is one of them: then *bad is it. */
uint64_t leat_text_index_bad(const struct leat_text_index *index, uint64_t record, const struct leat_text_bad **bad);

/* How an index file is read. */
struct leat_text_care {
    uint64_t small; /* one of more bytes is mapped */
    bool careful;   /* lines and columns of a mapped one are compared with their checksums, too */
    bool trusts;    /* neither checksums nor the source are compared: for fuzzers, which guess no checksum */
};
/* Reads the index of a source. False: there is none, or it is of another source, or of other contents, or damaged; then
 * it is made anew. `mode` tells kinds of indexes apart. */
bool leat_text_index_load(struct leat_text_index *index, const char *path, struct leat_io_file *source, uint64_t mode,
                          const struct leat_text_care *care);
/* Writes it beside its place and renames it. A failure is only logged: then the next one who opens makes it anew. */
bool leat_text_index_save(struct leat_text_index *index, const char *path, struct leat_io_file *source, uint64_t mode);

#endif
