/*
 * Names in two forms of Unicode: "\u00e9" (NFC) and "e\u0301" (NFD) look alike, and are other bytes. macOS and archives
 * that were made there spell names in the second form.
 */
#ifndef LEAT_BASE_UNICODE_H
#define LEAT_BASE_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* The character at `text`, of at most n > 0 bytes: the number of its bytes; 0: that is not UTF-8. */
unsigned leat_unicode_read(const char *text, size_t n, uint32_t *c);

/* Writes the text with each character decomposed, and bytes that are not UTF-8 as they are. Both forms of a text give
 * the same bytes. Returns how many; `out` has room for LEAT_UNICODE_GROWTH times n. */
#define LEAT_UNICODE_GROWTH 3
size_t leat_unicode_decompose(const char *text, size_t n, char *out);

#endif
