/*
 * Texts as codes: an optional section for each field of text that has few values, so that a query looks at a byte or
 * two per sample and reads no text (data/query_codes.c). The values themselves stay where they are, and a reader
 * without the section, or with a damaged one, reads those.
 *
 *     field 4 | texts n 4 | samples 8 | bytes of a code 4 | 0 | bytes of all texts t 8 | n lengths 4 each | texts |
 * zeros to a multiple of 64 | codes, one per sample
 *
 * A writer keeps the codes of its file in memory until the file ends: a byte or two per sample and field.
 */
#ifndef LEAT_STORE_CODES_H
#define LEAT_STORE_CODES_H

#include "store/growing.h"
#include "store/layout.h"

enum {
    LEAT_CODES_HEAD = 32,
    LEAT_CODES_TEXTS = 65536, /* distinct ones at most */
    LEAT_CODES_TEXT = 1024,   /* bytes of one at most */
};

/* A field of the file that is being written. */
struct leat_store_coder {
    bool off; /* it has too many texts, or too long ones */
    unsigned width;
    uint32_t n;
    struct leat_growing entries; /* struct entry of codes.c, [n] */
    struct leat_growing texts, codes;
    uint32_t *slots; /* 1 + code, by checksum; 0: free */
    size_t n_slots;
};
void leat_store_coder_destroy(struct leat_store_coder *coder);
/* Adds the texts of a finished group, in its order. False: no memory. */
bool leat_store_coder_add(struct leat_store_coder *coder, const struct leat_store_layout *layout, uint32_t field,
                          const uint8_t *group, const struct leat_store_group *header,
                          const struct leat_store_shape *shape);
/* The section of a field of a file of so many samples, in `coder->codes`; *there: it has one. False: no memory. */
bool leat_store_coder_end(struct leat_store_coder *coder, const struct leat_store_layout *layout, uint32_t field,
                          uint64_t rows, bool *there);

/* The section's parts, for `count` samples; `section` stays the caller's. False: they are impossible, or a text is none
 * of its kind. */
bool leat_store_codes_get(const uint8_t *section, uint64_t length, uint64_t count, enum leat_kind kind,
                          struct leat_source_codes *out);

#endif
