/*
 * One JSON object in memory, walked through once: a record of a JSONL file. Its values are told as leaves of a tree of
 * properties, whose nodes are the keys: {"text": "..", "meta": {"domain": ".."}} has the leaves `text` and
 * `meta.domain`. The tree grows as records show new keys, and is kept with the index of the file; reading a record then
 * asks for some of its leaves.
 *
 *     tree     root - text
 *                   \ meta - domain          a node is an object, a leaf, or both (then it is of two types)
 *                          \ language
 *
 * The text of a record is checked to its end, by json_text.h, and also that no key stands twice in an object. NaN and
 * Infinity are numbers, because Python writes them, but no JSON: in a value that is kept as it stands they are a fault.
 */
#ifndef LEAT_FORMAT_JSON_RECORD_H
#define LEAT_FORMAT_JSON_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/json_text.h"

/* Keys of one object that become properties, and properties in all; an object with more is `wide`, and told as a leaf
 * of type OBJECT as well. */
#define LEAT_RECORD_KEYS 256
#define LEAT_RECORD_PROPERTIES 4096

/* The type of a leaf. Bits of a mask are 1 << type. */
enum leat_record_type {
    LEAT_RECORD_NULL = LEAT_JSON_NULL,
    LEAT_RECORD_BOOL = LEAT_JSON_BOOL,
    LEAT_RECORD_INT = LEAT_JSON_INT,
    LEAT_RECORD_UINT = LEAT_JSON_UINT,
    LEAT_RECORD_FLOAT = LEAT_JSON_FLOAT,
    LEAT_RECORD_STR = LEAT_JSON_STR,
    LEAT_RECORD_EMPTY_LIST,
    LEAT_RECORD_BOOLS, /* lists of one type */
    LEAT_RECORD_INTS,
    LEAT_RECORD_UINTS,
    LEAT_RECORD_FLOATS, /* also of floats and integers */
    LEAT_RECORD_LIST,   /* any other */
    LEAT_RECORD_OBJECT, /* empty, nested too deep for properties, or wanted as it is */
    LEAT_RECORD_TYPES
};

struct leat_property {
    uint32_t parent, first_child, last_child, next; /* UINT32_MAX: none; the root is node 0 */
    uint32_t n_children;
    uint32_t key, key_length; /* in `keys`, decoded */
    bool wide;                /* an object here had keys that found no room, and were passed over */
    bool partial;             /* it may be one of those, in a part of the records */
};

struct leat_property_tree {
    struct leat_property *nodes;
    size_t n, room;
    char *keys;
    size_t keys_n, keys_room;
    bool full; /* there were more than LEAT_RECORD_PROPERTIES; what had no room made its parent wide */
};
bool leat_property_tree_init(struct leat_property_tree *tree); /* false: no memory */
void leat_property_tree_destroy(struct leat_property_tree *tree);
/* The child with that key, UINT32_MAX if there is none; or makes it. UINT32_MAX then: no memory, or no room. */
uint32_t leat_property_find(const struct leat_property_tree *tree, uint32_t parent, const char *key, size_t length);
uint32_t leat_property_add(struct leat_property_tree *tree, uint32_t parent, const char *key, size_t length);

/* Integers below 0; integers that no double is. */
enum { LEAT_INTEGERS_BELOW = 1, LEAT_INTEGERS_INEXACT = 2 };

struct leat_record_leaf {
    uint32_t property;
    enum leat_record_type type;
    const uint8_t *text; /* the value as it stands in the record; of a string, without its quotes */
    size_t length;
    bool escaped;                /* a string with escapes: leat_json_unescape */
    bool beyond;                 /* of a list: it has integers beyond int64_t */
    uint8_t integers;            /* what it has: LEAT_INTEGERS_BELOW, LEAT_INTEGERS_INEXACT */
    const uint8_t *nan;          /* of a FLOAT or a list: the first NaN or Infinity; NULL: there is none */
    union leat_json_bits number; /* BOOL, INT, UINT, FLOAT */
};
enum leat_record_wish {
    LEAT_WISH_NONE = 0,
    LEAT_WISH_BELOW, /* something below it */
    LEAT_WISH_LEAF,
    LEAT_WISH_WHOLE, /* its value as it is, whatever it is */
    LEAT_WISH_BOTH   /* and something below it */
};
/* Called for each leaf in the order of the record. False: stop. */
typedef bool leat_record_tell(void *user, const struct leat_record_leaf *leaf);

struct leat_record_walk {
    struct leat_property_tree *tree;
    /* NULL: new keys are added to the tree, and all leaves are told of. Else what is wanted of each node, and the rest
     * is passed over. */
    const uint8_t *wanted; /* of enum leat_record_wish */
    uint64_t *seen; /* NULL, or of `seen_room` nodes: the last record (`number`) in which the key was met; grows */
    size_t seen_room;
    uint64_t number; /* above 0, another one for each record */
    bool is_utf8;    /* the record is known to be UTF-8 */
    leat_record_tell *tell;
    void *user;
    /* the result */
    struct leat_json json; /* its fault, and where in the record */
    bool stopped;          /* by tell */
    bool no_memory;
    /* inner */
    unsigned whole; /* objects around that are kept as they are */
    char *key;
    size_t key_room;
};
/* Walks through the record of n bytes, which begins with its brace. False: a fault, no memory, or stopped. One thread
 * for each walk. */
bool leat_record_run(struct leat_record_walk *walk, const uint8_t *record, size_t n);
void leat_record_walk_destroy(struct leat_record_walk *walk);

/* The elements of a list of numbers that was walked through, as `type` says (BOOLS: bytes, INTS: int64_t, UINTS:
 * uint64_t, FLOATS: double; INTS may be read as any of the last three). `to` NULL: only counts. */
size_t leat_record_elements(const uint8_t *text, size_t length, enum leat_record_type as, void *to);

#endif
