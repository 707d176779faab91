/* The common part of the files of the format tar: tar.c (the source), tar_fields.c (its fields), tar_values.c (values
 * that are computed). */
#ifndef LEAT_FORMAT_TAR_H
#define LEAT_FORMAT_TAR_H

#include "format/photo_files.h"
#include "format/source.h"
#include "format/tar_index.h"
#include "format/their_file.h"

struct leat_tar_file {
    struct leat_their_file file;
    struct leat_tar_index index;
    struct leat_io_file *keys; /* of the index */
    uint16_t *fields;          /* of its endings: numbers among all files' */
    uint16_t *endings;         /* of those: its own, or NOT_THERE */
};
#define LEAT_TAR_NOT_THERE UINT16_MAX

enum leat_tar_use { LEAT_TAR_VALUE, LEAT_TAR_VALID, LEAT_TAR_NAME };

/* A field of the source. */
struct leat_tar_field {
    enum leat_tar_use use;
    uint16_t ending;                /* among all files' */
    bool lacks;                     /* some samples have no such file */
    struct leat_photo_files photos; /* of images: what is known of each */
};

struct leat_tar {
    struct leat_source source;
    struct leat_tar_file *files;
    struct leat_their_files all; /* the same */
    size_t n_files, n_endings, n_owned;
    char *endings[LEAT_TAR_ENDINGS];
    struct leat_field fields[2 * LEAT_TAR_ENDINGS + 1];
    struct leat_tar_field origins[2 * LEAT_TAR_ENDINGS + 1];
    uint8_t storage[2 * LEAT_TAR_ENDINGS + 1];
    char *owned[2 * LEAT_TAR_ENDINGS + 1]; /* names of fields */
    struct leat_io_file *null;             /* the JSON that a sample has which lacks one */
    struct leat_notes notes;
};

/* Makes fields and storage of what the files have. INVALID, NOMEM. */
int leat_tar_make_fields(struct leat_tar *tar, const struct leat_open_options *options, struct leat_error *error);

/* The file of a sample. */
struct leat_tar_file *leat_tar_file_of(const struct leat_tar *tar, uint64_t sample);
/* The member of a sample (of the source) for a field that is a value. */
int leat_tar_find(const struct leat_tar *tar, size_t field, uint64_t sample, bool *found, struct leat_tar_member *out,
                  struct leat_error *error);
/* Fills the error about a sample's file. Returns `code`. */
int leat_tar_fail(const struct leat_tar *tar, size_t field, uint64_t sample, const struct leat_tar_member *member,
                  int code, const char *what, struct leat_error *error);
int leat_tar_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                     size_t n, struct leat_values *out, size_t *failed, struct leat_error *error);
/* Adds all samples to the fingerprint. */
int leat_tar_sum(struct leat_tar *tar, const struct leat_open_options *options, struct leat_error *error);

#endif
