/* CRC-32C (Castagnoli), as TFRecord and others have it. */
#ifndef LEAT_BASE_CRC32C_H
#define LEAT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* That of bytes that follow others, whose CRC is `crc`; 0: there are none. Any thread. */
uint32_t leat_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
