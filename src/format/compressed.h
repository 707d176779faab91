/*
 * The decoded bytes of a file that may be compressed, read from anywhere.
 *
 *     plain                          the file itself
 *     BGZF; zstd, many frames        blocks of some frames each, decoded when they are wanted
 *     zstd, a long frame; gzip       cannot be read from its middle: while it is read in order, a copy is made, in
 * short frames of zstd, which is kept beside the index (NAME.leat-frames.zst) or, where that may not be written, in an
 * unnamed temporary file of this process
 *
 * A format reads a file in order once, and makes its index as the bytes come; the index keeps the table of frames, with
 * which the next opening reads none of them.
 */
#ifndef LEAT_FORMAT_COMPRESSED_H
#define LEAT_FORMAT_COMPRESSED_H

#include "io/frames.h"

enum leat_compression {
    LEAT_COMPRESSION_NONE = 0,
    LEAT_COMPRESSION_GZIP,
    LEAT_COMPRESSION_BGZF,
    LEAT_COMPRESSION_ZSTD
};
/* By the first bytes. IO. */
int leat_compression_of(struct leat_io_file *file, enum leat_compression *out, struct leat_error *error);
/* The first decoded bytes of a file whose first bytes are `head`: a copy of these if it is plain. Returns how many; 0,
 * too, of zstd. */
size_t leat_compressed_head(const uint8_t *head, size_t n, uint8_t *out, size_t room);

struct leat_compressed {
    struct leat_io_file *file; /* the decoded bytes; released by leat_io_release */
    struct leat_frame *frames; /* n_frames + 1, freed by the caller; NULL: it is plain */
    size_t n_frames;
    uint64_t copy_bytes; /* above 0: the frames are those of a copy, which has so many bytes */
    bool lasting;        /* the next opening finds what was made */
};

/* The place of the copy beside an index ("NAME.leat-index"); "": there is none. */
void leat_compressed_copy_place(const char *index, char *out, size_t room);

/* Opens it without reading it in order, if that is possible (plain, BGZF); else out->file is NULL. IO, CORRUPT, NOMEM,
 * CANCELLED. */
int leat_compressed_find(struct leat_io_file *file, enum leat_compression compression, struct leat_compressed *out,
                         struct leat_error *error);
/* Gives all bytes to `sink` in order, whose result stops it unless it is LEAT_OK, and then opens it, by a copy at
 * `place` ("": there is no place for one) if need be. All checksums are compared. */
int leat_compressed_read(struct leat_io_file *file, enum leat_compression compression, const char *place,
                         int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                         struct leat_compressed *out, struct leat_error *error);
/* Gives all bytes to `sink` likewise, and does no more: for a format that reads them once. */
int leat_compressed_pass(struct leat_io_file *file, enum leat_compression compression,
                         int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                         struct leat_error *error);
/* Few compressed bytes may stand for any number of samples: what a format keeps of those of a compressed file is at
 * most 32 times the bytes of the file, and 128 MiB. Whether `bytes` are more. */
bool leat_compressed_swells(const struct leat_io_file *file, uint64_t bytes);
/* Opens it with the frames that an index kept. CORRUPT: its copy is not there. */
int leat_compressed_open(struct leat_io_file *file, enum leat_compression compression, const char *place,
                         const struct leat_frame *frames, size_t n_frames, uint64_t copy_bytes,
                         struct leat_io_file **out, struct leat_error *error);

#endif
