/*
 * A file compressed with gzip: read to its end once, checked, and from then on read from anywhere.
 *
 * Deflate has no index. Much as Mark Adler's zran.c (zlib, examples/) does, the first reading keeps access points: the
 * place in the file, and a copy of zlib's state there, some 40 KiB with the 32 KiB of decoded bytes before it. It may
 * be anywhere, also within a block of deflate, which can be as long as the file. Between two points lies a block in the
 * sense of io/blocks.h. There are at most LEAT_GZIP_POINTS of them, 40 MiB, whatever the length of the file.
 *
 * An index may keep the points, and the next opening decodes nothing. zlib's state is not for files, and between two
 * blocks of deflate it is no more than the window and some bits; so points that are to be kept lie there.
 */
#ifndef LEAT_IO_GZIP_H
#define LEAT_IO_GZIP_H

#include "io/file.h"

#define LEAT_GZIP_POINTS 1024
#define LEAT_GZIP_WINDOW 32768

bool leat_gzip_recognise(const uint8_t *head, size_t n);
/* The first decoded bytes of a file whose first bytes are `head`; fewer than `room` if those hold no more. Returns how
 * many. */
size_t leat_gzip_head(const uint8_t *head, size_t n, uint8_t *out, size_t room);

/* The first n decoded bytes, compared with nothing. CORRUPT (also: there are fewer), IO, NOMEM. */
int leat_gzip_first(struct leat_io_file *file, uint8_t *to, size_t n, struct leat_error *error);

/* An access point as it is kept. */
struct leat_gzip_point {
    uint64_t in, out;     /* the next byte of the file; decoded bytes before it */
    uint64_t hash;        /* of the decoded bytes up to the next point */
    uint32_t crc;         /* their CRC-32 */
    uint8_t n_bits, bits; /* those of the byte before `in` that are still to be decoded */
    uint8_t zeros[2];
};
struct leat_gzip_points {
    struct leat_gzip_point *points; /* n + 1, of which the last is the end; NULL: none can be kept */
    uint8_t *windows;               /* n - 1: decoded bytes before a point. The first point needs none */
    size_t n;
};
void leat_gzip_points_free(struct leat_gzip_points *points);

struct leat_gzip_options {
    int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error);
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    void *user;
    /* Blocks hold so many decoded bytes or up to 32 KiB more, but for the last: all that is behind the last point. */
    uint64_t block_bytes;
    /* NULL, or gets what is kept, freed by leat_gzip_points_free: nothing if the file has several members, or a block
     * of deflate that is longer than zlib makes them. Then blocks hold up to LEAT_GZIP_LONGEST bytes more. */
    struct leat_gzip_points *keep;
    /* For leat_gzip_reopen: byte `at` of the file does not decode to what the points say. Its result is that of the
     * read. */
    int (*wrong)(void *user, uint64_t at, struct leat_error *error);
};
/* A block of zlib has at most 32,767 symbols of at most 258 bytes each. */
#define LEAT_GZIP_LONGEST (UINT64_C(32768) * 258)

/* Decodes the whole file, giving its bytes to `sink` in order; its result stops it, unless it is LEAT_OK. All checksums
 * are compared. `out` NULL: no more than that. Else it gets a file of the decoded bytes, which keeps a reference to
 * `file`, reads ahead in it if it is made of blocks of another one (io/blocks.h), and calls `convert` (see
 * io/blocks.h), if that is not NULL, with `user`, which must stay while the file is open. Errors: CORRUPT with the
 * place in the file, IO, NOMEM, those of `sink`. */
int leat_gzip_open(struct leat_io_file *file, const struct leat_gzip_options *options, struct leat_io_file **out,
                   struct leat_error *error);
/* Opens it with points that were kept, with the same block_bytes, and decodes nothing. They may be mapped, and are
 * copied. Their CRC-32 together is that of the file, and each block is compared when it is decoded. CORRUPT: they are
 * none of this file, or their own was cut while it was mapped; IO, NOMEM. */
int leat_gzip_reopen(struct leat_io_file *file, const struct leat_gzip_points *kept,
                     const struct leat_gzip_options *options, struct leat_io_file **out, struct leat_error *error);

#endif
