/*
 * A file of lines with its index: opened, decoded if it is compressed, the index read from where it is kept or made.
 */
#ifndef LEAT_FORMAT_TEXT_FILE_H
#define LEAT_FORMAT_TEXT_FILE_H

#include <stdatomic.h>

#include "format/source.h"
#include "format/text_index.h"
#include "format/text_scan.h"

struct leat_text_file {
    char *path;
    struct leat_io_file *file;    /* as it is stored */
    struct leat_io_file *decoded; /* its bytes, read from anywhere */
    struct leat_text_index index;
    bool skips; /* broken records are left out */
    /* Up to which byte line ends were counted last, and how many there are; `counting` while a thread does. */
    _Atomic bool counting;
    uint64_t counted, line_ends;
    uint64_t count; /* samples: records, without those that are left out */
    uint64_t first; /* sample in the source */
};

/* A source of such files, which begins with this. */
struct leat_text_source {
    struct leat_source source;
    char *path; /* of the first one */
    struct leat_text_file **files;
    size_t n_files;
    char notice[2048];
};

/* With LEAT_BAD_RAISE the first broken record is an error that names its line and byte. `careful`: a large index is
 * compared with all of its checksums, too, and made anew if one is wrong. */
int leat_text_file_open(const char *path, const struct leat_open_options *options, enum leat_text_mode mode,
                        bool careful, struct leat_text_file *out, struct leat_error *error);
void leat_text_file_close(struct leat_text_file *file);
/* Counts the samples, once it is known which records are broken. CORRUPT: with LEAT_BAD_RAISE the first is an error. */
int leat_text_file_judge(struct leat_text_file *file, const struct leat_open_options *options,
                         struct leat_error *error);
/* The record of a sample, and in *bad, if it is broken, what is wrong with it. */
uint64_t leat_text_file_record(const struct leat_text_file *file, uint64_t sample, const struct leat_text_bad **bad);
/* Fills the error about a broken record, of which the line may not be known (0); returns `code`. */
int leat_text_file_fail(const struct leat_text_file *file, const struct leat_text_bad *bad, int code,
                        struct leat_error *error);
/* Reads decoded bytes. CHANGED: the copy that they are read from is damaged, and is made again by the next opening. IO,
 * CORRUPT, NOMEM. */
int leat_text_file_bytes(const struct leat_text_file *file, uint64_t at, size_t n, uint8_t *to,
                         struct leat_error *error);
/* Reads a record's bytes to *buffer, which grows, and compares them with what was indexed; they begin at *offset of the
 * decoded ones. CHANGED: they differ, and the index is made again by the next opening. IO, CORRUPT, NOMEM. */
int leat_text_file_read(const struct leat_text_file *file, uint64_t record, uint8_t **buffer, size_t *room,
                        size_t *length, uint64_t *offset, struct leat_error *error);
/* Fills path, line and offset of a record's place; the line may have to be counted. IO, CHANGED, CORRUPT, NOMEM. */
int leat_text_file_place(struct leat_text_file *file, uint64_t record, struct leat_sample_place *out,
                         struct leat_error *error);
/* The i-th record that was left out; false: there are no more. */
bool leat_text_file_left_out(const struct leat_text_file *file, uint64_t i, struct leat_source_left_out *out);
/* Whether the file has changed since it was opened. */
int leat_text_file_refresh(const struct leat_text_file *file, struct leat_error *error);

/* False: no memory for so many files. The source has `path`, and all else of it is zero. */
bool leat_text_source_begin(struct leat_text_source *source, const char *path, size_t n);
/* Takes an opened file, which is the caller's, but that leat_text_source_end closes it. */
void leat_text_source_add(struct leat_text_source *source, struct leat_text_file *file);
/* Once it is known which records are broken: count, fingerprint and notice of the source. */
void leat_text_source_sum(struct leat_text_source *source);
void leat_text_source_end(struct leat_text_source *source);
/* The file of a sample. */
struct leat_text_file *leat_text_source_file(const struct leat_text_source *source, uint64_t sample);
/* As the functions of the vtable. */
int leat_text_source_refresh(struct leat_source *source, struct leat_error *error);
int leat_text_source_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
int leat_text_source_place(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                           struct leat_error *error);
bool leat_text_source_left_out(struct leat_source *source, uint64_t i, struct leat_source_left_out *out);

#endif
