/* The text of an error about a name that is not there: the one that may be meant, and those that there are. */
#ifndef LEAT_BASE_KNOWN_H
#define LEAT_BASE_KNOWN_H

#include <stddef.h>

#include "leat/leat.h"

#define LEAT_FIELD_NAME 64 /* the bytes of a field's name, with the NUL */

/* n names; `at` gives each. */
struct leat_known {
    const char *(*at)(const void *of, size_t i);
    const void *of;
    size_t n;
};

struct leat_known leat_known_fields(const struct leat_field *fields, size_t n);
struct leat_known leat_known_texts(char (*texts)[LEAT_FIELD_NAME], size_t n);

/* Edits of one letter, or of two that have changed places, which lead from a name of n bytes to one of m, in either
 * case; `most` + 1: more. */
unsigned leat_known_edits(const char *a, size_t n, const char *b, size_t m, unsigned most);
/* leat_nearest: the number of the name; names->n: none. */
size_t leat_known_near(const struct leat_known *names, const char *name);

/* LEAT_E_*, by `format`, to which is added `: did you mean "label"? It has x, label`, or `: it has x, label` if none is
 * near. Many names are cut. */
int leat_fail_name(struct leat_error *error, int code, const struct leat_known *names, const char *name,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
