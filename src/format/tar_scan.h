/*
 * The headers of a tar: each block of 512 bytes that is one, with what stands before it about names and sizes.
 *
 *     [pax or GNU's long name: header, text]  header  body, filled up to a block  ...  two blocks of zeros  ...
 *
 * The bytes come in pieces, in order. Of a body only as much is taken as is wanted, and `leat_tar_scan_passes` says how
 * much of the file nobody needs. Blocks of zeros end nothing: a tar may follow another one (`cat a b`).
 */
#ifndef LEAT_FORMAT_TAR_SCAN_H
#define LEAT_FORMAT_TAR_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_TAR_BLOCK 512
/* A longer text of pax, or name, is damage. */
#define LEAT_TAR_TEXT (1 << 20)

/* A regular file. */
struct leat_tar_found {
    const char *name; /* with its folders; a NUL stands behind its `length` bytes */
    size_t length;
    uint64_t size;
    bool apart;          /* an end of a tar stands before it: this is of another one */
    uint64_t header, at; /* of its header, and of its body, among the decoded bytes */
};

struct leat_tar_sink {
    /* A file begins. *wanted: so many bytes of its body are to be given (at most `size`). */
    int (*begin)(void *user, const struct leat_tar_found *found, uint64_t *wanted, struct leat_error *error);
    /* Bytes of its body, in pieces. */
    int (*body)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error);
    /* All that was wanted was given. */
    int (*end)(void *user, struct leat_error *error);
    void *user;
    uint64_t most; /* a larger file is an error; 0: any */
    /* A link stands there, hard or symbolic, with this name; NULL: nobody asks. */
    void (*link)(void *user, const char *name);
};

struct leat_tar_scan;

/* Whether a block is a header, by its checksum. */
bool leat_tar_recognise(const uint8_t *head, size_t n);

/* `path` and `sink` stay. `bytes` of the file, UINT64_MAX: not known. NOMEM. */
int leat_tar_scan_begin(const char *path, uint64_t bytes, const struct leat_tar_sink *sink, struct leat_tar_scan **out,
                        struct leat_error *error);
/* Takes bytes. CORRUPT: no header, or one that lies; UNSUPPORTED: a sparse file; NOMEM; what the sink returns. */
int leat_tar_scan_push(struct leat_tar_scan *scan, const uint8_t *bytes, size_t n, struct leat_error *error);
/* How many bytes from here on are not looked at, and leaving out as many of them. */
uint64_t leat_tar_scan_passes(const struct leat_tar_scan *scan);
void leat_tar_scan_pass(struct leat_tar_scan *scan, uint64_t n);
/* Frees it. `whole`: the file has ended here; CORRUPT if it ends in the middle of something. */
int leat_tar_scan_end(struct leat_tar_scan *scan, bool whole, struct leat_error *error);

#endif
