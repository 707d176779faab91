/*
 * Numbers of one type into numbers of another, as torch's .to() does: integers wrap, floats are cut towards zero on
 * their way to integers (out of range: as from INT64_MIN), halves are rounded to nearest even, to bool is "not zero".
 */
#ifndef LEAT_KERNELS_VALUES_H
#define LEAT_KERNELS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

/* n values; the arrays need no alignment and do not overlap. Any thread; takes no lock, allocates nothing. */
void leat_values_convert(enum leat_dtype from, enum leat_dtype to, const void *src, void *dst, size_t n);

/* A matrix of rows x columns elements of `size` bytes (1, 2, 4 or 8), packed and aligned for that size, turned over:
 * the pixels of an image as HWC into planes, and back. The arrays do not overlap. */
void leat_values_transpose(size_t size, const void *src, void *dst, size_t rows, size_t columns);

static inline bool leat_dtype_is_float(enum leat_dtype t)
{
    return t == LEAT_F16 || t == LEAT_BF16 || t == LEAT_F32 || t == LEAT_F64;
}
/* Bits of the value of an integer type (7 of int8); 0 for floats and bool. */
unsigned leat_dtype_value_bits(enum leat_dtype t);
/* The largest value of an integer type, 1 of bool. */
double leat_dtype_largest(enum leat_dtype t);

static inline uint16_t leat_float_to_half(float value)
{
    union {
        float f;
        uint32_t u;
    } x = {value}, m = {.u = x.u & 0x7fffffff};
    const uint32_t sign = (x.u >> 16) & 0x8000, magnitude = m.u;
    /* Without a branch, so that loops of it go into vectors. */
    const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    m.f += 0.5f; /* below 2^-14: the adder rounds to multiples of 2^-24 */
    const uint32_t small = m.u - 0x3f000000;
    const uint32_t finite = magnitude < 0x38800000 ? small : normal;
    const uint32_t large = magnitude > 0x7f800000 ? nan : 0x7c00;
    return (uint16_t)(sign | (magnitude >= 0x477ff000 ? large : finite)); /* 65520 and more round to infinity */
}
static inline float leat_bfloat_to_float(uint16_t b)
{
    union {
        uint32_t u;
        float f;
    } x = {(uint32_t)b << 16};
    return x.f;
}
static inline uint16_t leat_float_to_bfloat(float value)
{
    union {
        float f;
        uint32_t u;
    } x = {value};
    if ((x.u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((x.u >> 16) | 0x40); /* a NaN stays one */
    return (uint16_t)((x.u + 0x7fff + ((x.u >> 16) & 1)) >> 16);
}

#endif
