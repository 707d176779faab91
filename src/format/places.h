/*
 * Where the values of samples lie in a file of others, and the hashes of their bytes: found by one pass over the file,
 * and kept (kept.h). It depends on nothing but the file's decoded bytes.
 *
 *     places     [count][width]     width: values of a sample that have a place
 *     or, where samples have some of these only: [starts[count]], each with its column in the last 16 bits of `note`
 *     starts     [count + 1]        of a sample's places
 *     columns    [width]            what the format wants to know of all values of one
 *     text       bytes              names, each with a NUL behind it
 */
#ifndef LEAT_FORMAT_PLACES_H
#define LEAT_FORMAT_PLACES_H

#include "format/compressed.h"
#include "format/kept.h"

struct leat_place {
    uint64_t offset, length; /* of its bytes */
    uint64_t sum;            /* leat_hash64 of the value as it is delivered, or the number that it is */
    uint64_t note;           /* of the format's own */
};

struct leat_places {
    uint64_t count, width;
    uint64_t bytes; /* decoded: all places lie below */
    const struct leat_place *at;
    const uint64_t *starts; /* NULL: there are [count][width] places */
    uint64_t n_sparse;      /* else so many */
    const void *columns;    /* width, each of `column_bytes` */
    const char *text;
    uint64_t text_bytes;
    const struct leat_frame *frames; /* n_frames + 1, of a compressed file */
    uint64_t n_frames, copy_bytes;
    struct leat_kept kept; /* that it was read from, or else what is above is its own, too */
    void *own[5];
};
static inline size_t leat_place_column(const struct leat_place *place)
{
    return place->note & 0xffff;
}

void leat_places_destroy(struct leat_places *places);
/* Reads what was kept of `source`, and checks that places lie in it. `kind`, `trusts`: as leat_kept_load; the format
 * checks columns and notes. False: there is none that is right. */
bool leat_places_load(struct leat_places *places, const char *path, struct leat_io_file *source, const char kind[8],
                      size_t column_bytes, bool trusts);
bool leat_places_save(struct leat_places *places, const char *path, struct leat_io_file *source, const char kind[8],
                      size_t column_bytes);
/* Copies the k-th place of a sample. IO: the index cannot be read. */
int leat_places_get(const struct leat_places *places, uint64_t sample, uint64_t k, struct leat_place *out,
                    struct leat_error *error);
/* The same for places with `starts`: *number is that of a sample's value of a column, UINT64_MAX if it has none. */
int leat_places_find(const struct leat_places *places, uint64_t sample, size_t column, uint64_t *number,
                     struct leat_place *out, struct leat_error *error);

#endif
