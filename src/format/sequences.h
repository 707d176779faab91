/*
 * FASTA and FASTQ as sources: both are this, with another mark and another text.
 *
 *     name, description    extents of first lines
 *     sequence, quality    uint8, ragged: extents of a file of residues (residues.h)
 */
#ifndef LEAT_FORMAT_SEQUENCES_H
#define LEAT_FORMAT_SEQUENCES_H

#include "format/sequence_index.h"
#include "format/source.h"

/* Whether a file begins as one of this kind, plain or with gzip, or is named as one. */
bool leat_sequences_recognise(enum leat_sequence_kind kind, const char *path, bool folder, const uint8_t *head,
                              size_t n);
int leat_sequences_open(const struct leat_source_vtable *v, enum leat_sequence_kind kind, const char *path,
                        const struct leat_open_options *options, struct leat_source **out, struct leat_error *error);

/* As the functions of the vtable. */
void leat_sequences_close(struct leat_source *source);
int leat_sequences_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                           struct leat_extent *extents, size_t *failed, struct leat_error *error);
bool leat_sequences_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent);
int leat_sequences_file(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error);
void leat_sequences_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified,
                         enum leat_health health);
int leat_sequences_refresh(struct leat_source *source, struct leat_error *error);
int leat_sequences_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
#define LEAT_SEQUENCES_FUNCTIONS                                                                                       \
    .close = leat_sequences_close, .extents = leat_sequences_extents, .file = leat_sequences_file,                     \
    .expect = leat_sequences_expect, .mark = leat_sequences_mark, .refresh = leat_sequences_refresh,                   \
    .about = leat_sequences_about

#endif
