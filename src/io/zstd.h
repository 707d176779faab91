/*
 * Files compressed with zstd. A frame can be decoded by itself, so a file of many frames (pzstd, the seekable format,
 * files that were joined) is read from anywhere. One of a single long frame cannot: it is read in order, and a reader
 * that wants more of it keeps a copy in short frames (leat_zstd_copy_*).
 */
#ifndef LEAT_IO_ZSTD_H
#define LEAT_IO_ZSTD_H

#include "io/frames.h"

/* Decoded bytes of a frame of a copy; and of the longest frame that is decoded whole for each read in it. */
#define LEAT_ZSTD_COPY_FRAME (UINT32_C(256) << 10)
#define LEAT_ZSTD_LONGEST (UINT64_C(8) << 20)

bool leat_zstd_recognise(const uint8_t *head, size_t n);
/* The decoded bytes of a frame, as its header of at most 18 bytes says. False: it does not. */
bool leat_zstd_decoded_bytes(const uint8_t *head, size_t n, uint64_t *out);

/* The starts of frames, found by the headers of their blocks; those of short frames are one. *frames has *n + 1 entries
 * with `out` 0, the last of which is the end, and is freed by the caller. *is_long: some frame is longer than
 * LEAT_ZSTD_LONGEST. CORRUPT, IO, NOMEM, CANCELLED. */
int leat_zstd_find(struct leat_io_file *file, struct leat_frame **frames, size_t *n, bool *is_long,
                   struct leat_error *error);
/* Walks the frames in [from, to) of the file by the headers of their blocks, and sets *summed if one has a checksum of
 * its bytes, *unsummed if one has bytes and no checksum. CORRUPT, IO, NOMEM. */
int leat_zstd_look_for_sums(struct leat_io_file *file, uint64_t from, uint64_t to, bool *summed, bool *unsummed,
                            struct leat_error *error);
/* Decodes them in order and gives the bytes to `sink`; sets each `out`. The result of sink stops it. */
int leat_zstd_scan(struct leat_io_file *file, struct leat_frame *frames, size_t n,
                   int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                   struct leat_error *error);
/* As leat_frames_open. */
int leat_zstd_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, struct leat_io_file **out,
                   struct leat_error *error);

/* A copy in frames of LEAT_ZSTD_COPY_FRAME: a file of zstd like any other. */
struct leat_zstd_copy;
/* `descriptor` is open for writing, and stays the caller's. NOMEM. */
int leat_zstd_copy_begin(int descriptor, const char *path, struct leat_zstd_copy **out, struct leat_error *error);
int leat_zstd_copy_add(struct leat_zstd_copy *copy, const uint8_t *bytes, size_t n, struct leat_error *error);
/* Ends it, also after an error (`frames` NULL). *bytes: of the file. */
int leat_zstd_copy_end(struct leat_zstd_copy *copy, struct leat_frame **frames, size_t *n, uint64_t *bytes,
                       struct leat_error *error);

#endif
