/* Bytes through a table of 256: dst[i] = table[src[i]], for n of them. dst may be src. */
#ifndef LEAT_OP_BYTE_TABLE_H
#define LEAT_OP_BYTE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

typedef void (*leat_byte_table_fn)(const uint8_t *table, const uint8_t *src, uint8_t *dst, size_t n);
leat_byte_table_fn leat_byte_table_of(enum leat_isa isa);

#endif
