/*
 * A compressed file of frames that decode by themselves: frames of zstd, blocks of BGZF.
 */
#ifndef LEAT_IO_FRAMES_H
#define LEAT_IO_FRAMES_H

#include "io/file.h"

struct leat_frame {
    uint64_t in, out; /* its start in the file; among the decoded bytes */
};

/* Decodes one frame: its bytes as they are stored, `n`, give `out_bytes` at `to`. `at`: its start, for errors. */
typedef int (*leat_frame_decoder)(struct leat_io_file *file, uint64_t at, const uint8_t *bytes, size_t n, uint8_t *to,
                                  size_t out_bytes, struct leat_error *error);

/* A file of the decoded bytes (io/blocks.h). It keeps a reference to `file` and copies the n + 1 frames, of which the
 * last is the end. NOMEM. */
int leat_frames_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, leat_frame_decoder decode,
                     struct leat_io_file **out, struct leat_error *error);

/* Decodes all frames, on all cores, and gives their bytes to `sink` in order, whose result stops it unless it is
 * LEAT_OK; some MiB of them are in memory at a time. `sink` is called by the thread that calls this. Errors: those of
 * reading and decoding, IO, NOMEM, CANCELLED. */
int leat_frames_scan(struct leat_io_file *file, const struct leat_frame *frames, size_t n, leat_frame_decoder decode,
                     int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                     struct leat_error *error);

#endif
