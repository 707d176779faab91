/*
 * Files of FFCV (.beton), version 2. All is little-endian:
 *
 *     0            header, 24 bytes: u16 version 2 | u16 fields F | u32 page size | u64 samples N | u64 table
 *     24           F descriptions, 1041 bytes each: u8 type | 16 bytes of name | 1024 of arguments
 *     + 1041 F     N rows, in which each field has a column as NumPy aligns them
 *     pages        values; what a row has is where one begins
 *     table        to the end, 24 bytes each: u64 sample | u64 begin | u64 bytes, of each value, in no order
 *
 * Rows and table are believed only as far as they lie within the file. There are no checksums: a pass over all values,
 * which is kept (places.h), finds their lengths and hashes.
 */
#ifndef LEAT_FORMAT_BETON_H
#define LEAT_FORMAT_BETON_H

#include "format/places.h"
#include "leat/leat.h"

#define LEAT_BETON_FIELDS 256
#define LEAT_BETON_KIND "BETON  1"

enum leat_beton_type {
    LEAT_BETON_FLOAT = 0,
    LEAT_BETON_INT,
    LEAT_BETON_RGB,
    LEAT_BETON_BYTES,
    LEAT_BETON_NDARRAY,
    LEAT_BETON_JSON,
    LEAT_BETON_TENSOR
};

/* The note of a photo's place: its mode (0: a JPEG, 1: pixels), width and height. */
static inline uint64_t leat_beton_note(unsigned mode, unsigned width, unsigned height)
{
    return mode | (uint64_t)width << 16 | (uint64_t)height << 32;
}
static inline unsigned leat_beton_mode(uint64_t note)
{
    return note & 0xffff;
}
static inline unsigned leat_beton_width(uint64_t note)
{
    return note >> 16 & 0xffff;
}
static inline unsigned leat_beton_height(uint64_t note)
{
    return note >> 32 & 0xffff;
}

struct leat_beton_column {
    char name[17];
    uint8_t type;
    uint64_t at;    /* in a row */
    uint64_t place; /* its number among those of a sample; of numbers, which stand in the row, none */
    /* Of arrays: */
    uint64_t bytes;
    enum leat_dtype dtype;
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    const char *fault; /* why no field can have it */
};

struct leat_beton_layout {
    uint64_t samples, rows, row_bytes; /* where rows begin */
    uint64_t values, table;            /* values lie from the one to the other */
    uint64_t n_places;
    size_t n_columns;
    struct leat_beton_column *columns;
};

/* Whether the first n bytes are those of such a file. */
bool leat_beton_recognise(const uint8_t *head, size_t n);
/* Reads header and descriptions. `columns` is freed by the caller in any case. FORMAT: another version, a field of a
 * class of its own of which the options do not say what it is; UNFINISHED; CORRUPT; NOMEM; IO. */
int leat_beton_read_layout(struct leat_io_file *file, const struct leat_open_options *options,
                           struct leat_beton_layout *out, struct leat_error *error);
/* Finds all places and hashes, by a pass over all values. CORRUPT, NOMEM, IO, CANCELLED. */
int leat_beton_index_make(struct leat_io_file *file, const struct leat_beton_layout *layout,
                          const struct leat_open_options *options, struct leat_places *out, struct leat_error *error);
/* Whether notes and lengths of a kept index are as the layout says. */
bool leat_beton_index_fits(const struct leat_places *places, const struct leat_beton_layout *layout);

#endif
