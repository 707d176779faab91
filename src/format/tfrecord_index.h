/*
 * TFRecord files of tf.train.Example.
 *
 *     record     u64 length | u32 CRC of it | data | u32 CRC of the data       CRC-32C, masked
 *     data       an Example: Features: a map of a name to a list of bytes, of float32 or of int64
 *
 * A pass over a file compares all checksums and finds the places of values (places.h), each of a column:
 *
 *     offset, length     of the bytes if there is one, else of the list as protobuf has it
 *     sum                of one number the number; else the hash of the values as they are delivered
 *     note               column | kind << 16 | count << 32
 */
#ifndef LEAT_FORMAT_TFRECORD_INDEX_H
#define LEAT_FORMAT_TFRECORD_INDEX_H

#include "format/places.h"
#include "leat/leat.h"

#define LEAT_TFRECORD_COLUMNS 256
#define LEAT_TFRECORD_KIND "TFRECOR1"

enum leat_tfrecord_kind { LEAT_TFRECORD_BYTES = 1, LEAT_TFRECORD_FLOATS, LEAT_TFRECORD_INTS };
static inline unsigned leat_tfrecord_kind_of(const struct leat_place *place)
{
    return place->note >> 16 & 0xff;
}
static inline uint64_t leat_tfrecord_count_of(const struct leat_place *place)
{
    return place->note >> 32;
}

struct leat_tfrecord_column {
    uint64_t name; /* its offset in the text */
    struct {
        uint64_t n, least, most; /* records that have it of this kind; values of it */
    } kinds[4];                  /* by enum leat_tfrecord_kind */
    uint64_t photos, texts;      /* of single bytes: begin as photos do; are UTF-8 without a NUL */
};

/* Whether a file begins with the header of a record. */
bool leat_tfrecord_recognise(const uint8_t *head, size_t n);

/* Numbers of a list. */
struct leat_tfrecord_list {
    const uint8_t *p, *end, *packed; /* packed: the end of what is packed, NULL if nothing is at `p` */
    unsigned kind;
};
static inline struct leat_tfrecord_list leat_tfrecord_list(unsigned kind, const void *list, size_t bytes)
{
    return (struct leat_tfrecord_list){list, (const uint8_t *)list + bytes, NULL, kind};
}
/* 1: the next value is in *value (a float by its bits); 0: there are no more; -1: it is damaged. */
int leat_tfrecord_next(struct leat_tfrecord_list *list, uint64_t *value);

struct leat_tfrecord_making {
    struct leat_io_file *file;
    enum leat_compression compression;
    const char *copy;
    bool alone; /* the places are wanted alone: no decoded bytes are there then */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};
/* Makes the places of a file, whose decoded bytes *made then has. CORRUPT: checksums, lengths, no Example; FORMAT: more
 * than 256 names; UNSUPPORTED: a SequenceExample; NOMEM, IO, CANCELLED. */
int leat_tfrecord_index_make(const struct leat_tfrecord_making *making, struct leat_compressed *made,
                             struct leat_places *out, struct leat_error *error);
/* Whether columns and notes of a kept index are such. */
bool leat_tfrecord_index_fits(const struct leat_places *places);

#endif
