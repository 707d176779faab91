/*
 * Hashes of whole files that writers note beside them, by their names in Python's hashlib and xxhash: "sha1", "xxh64".
 * xxHash is a library of leat's own; the others are those of OpenSSL, which is loaded when one is wanted.
 */
#ifndef LEAT_IO_DIGESTS_H
#define LEAT_IO_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_DIGEST_NAME 16
#define LEAT_DIGEST_TEXT 130 /* hexadecimal digits of the longest one, and a NUL */

struct leat_digest; /* one thread */

/* UNSUPPORTED: no hash of this name is known, or its library is missing, and it says which. NOMEM. */
int leat_digest_begin(const char *name, struct leat_digest **out, struct leat_error *error);
void leat_digest_add(struct leat_digest *digest, const void *bytes, size_t n);
/* Writes it in small hexadecimal digits, unless `text` is NULL, and frees it. NULL is allowed. */
void leat_digest_end(struct leat_digest *digest, char text[LEAT_DIGEST_TEXT]);

#endif
