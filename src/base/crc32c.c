/*
 * CRC-32C: the processor has an instruction for it, or a table for each byte of eight is used, which is made once from
 * the polynomial.
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "base/cpu.h"

#define POLYNOMIAL UINT32_C(0x82f63b78) /* bits in the order in which they come */

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (uint32_t i = 0; i < 256; i++)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
}

static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= crc;
        crc = 0;
        for (int t = 0; t < 8; t++)
            crc ^= tables[7 - t][word >> (8 * t) & 255];
    }
    for (; n; p++, n--)
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 255];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n; p++, n--)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#endif

uint32_t leat_crc32c(uint32_t crc, const void *data, size_t n)
{
#if defined(__x86_64__)
    if (leat_cpu_isa() != LEAT_ISA_PORTABLE) /* each of the others has it */
        return ~by_instruction(~crc, data, n);
#endif
    pthread_once(&once, make_tables);
    return ~by_table(~crc, data, n);
}
