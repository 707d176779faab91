/* Names of files. Patterns of them are public: leat_paths_expand. */
#ifndef LEAT_IO_PATHS_H
#define LEAT_IO_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_error;

/* The first bytes of a manifest of shards (store/manifest.h). */
#define LEAT_MANIFEST_HEAD "{\"format\": \"leat-manifest\""

/* Whether leat has put a file there: an index beside a file, the copy of a compressed one, or one not finished. */
bool leat_path_is_ours(const char *path);

/* Whether `path` is a folder, and if not, its first bytes: *n of at most `room`. NOT_FOUND, IO, CORRUPT; FORMAT: it is
 * a pointer of Git LFS, if `room` lets that be seen. */
int leat_path_look(const char *path, bool *folder, uint8_t *head, size_t room, size_t *n, struct leat_error *error);

#endif
