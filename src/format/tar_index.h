/*
 * The index of a tar of samples, as WebDataset writes them: files of one key, one after the other, are a sample.
 *
 *     a/0001.jpg  a/0001.seg.png  a/0001.cls      key a/0001, endings jpg, seg.png, cls
 *
 * A key that comes again elsewhere, or in another tar behind the end of the first (`cat a b`), is another sample.
 *
 * The key runs to the first dot of the name behind the last slash; the ending is in small letters. The index is made by
 * one pass over the headers, which of a body reads no more than its first bytes (of a .npy all, for its hash), and kept
 * (kept.h). It depends on nothing but the decoded bytes.
 */
#ifndef LEAT_FORMAT_TAR_INDEX_H
#define LEAT_FORMAT_TAR_INDEX_H

#include "format/compressed.h"
#include "format/kept.h"
#include "format/npy.h"
#include "leat/leat.h"

#define LEAT_TAR_ENDINGS 256
#define LEAT_TAR_KEY 4096 /* bytes of a key, with a NUL */

/* The first bytes of a body, as far as they say what it is. */
enum leat_tar_form {
    LEAT_TAR_OPAQUE = 0,
    LEAT_TAR_PHOTO,
    LEAT_TAR_INTEGER,  /* decimal text: `number` is it */
    LEAT_TAR_OBJECTS,  /* a .npy that holds pickles */
    LEAT_TAR_NO_ARRAY, /* a .npy that leat does not read */
    LEAT_TAR_ARRAY     /* from here on a .npy: the number of its shape is added; `number` is the hash of its bytes, if
                        * these are values as they are delivered */
};

struct leat_tar_member {
    uint64_t place; /* block of the body << 16 | ending */
    uint64_t facts; /* bytes << 16 | form */
    int64_t number;
};
static inline uint64_t leat_tar_at(const struct leat_tar_member *m)
{
    return (m->place >> 16) * 512;
}
static inline size_t leat_tar_ending_of(const struct leat_tar_member *m)
{
    return m->place & 0xffff;
}
static inline uint64_t leat_tar_bytes(const struct leat_tar_member *m)
{
    return m->facts >> 16;
}
static inline unsigned leat_tar_form_of(const struct leat_tar_member *m)
{
    return m->facts & 0xffff;
}

struct leat_tar_sample {
    uint64_t key;    /* its offset in `keys`, with a NUL behind it */
    uint64_t member; /* its first; the next sample's is behind its last */
};

struct leat_tar_ending {
    uint64_t text; /* its offset in `endings_text`, with a NUL behind it */
    uint64_t n, photos, integers, arrays, objects, first_objects; /* members; where the first .npy of objects begins */
};

/* The arrays of one ending that have the same type, and shape but for the first dimension. */
struct leat_tar_shape {
    uint32_t ending, dtype, ndim, order; /* order: 1 Fortran's, 2 big-endian, 3 both */
    uint64_t shape[LEAT_MAX_DIMS];
    uint64_t n, least, most; /* members; of the first dimension */
};

struct leat_tar_index {
    uint64_t count, n_members, bytes;      /* decoded */
    const struct leat_tar_sample *samples; /* count + 1 */
    const struct leat_tar_member *members;
    const char *keys, *endings_text;
    const struct leat_tar_ending *endings;
    const struct leat_tar_shape *shapes;
    uint64_t keys_bytes, n_endings, n_shapes;
    uint64_t hidden, bare, links;    /* that were left out: names that begin with a dot, or have none; links */
    uint64_t torn;                   /* samples with the key of one before, and files that it lacks */
    const struct leat_frame *frames; /* n_frames + 1, of a compressed file */
    uint64_t n_frames, copy_bytes;
    struct leat_kept kept; /* that it was read from; or else: */
    void *own[6];
    struct leat_frame *own_frames;
};

void leat_tar_index_destroy(struct leat_tar_index *index);
/* Reads a kept index, and checks that all numbers lie in it. False: there is none that is right. `trusts`: as
 * leat_kept_load. */
bool leat_tar_index_load(struct leat_tar_index *index, const char *path, struct leat_io_file *source, bool trusts);
bool leat_tar_index_save(struct leat_tar_index *index, const char *path, struct leat_io_file *source);
/* Copies the member of a sample with an ending; `found`: there is one. IO: the index cannot be read. */
int leat_tar_index_find(const struct leat_tar_index *index, uint64_t sample, size_t ending, bool *found,
                        struct leat_tar_member *out, struct leat_error *error);

/* Copies where the key and the files of a sample begin; IO likewise. */
int leat_tar_index_sample(const struct leat_tar_index *index, uint64_t sample, struct leat_tar_sample *out,
                          struct leat_error *error);
/* The number of a sample's member, which there is, in `members`. */
int leat_tar_index_number(const struct leat_tar_index *index, uint64_t sample, size_t ending, uint64_t *out,
                          struct leat_error *error);

/* Makes the index of a file, whose decoded bytes `plain` are there, or else come through `compression`: *made is then
 * the result of leat_compressed_read. CORRUPT: damage, a key with a file twice, FORMAT: too many endings; those of
 * leat_tar_scan_push. */
struct leat_tar_making {
    struct leat_io_file *file;
    enum leat_compression compression;
    const char *copy; /* the place of one */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint64_t most; /* of a file in it; 0: any */
};
int leat_tar_index_make(const struct leat_tar_making *making, struct leat_compressed *made,
                        struct leat_tar_index *index, struct leat_error *error);

#endif
