/*
 * A chunk of a file of lines, read to its end: its records, its tree of properties and their columns, before they are
 * joined with those of other chunks (text_scan.c). One thread at a time.
 */
#ifndef LEAT_FORMAT_TEXT_CHUNK_H
#define LEAT_FORMAT_TEXT_CHUNK_H

#include "format/text_index.h"
#include "format/text_scan.h"

/* Texts by numbers, in the order in which they came. */
struct leat_words {
    uint64_t *starts; /* n + 1 of them */
    char *text;
    uint32_t *table; /* of 1 << bits, number + 1 or 0 */
    size_t n, starts_room, text_n, text_room;
    unsigned bits;
    uint32_t last; /* the one that was met last */
};
/* The number of a text, which becomes a new one if it is not there; LEAT_WORDS: there are too many. False: no memory.
 */
bool leat_words_add(struct leat_words *words, const char *text, size_t length, uint32_t *number);
void leat_words_destroy(struct leat_words *words);

/* Values of a property so far; of records beyond n there are none. */
struct leat_chunk_column {
    bool dropped;
    enum leat_text_column kind;
    bool floats; /* NUMBERS are double */
    uint64_t *numbers;
    uint32_t *codes; /* WORDS, and BOOLS */
    uint8_t *valid;
    size_t n, room, n_valid, valid_room, present;
    struct leat_words words;
    uint64_t types, integers, nan, lines[LEAT_RECORD_TYPES]; /* as of leat_text_property; lines of the chunk */
};

struct leat_text_chunk {
    enum leat_text_mode mode;
    uint64_t longest; /* line */
    struct leat_text_line *lines;
    struct leat_text_bad *bad; /* records and lines of the chunk */
    size_t n, room, n_bad, bad_room;
    uint64_t n_lines;
    uint64_t sums[2][2];
    struct leat_property_tree tree;
    struct leat_chunk_column *columns; /* of the nodes */
    size_t n_columns, columns_room;
    bool no_memory;
    /* inner */
    struct leat_record_walk walk;
    struct leat_record_leaf *leaves; /* of the record */
    size_t n_leaves, leaves_room;
    char *text;
    size_t text_room;
};

bool leat_text_chunk_init(struct leat_text_chunk *chunk, const struct leat_text_scan *options);
void leat_text_chunk_destroy(struct leat_text_chunk *chunk);
/* Releases what only reading needs. */
void leat_text_chunk_seal(struct leat_text_chunk *chunk);
/* Takes n bytes of whole lines, the first at `offset` of the decoded bytes. False: no memory. */
bool leat_text_chunk_take(struct leat_text_chunk *chunk, const uint8_t *bytes, size_t n, uint64_t offset);
/* Takes a line that is too long, of which only the beginning is known. */
bool leat_text_chunk_take_long(struct leat_text_chunk *chunk, uint64_t offset);

#endif
