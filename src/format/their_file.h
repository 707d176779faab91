/*
 * A file of others that may be compressed, with an index of its decoded bytes that one pass over it makes and that is
 * kept: the way in which it is opened, and told when it has changed.
 */
#ifndef LEAT_FORMAT_THEIR_FILE_H
#define LEAT_FORMAT_THEIR_FILE_H

#include "format/compressed.h"

struct leat_their_file {
    char *path;                /* absolute, unless it is remote */
    struct leat_io_file *file; /* as it is stored; NULL: it is opened when it is read, as there may be many */
    struct leat_io_file *decoded;
    uint64_t size, stamp;
    int64_t mtime_ns;
};

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
void leat_their_file_close(struct leat_their_file *f);
/* CHANGED: a file that is kept open is another one by now. */
int leat_their_file_check(const struct leat_their_file *f, struct leat_error *error);
/* The same of any, which reads nothing of it. */
int leat_their_file_look(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_error *error);
/* Its decoded bytes, released by the caller; opened when they are read. NOMEM. */
int leat_their_file_bytes(const struct leat_their_file *f, struct leat_io_pace *pace, struct leat_io_file **out,
                          struct leat_error *error);

#endif
