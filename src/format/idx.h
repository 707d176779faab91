#ifndef LEAT_FORMAT_IDX_H
#define LEAT_FORMAT_IDX_H

#include <stdint.h>

/* An array that cannot be mapped, because it is compressed or of another byte order, is read into memory at opening if
 * it has up to so many bytes. A longer one is decoded block by block. Set by tests. */
extern uint64_t leat_idx_memory_bytes;

#endif
