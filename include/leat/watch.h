/*
 * libleat: what the loaders of a process are doing, for people who look at it from another one (leat top).
 */
#ifndef LEAT_WATCH_H
#define LEAT_WATCH_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most bytes of a text for leat_loader_tell, with its end. */
#define LEAT_MOST_TOLD 2048

/* The state of the loaders of a running process, as a JSON list with an object for each loader (at most 32), freed with
 * leat_free; docs/cli.md names the keys. The process must be the same user's. Any thread. Errors: NOT_FOUND (no such
 * process; it has opened no loader), IO (another user's), UNSUPPORTED (another version), NOMEM. */
LEAT_API int leat_loader_of_process(int pid, char **json, struct leat_error *error);

/* Sets what leat_loader_of_process says of this loader besides, under the key "elsewhere": a JSON object, of what makes
 * its rows in other processes. It replaces the one before, and is copied. Any thread. Errors: INVALID (longer than
 * LEAT_MOST_TOLD), CLOSED, FORKED. */
LEAT_API int leat_loader_tell(struct leat_loader *loader, const char *json, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
