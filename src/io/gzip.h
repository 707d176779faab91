/*
 * A file compressed with gzip: read to its end once, checked, and from then on read from anywhere.
 *
 * Deflate has no index. Much as Mark Adler's zran.c (zlib, examples/) does, the first reading keeps access points: the
 * place in the file, and a copy of zlib's state there, some 40 KiB with the 32 KiB of decoded bytes before it. It may
 * be anywhere, also within a block of deflate, which can be as long as the file. Between two points lies a block in the
 * sense of io/blocks.h. There are at most LEAT_GZIP_POINTS of them, 40 MiB, whatever the length of the file.
 */
#ifndef LEAT_IO_GZIP_H
#define LEAT_IO_GZIP_H

#include "io/file.h"

#define LEAT_GZIP_POINTS 1024

bool leat_gzip_recognise(const uint8_t *head, size_t n);
/* The first decoded bytes of a file whose first bytes are `head`; fewer than `room` if those hold no more. Returns how
 * many. */
size_t leat_gzip_head(const uint8_t *head, size_t n, uint8_t *out, size_t room);

/* Decodes the whole file, giving its bytes to `sink` in order; its result stops it, unless it is LEAT_OK. All checksums
 * are compared. `out` NULL: no more than that. Else it gets a file of the decoded bytes, which keeps a reference to
 * `file`, reads ahead in it if it is made of blocks of another one (io/blocks.h), and calls `convert` (see
 * io/blocks.h), if that is not NULL, with `user`, which must stay while the file is open. Errors: CORRUPT with the
 * place in the file, IO, NOMEM, those of `sink`. */
struct leat_gzip_options {
    int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error);
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    void *user;
    /* Blocks hold so many decoded bytes or up to 32 KiB more, but for the last: all that is behind the last point. */
    uint64_t block_bytes;
};
int leat_gzip_open(struct leat_io_file *file, const struct leat_gzip_options *options, struct leat_io_file **out,
                   struct leat_error *error);

#endif
