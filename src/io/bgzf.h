/*
 * BGZF (the SAM specification, section 4.1): a gzip file in blocks of at most 64 KiB, each a member by itself that says
 * how long it is, ended by an empty one. bgzip and samtools write it. It is read from anywhere.
 */
#ifndef LEAT_IO_BGZF_H
#define LEAT_IO_BGZF_H

#include "io/frames.h"

#define LEAT_BGZF_HEAD 18 /* bytes that tell it from other gzip files */

bool leat_bgzf_recognise(const uint8_t *head, size_t n);

/* Where blocks begin: from FILE.gzi, as `bgzip -r` writes it, if that lies beside and fits, else by going from block to
 * block. *frames has *n + 1 entries, the last of which is the end, and is freed by the caller; blocks without bytes are
 * in none. CORRUPT with the place in the file: also where the empty block at the end is missing, as in a file that was
 * cut between two blocks. IO, NOMEM, CANCELLED. */
int leat_bgzf_find(struct leat_io_file *file, struct leat_frame **frames, size_t *n, struct leat_error *error);
/* As leat_frames_scan and leat_frames_open. Each block is compared with its checksum. */
int leat_bgzf_scan(struct leat_io_file *file, const struct leat_frame *frames, size_t n,
                   int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                   struct leat_error *error);
int leat_bgzf_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, struct leat_io_file **out,
                   struct leat_error *error);

#endif
