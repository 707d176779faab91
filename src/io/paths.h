/* Names of files. Patterns of them are public: leat_paths_expand. */
#ifndef LEAT_IO_PATHS_H
#define LEAT_IO_PATHS_H

#include <stdbool.h>

/* Whether leat has put a file there: an index beside a file, the copy of a compressed one, or one not finished. */
bool leat_path_is_ours(const char *path);

#endif
