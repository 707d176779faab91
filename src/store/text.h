/* Whether bytes are text: UTF-8, or JSON (RFC 8259). Values of str and json fields are checked when they are written,
 * and again when they are read: a file may have been made by anyone. */
#ifndef LEAT_STORE_TEXT_H
#define LEAT_STORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "leat/leat.h"

/* The offset of what is wrong in one JSON value (its first byte, or the beginning of a number or an escape), or `n` if
 * all is well; nesting up to 512. Bytes must be UTF-8 too. Any thread. */
size_t leat_json_check(const void *text, size_t n);
/* Whether it is a value of that kind; for kinds that are no text, anything is. False: *bad is the byte that is
 * wrong. */
bool leat_text_fits(enum leat_kind kind, const void *text, size_t n, size_t *bad);
/* The kind of such a value, in words. */
static inline const char *leat_text_kind(enum leat_kind kind)
{
    return kind == LEAT_KIND_JSON ? "JSON" : "UTF-8 text";
}

#endif
