/*
 * Files of others that are one data set together (tars, files of records, shards): how each is opened, kept open, read,
 * and told when it has changed.
 *
 *     few of them     kept open, and mapped where that can be: its size and times are compared as values are located
 *     more of them    opened when they are read; size and time of modification are compared then, and as values are
 *                     located, since blocks may still be in the cache
 *     compressed      the decoded bytes are another file; one whose decoded bytes need a copy or an index of its own
 *                     (tars, TFRecord) stays open, and so do others (shards) as long as there is room
 *
 * io/handles.h says how many a few are.
 */
#ifndef LEAT_FORMAT_THEIR_FILE_H
#define LEAT_FORMAT_THEIR_FILE_H

#include "format/compressed.h"
#include "format/source.h"

struct leat_their_file {
    char *path;                   /* absolute, unless it is remote */
    struct leat_io_file *file;    /* as it is stored; NULL: it is opened when it is read */
    struct leat_io_file *decoded; /* the bytes that values lie in; NULL likewise */
    const uint8_t *map;           /* of `file`, if it is mapped */
    uint64_t size;
    int64_t mtime_ns;
    uint64_t first; /* its first sample in the source */
    bool counted;   /* among the files that stay open */
};

/* ---- one file ---- */

/* Notes size and time of `file`, which was opened from f->path. It stays open if there is room, or in any case if it
 * has to (`stays`). */
void leat_their_file_keep(struct leat_their_file *f, struct leat_io_file *file, bool stays);
void leat_their_file_close(struct leat_their_file *f);
/* CHANGED: the file is another one by now, or was removed. */
int leat_their_file_check(const struct leat_their_file *f, struct leat_error *error);
/* The bytes that values lie in, released by the caller; opened when they are read. NOMEM. */
int leat_their_file_bytes(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                          struct leat_error *error);
/* The stored bytes likewise. */
int leat_their_file_stored(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                           struct leat_error *error);

/* ---- with an index that one pass over the decoded bytes makes, and that is kept ---- */

/* What an index says of a compressed file: n_frames + 1 frames. */
struct leat_their_frames {
    const struct leat_frame *frames;
    uint64_t n_frames, copy_bytes, bytes;
};
struct leat_their_index {
    /* Reads what is kept at `place`. False: there is none that is right. */
    bool (*load)(void *index, const char *place, struct leat_io_file *source, struct leat_their_frames *frames);
    int (*make)(void *index, struct leat_io_file *file, enum leat_compression compression, const char *copy,
                const struct leat_open_options *options, struct leat_compressed *made, struct leat_error *error);
    void (*save)(void *index, const char *place, struct leat_io_file *source);
    void (*destroy)(void *index);
};
/* Opens it: loads its index, or makes and keeps it. The caller closes it in any case. */
int leat_their_file_open(struct leat_their_file *f, const char *path, const struct leat_their_index *how, void *index,
                         const struct leat_open_options *options, struct leat_error *error);

/* ---- the files of a source ---- */

/* An array of structs that begin with a leat_their_file, in the order of their samples. */
struct leat_their_files {
    void *at;
    size_t each, n;
    struct leat_io_pace pace;
};
struct leat_their_file *leat_their_files_get(const struct leat_their_files *files, size_t number);
/* The number of the file that has a sample. */
size_t leat_their_files_find(const struct leat_their_files *files, uint64_t sample);
/* Checks the files of samples, each once or a few times. *failed: the index of the sample whose file is CHANGED. */
int leat_their_files_check(const struct leat_their_files *files, const uint64_t *samples, size_t n, size_t *failed,
                           struct leat_error *error);
/* As leat_source's `expect`, `refresh`, `about` and `place`. */
bool leat_their_files_expect(const struct leat_their_files *files, const struct leat_extent *extent);
int leat_their_files_refresh(struct leat_their_files *files, struct leat_error *error);
void leat_their_files_about(const struct leat_their_files *files, struct leat_source_about *out);
/* As `verify`: `one` compares all checksums of a file. Its faults are told of, and the next file follows. */
struct leat_their_verifying {
    const struct leat_verify_options *options;
    uint64_t before, total, first_id;
    bool summed, unsummed; /* set by `one`: some compressed blocks have checksums; some have none */
};
/* Reports that `done` bytes of the file are verified, of `total`. If it does not return 0, `one` has to stop. */
int leat_their_verifying_tell(void *verifying, uint64_t done, uint64_t total);
int leat_their_files_verify(const struct leat_their_files *files, struct leat_source *source,
                            const struct leat_verify_options *options, uint64_t first_id,
                            int (*one)(struct leat_source *source, size_t number,
                                       struct leat_their_verifying *verifying, struct leat_error *error),
                            struct leat_error *error);
void leat_their_files_place(const struct leat_their_files *files, uint64_t sample, struct leat_sample_place *out);

#endif
