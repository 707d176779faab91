/*
 * Files that keep what one pass over a source has found: indexes and what belongs to them. They lie beside the source
 * or in `index_dir`; nobody needs them: whoever finds none that is right makes it anew.
 *
 * The file of a struct leat_kept is sections of numbers:
 *
 *     header | section | section | ...          each at a multiple of 64
 *
 * The header tells the source by its size, its time and a hash of pieces of it. It has a checksum, and so has each
 * section. A large file is mapped.
 */
#ifndef LEAT_FORMAT_KEPT_H
#define LEAT_FORMAT_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

#define LEAT_KEPT_END ".leat-index"
#define LEAT_KEPT_SMALL (UINT64_C(64) << 20)

/* The place of the index of a file: beside it, or in `dir` (which is made) under a name from its absolute path. A path
 * that is remote has none without `dir`: false. */
bool leat_kept_path(const char *source, const char *dir, char *out, size_t room);
/* An `index_dir` that is a file is a mistake that would cost time in each run without a word. NULL is allowed. Errors:
 * INVALID. */
int leat_kept_check_dir(const char *dir, struct leat_error *error);
/* A name beside `path`, of no other thread or process, under which a file is written that is then renamed to `path`.
 * False: it does not fit. */
bool leat_kept_partial_name(char *name, size_t room, const char *path);
/* Why the folder of a path may not be written, as an errno; 0: it may. By its mode: root may write anywhere, and should
 * not. */
int leat_kept_refused(const char *path);
/* Warns in the log that an index, or a copy, stays unwritten; `why`: an errno, or 0. */
void leat_kept_unwritten(const char *path, int why);
/* A hash of pieces of a source: its beginning, its end and some between. False: it cannot be read. */
bool leat_kept_pieces(struct leat_io_file *source, uint64_t *out);

#define LEAT_KEPT_SECTIONS 8

struct leat_kept_section {
    const void *data;
    uint64_t count;
    uint32_t each; /* bytes */
};
struct leat_kept {
    uint64_t facts[8]; /* numbers of the format's own */
    struct leat_kept_section sections[LEAT_KEPT_SECTIONS];
    struct leat_io_file *file; /* that is mapped; read the sections inside leat_guarded (io/guard.h) */
    void *memory;              /* or the bytes that were read */
    char *path;                /* where it is kept; NULL: nowhere */
    uint64_t inode;            /* of that file */
};
/* Reads what was kept of `source` (NULL: of no file; the facts say of what); `kind` of 8 bytes tells formats and their
 * versions apart, and the `each` that are given in *out have to be those of the file. `trusts`: neither checksums nor
 * the source are compared: for fuzzers. False: there is none that is right. */
bool leat_kept_load(struct leat_kept *out, const char *path, struct leat_io_file *source, const char kind[8],
                    bool trusts);
/* Writes it beside its place and renames it. False: it cannot be written, which is logged. */
bool leat_kept_save(struct leat_kept *kept, const char *path, struct leat_io_file *source, const char kind[8]);
/* Removes the file of what turned out to be wrong, unless another one is in its place by now. False: it is still
 * there. Any thread. */
bool leat_kept_forget(const char *path, uint64_t inode);
void leat_kept_release(struct leat_kept *kept);
/* The error of a reader that finds this later: CHANGED, `what` is wrong at byte `at` of `source`. It removes the file,
 * so that the next opening makes it anew, or says that the user has to. `path` NULL: there is none. Any thread. */
int leat_kept_wrong(const char *source, const char *path, uint64_t inode, const char *what, uint64_t at,
                    struct leat_error *error);

#endif
