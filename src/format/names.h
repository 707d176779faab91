/*
 * How files find each other by their names: a photo its annotations or its mask, an image of COCO its photo. There is
 * one rule:
 *
 *     a//b.jpg, ./a/b.jpg     are a/b.jpg
 *     b.TXT, b.Txt            are b.txt: the case of an extension does not count; that of the rest does
 *     b\u00e9.txt, be\u0301.txt, B\u00e9.txt    are other names: one is not taken for the other, but it is said
 *
 * If several names are the same so, the one that is spelled as it was asked for is found, else the first in bytewise
 * order.
 */
#ifndef LEAT_FORMAT_NAMES_H
#define LEAT_FORMAT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/listing.h"

/* A longer name is of no file. */
#define LEAT_NAME_BYTES 4096

struct leat_name;
struct leat_names {
    char *text; /* as they were added, with a NUL behind each */
    size_t text_n, text_room;
    struct leat_name *all;
    size_t n, room;
    uint32_t *table; /* of the hash of a name: 1 + the first that has it */
    size_t mask;
};

enum leat_names_found {
    LEAT_NAMES_NONE,
    LEAT_NAMES_FOUND,
    LEAT_NAMES_OTHER_FORM /* only a name in another form of Unicode, or in another case */
};

/* False: no memory. */
bool leat_names_add(struct leat_names *names, const char *name);
bool leat_names_add_listing(struct leat_names *names, const struct leat_listing *listing);
void leat_names_destroy(struct leat_names *names);
/* The number of a name is that of names that were added before it. */
const char *leat_names_at(const struct leat_names *names, size_t number);
/* The name that is meant by another one: its number, in *number. Any thread, if nobody adds. */
enum leat_names_found leat_names_find(const struct leat_names *names, const char *name, size_t *number);

/* A name that differs from another one in its form of Unicode alone: its number, in *number. */
bool leat_names_find_form(const struct leat_names *names, const char *name, size_t *number);

/* As leat_names_find, of a name with the slashes of Windows. */
enum leat_names_found leat_names_find_slashed(const struct leat_names *names, const char *name, size_t *number);

/* The name with its slashes put right, in `out`, which may be the name itself. */
void leat_name_clean(const char *name, char *out);
/* Whether a name that is not hidden ends in an extension, such as ".txt". */
bool leat_name_ends_in(const char *name, const char *extension);
/* Up to the extension, if there is one. */
size_t leat_name_stem(const char *name);
/* The photo's or another name with its extension replaced, in `out` of LEAT_NAME_BYTES; false: it is too long. */
bool leat_name_with(const char *name, const char *extension, char *out);
/* Whether two texts differ, and in their form of Unicode alone. */
bool leat_name_is_form_of(const char *a, const char *b);
/* "; ... are one name in two forms of Unicode: ...", of two names that meet only so, or but for their case; `taken`:
 * another name meets the second as it is spelled, and so it is not to be renamed. Returns `out`. */
const char *leat_names_say_forms(const char *a, const char *b, bool taken, char *out, size_t room);

/* Cuts white space off both ends of a text, as of names of classes. */
void leat_trim(char *text);
bool leat_is_blank(const char *text); /* nothing but white space, or empty */

#endif
