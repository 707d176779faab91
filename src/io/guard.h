/*
 * Reading mapped files without dying. A file that is cut (or whose disk fails) while it is mapped raises SIGBUS at the
 * next touch. leat_guarded runs a function; if SIGBUS strikes inside a range that leat mapped, the function is
 * abandoned and an error returned; any other SIGBUS goes to the handler that was there before.
 *
 * The function may therefore stop anywhere: it takes no lock, allocates nothing, and calls nothing that does. Our own
 * copy, crop and convert kernels are such functions; library decoders are not: they get bytes that were copied.
 */
#ifndef LEAT_IO_GUARD_H
#define LEAT_IO_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* Declares [base, base + bytes) as a mapping of `path` (kept, not copied), and takes it back: ranges of several lengths
 * may begin at one place. Any thread. */
int leat_guard_add(const void *base, size_t bytes, const char *path);
void leat_guard_remove(const void *base, size_t bytes);

/* Calls fn(arg); returns its result, or LEAT_E_IO with file and offset if the mapping faulted. Nests: the innermost
 * call is abandoned. Costs some 20 ns. Any thread. */
int leat_guarded(int (*fn)(void *arg), void *arg, struct leat_error *error);
/* Copies mapped bytes, and takes their leat_hash64. LEAT_E_IO, as above. */
int leat_guarded_copy(void *to, const void *from, size_t bytes, struct leat_error *error);
int leat_guarded_hash(const void *from, size_t bytes, uint64_t *hash, struct leat_error *error);

#endif
