/* Whether bytes are text: UTF-8 (no surrogates, no overlong forms) and JSON (RFC 8259). Values of str and json fields
 * are checked when they are written, so that no reader has to. */
#ifndef LEAT_STORE_TEXT_H
#define LEAT_STORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The offset of the first byte that is wrong, or `n` if all is well. Any thread. */
size_t leat_utf8_check(const void *text, size_t n);
/* As above for one JSON value; nesting up to 512. Bytes must be UTF-8 too. */
size_t leat_json_check(const void *text, size_t n);

#endif
