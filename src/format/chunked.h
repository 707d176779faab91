/* Arrays that lie in files, whole or in chunks (leat/stored.h), as files of their elements in the order of C. */
#ifndef LEAT_FORMAT_CHUNKED_H
#define LEAT_FORMAT_CHUNKED_H

#include "io/file.h"
#include "leat/stored.h"

struct leat_chunked; /* any thread */

/* Copies the description, but for the table of chunks, which stays the caller's. Nothing is opened yet. Errors:
 * INVALID, UNSUPPORTED (a filter), NOMEM. */
int leat_chunked_new(const struct leat_stored_array *array, struct leat_chunked **out, struct leat_error *error);
void leat_chunked_free(struct leat_chunked *array); /* NULL is allowed */

/* Reads elements [first, first + n) in the order of C. Errors: INVALID (there are not so many), DECODE (damaged, with
 * file and byte), CHANGED, IO, NOMEM. */
int leat_chunked_read(struct leat_chunked *array, uint64_t first, uint64_t n, void *to, struct leat_error *error);
/* Starts to read what elements [first, first + n) need, if they are on another machine. */
void leat_chunked_ahead(struct leat_chunked *array, uint64_t first, uint64_t n);
/* Elements [first, first + n) are read next: the processor is asked for them, if they are in memory. */
void leat_chunked_expect(struct leat_chunked *array, uint64_t first, uint64_t n);
/* As leat_io_within, for elements [first, first + n). */
bool leat_chunked_within(struct leat_chunked *array, uint64_t first, uint64_t n,
                         void (*look)(void *user, const uint8_t *bytes), void *user);
/* Whether the files are those that were described, as far as the system shows. Errors: CHANGED, IO. */
int leat_chunked_check(struct leat_chunked *array, struct leat_error *error);

uint64_t leat_chunked_elements(const struct leat_chunked *array);
const char *leat_chunked_name(const struct leat_chunked *array);
/* Where an element is, for errors: the path of its file, and the byte there, of its chunk if it lies in one;
 * LEAT_STORED_MISSING: of one that was not written. */
const char *leat_chunked_place(const struct leat_chunked *array, uint64_t element, uint64_t *byte);

#endif
