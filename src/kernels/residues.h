/*
 * Texts of residues and of qualities: bytes from '!' to '~', in lines with white space between them.
 */
#ifndef LEAT_KERNELS_RESIDUES_H
#define LEAT_KERNELS_RESIDUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool leat_is_residue(uint8_t c)
{
    return (uint8_t)(c - '!') <= '~' - '!';
}

static inline bool leat_is_white(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether all n bytes are residues. */
bool leat_residues_are(const uint8_t *p, size_t n);

/* Copies n residues of lines, without what stands between: the first line has `left`, the others `line` of them, and
 * behind each there are `between` bytes. False: a byte of a line is no residue, or one between no white space; then
 * `to` holds anything. It reads no byte behind the last residue. */
bool leat_residues_copy(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                        uint8_t mark);
/* The same for each instruction set, for tests. AVX-512 gains nothing. */
bool leat_residues_copy_portable(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                                 uint8_t mark);
bool leat_residues_copy_avx2(uint8_t *to, const uint8_t *from, size_t n, size_t left, size_t line, size_t between,
                             uint8_t mark);

#endif
