/* Little-endian numbers in unaligned memory, for parsers and writers. */
#ifndef LEAT_BASE_BYTES_H
#define LEAT_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "leat runs on little-endian machines"
#endif

static inline uint16_t leat_get_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}
static inline uint32_t leat_get_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t leat_get_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline void leat_put_u16(void *p, uint16_t v)
{
    memcpy(p, &v, 2);
}
static inline void leat_put_u32(void *p, uint32_t v)
{
    memcpy(p, &v, 4);
}
static inline void leat_put_u64(void *p, uint64_t v)
{
    memcpy(p, &v, 8);
}

#endif
