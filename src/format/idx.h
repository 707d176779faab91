#ifndef LEAT_FORMAT_IDX_H
#define LEAT_FORMAT_IDX_H

#include <stdint.h>

/* An array of up to so many bytes that cannot be mapped as it is, because it is compressed or of another byte order, is
 * read into memory when it is opened; a longer one is decoded block by block. Set by tests. */
extern uint64_t leat_idx_memory_bytes;

#endif
