#ifndef LEAT_FORMAT_IDX_H
#define LEAT_FORMAT_IDX_H

#include "format/source.h"

/* Opens an IDX file. An array that cannot be mapped, because it is compressed or of another byte order, is read into
 * memory if it has at most `memory_bytes`. A longer one is decoded block by block. */
int leat_idx_open(const char *path, uint64_t memory_bytes, struct leat_source **out, struct leat_error *error);

#endif
