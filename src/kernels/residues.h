/*
 * Texts of residues and of qualities: bytes from '!' to '~'. All else is white space, or wrong.
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

/* Copies n bytes. False: one is no residue. */
static inline bool leat_residues_copy(uint8_t *restrict to, const uint8_t *restrict from, size_t n)
{
    uint8_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        wrong |= (uint8_t)(from[i] - '!') > '~' - '!';
    }
    return !wrong;
}

/* Whether all n bytes are residues. */
static inline bool leat_residues_are(const uint8_t *p, size_t n)
{
    uint8_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong |= (uint8_t)(p[i] - '!') > '~' - '!';
    return !wrong;
}

#endif
