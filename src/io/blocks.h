/*
 * A file that is stored in blocks, which are decoded: compressed, for one. Its readers see a file of the decoded bytes.
 * Decoded blocks stay in a cache of the process, with a byte budget of its own, so that a block is decoded once however
 * many of its values are read one by one.
 */
#ifndef LEAT_IO_BLOCKS_H
#define LEAT_IO_BLOCKS_H

#include "io/file.h"

struct leat_made_block {
    uint8_t *data;
    uint64_t bytes;
};

struct leat_blocks {
    const char *path;       /* in errors */
    size_t n;               /* blocks */
    const uint64_t *starts; /* n + 1: the start of each among the decoded bytes; the last is their number */
    /* Or blocks of `block_bytes` are those of another file as they are: then `file` is set, `starts` and `decode` are
     * not. The reference that it holds becomes the blocks'. */
    struct leat_io_file *file;
    uint64_t block_bytes;
    bool constant; /* such a block is each time the same as when it was read first, else LEAT_E_CHANGED */
    /* Or blocks whose sizes are known once they are made: `make` is set, `starts`, `file` and `decode` are not. Such a
     * file is not read: its blocks are pinned. Makes n blocks, which ascend, in one go: for each memory of leat_alloc,
     * which the cache takes over, and its bytes. If it fails, it leaves nothing in `to`. Any thread, several at once;
     * `asker` is what leat_blocks_pin was given. Errors as those of `decode`. */
    int (*make)(void *user, const size_t *blocks, size_t n, struct leat_made_block *to, void *asker,
                struct leat_error *error);
    /* Decodes a whole block. Any thread, several at once. Errors: IO, CORRUPT, CHANGED, NOMEM, with the place in the
     * file. */
    int (*decode)(void *user, size_t block, uint8_t *to, struct leat_error *error);
    /* NULL, or the function that is applied to bytes [offset, offset + length) each time they are read. */
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    /* An epoch reads each byte once, in any order: a block is evicted before others once as many bytes of it were read
     * as it has. So those stay of which parts are still to come. */
    bool once;
    void (*close)(void *user); /* NULL: there is no such function */
    void *user;
};

/* The file takes `user` over, and calls `close` at its end; not if this fails. `path` and `starts` belong to `user`.
 * NOMEM. */
int leat_blocks_open(const struct leat_blocks *blocks, struct leat_io_file **out, struct leat_error *error);

/* A request without a buffer brings blocks into the cache, for a read that is not to wait. Its status is LEAT_E_HELD
 * while half of the budget is on its way already. */

/* Blocks of a file as they are, for one whose reads are slow, or whose bytes are to be converted; `user` stays the
 * caller's. It keeps a reference to `file`. Its reads are complete when those of `file` are. `constant`: for files
 * without checksums. NOMEM. */
int leat_blocks_over(struct leat_io_file *file, uint64_t block_bytes, bool constant,
                     void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length), void *user,
                     struct leat_io_file **out, struct leat_error *error);

/* A block that is in use, and stays in memory so long. */
struct leat_pin {
    const uint8_t *data;
    uint64_t bytes;
    void *entry; /* internal; NULL: there is none */
};
/* Pins n blocks of a file whose blocks are made, each once and ascending; what is missing is made by one call. While
 * another thread makes one, it is waited for. CANCELLED (interrupted), NOMEM, and the errors of `make`; then none is
 * pinned. */
int leat_blocks_pin(struct leat_io_file *file, const size_t *blocks, size_t n, void *asker, struct leat_pin *pins,
                    struct leat_error *error);
void leat_blocks_unpin(struct leat_pin *pins, size_t n); /* without `entry`: nothing */
/* The bytes that may stay in the cache. */
uint64_t leat_blocks_allowed(void);

/* Starts to read the blocks of [offset, offset + length), at most half of the cache. Does nothing for a file that is
 * not made of blocks of another one. */
void leat_blocks_ahead(struct leat_io_file *file, uint64_t offset, uint64_t length);

/* Whether the cache has room for all of such a file, beside the others that got this answer; it has until the file is
 * closed. Then reading small values of it anywhere reads each of its bytes once. */
bool leat_blocks_hold(struct leat_io_file *file);

/* Bytes of blocks that stay in memory; a block in use stays whatever its size. `usual`: the environment variable
 * LEAT_CACHE_BYTES, or a sixteenth of the memory that this process may use, from 16 MiB to 1 GiB. LEAT_REPLACEABLE. */
uint64_t leat_blocks_budget(uint64_t usual);
/* Bytes in the cache, and blocks filled so far in this process. */
void leat_blocks_stats(uint64_t *bytes, uint64_t *decoded);

#endif
