/* The common part of the files of the format tfrecord: tfrecord.c (the source), tfrecord_fields.c (its fields),
 * tfrecord_values.c (values that are computed). */
#ifndef LEAT_FORMAT_TFRECORD_H
#define LEAT_FORMAT_TFRECORD_H

#include "format/photo_files.h"
#include "format/source.h"
#include "format/tfrecord_index.h"
#include "format/their_file.h"

#define LEAT_TFRECORD_FIELDS (2 * LEAT_TFRECORD_COLUMNS)
#define LEAT_TFRECORD_NOT_THERE UINT16_MAX

struct leat_tfrecord_file {
    struct leat_their_file file;
    struct leat_places places;
    uint16_t *columns; /* of its columns: numbers among all files' */
    uint16_t *own;     /* of those: its own, or NOT_THERE */
};

struct leat_tfrecord_origin {
    size_t column;                  /* among all files' */
    bool valid;                     /* NAME.valid */
    bool lacks;                     /* some records have no such feature */
    struct leat_photo_files photos; /* of images: what is known of each */
    _Atomic uint64_t *verified;     /* of extents: a bit for each sample */
};

struct leat_tfrecord {
    struct leat_source source;
    struct leat_tfrecord_file *files;
    struct leat_their_files all; /* the same */
    size_t n_files, n_columns;
    struct leat_tfrecord_column columns[LEAT_TFRECORD_COLUMNS]; /* of all files together */
    char *texts[LEAT_TFRECORD_COLUMNS];
    struct leat_field fields[LEAT_TFRECORD_FIELDS];
    struct leat_tfrecord_origin origins[LEAT_TFRECORD_FIELDS];
    uint8_t storage[LEAT_TFRECORD_FIELDS];
    char *owned[LEAT_TFRECORD_FIELDS]; /* names of fields */
    struct leat_io_file *null;         /* the JSON that a sample has which lacks one */
    enum leat_recheck recheck;
};

/* Makes columns, fields and storage of what the files have. INVALID, UNSUPPORTED, FORMAT, NOMEM. */
int leat_tfrecord_make_fields(struct leat_tfrecord *t, const struct leat_open_options *options,
                              struct leat_error *error);
/* The kind that most of a column's values have. */
unsigned leat_tfrecord_most(const struct leat_tfrecord_column *column);

/* The file of a sample. */
struct leat_tfrecord_file *leat_tfrecord_file_of(const struct leat_tfrecord *t, uint64_t sample);
/* The place of a sample's value; *number: in its file's places, UINT64_MAX if it has none. IO. */
int leat_tfrecord_find(const struct leat_tfrecord *t, size_t field, uint64_t sample, uint64_t *number,
                       struct leat_place *out, struct leat_error *error);
/* Why a place is none of its field, but for the shape; NULL: it is. */
const char *leat_tfrecord_fault(const struct leat_tfrecord *t, size_t field, const struct leat_place *at);
/* Fills the error about a sample's value. Returns `code`. */
int leat_tfrecord_fail(const struct leat_tfrecord *t, size_t field, uint64_t sample, const struct leat_place *at,
                       int code, const char *what, struct leat_error *error);
/* The number of a sample where it stands. DECODE: it is none; IO. */
int leat_tfrecord_number(const struct leat_tfrecord *t, size_t field, uint64_t sample, const void **row,
                         struct leat_error *error);

int leat_tfrecord_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                          size_t n, struct leat_values *out, size_t *failed, struct leat_error *error);
/* Adds all samples to the fingerprint. */
int leat_tfrecord_sum(struct leat_tfrecord *t, const struct leat_open_options *options, struct leat_error *error);

#endif
