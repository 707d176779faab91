/*
 * The common part of operators on tokens: a value is a list of integers, of a fixed length or as it is stored, and the
 * result is int64, as models take it. They are `call` (operator.h), and parts of the library.
 */
#ifndef LEAT_OP_TOKEN_OPS_H
#define LEAT_OP_TOKEN_OPS_H

#include "op/operator.h"
#include "op/stage.h"

#define LEAT_NO_LABEL (-100) /* labels without a loss: the ignore_index of PyTorch's */
#define LEAT_MAX_SPECIAL 64

/* Bytes of an integer. */
static inline size_t leat_dtype_width(enum leat_dtype dtype)
{
    return dtype == LEAT_U8 || dtype == LEAT_I8     ? 1
           : dtype == LEAT_U16 || dtype == LEAT_I16 ? 2
           : dtype == LEAT_U32 || dtype == LEAT_I32 ? 4
                                                    : 8;
}

/* A Weyl sequence under the mixing function of 32 bits with least bias among those with two multiplications (Wellons,
 * "Prospecting for hash functions"), keyed by the halves of a key: vectors multiply 32 bits, as they lack an
 * instruction for 64. It never changes. */
LEAT_INLINE uint32_t leat_tokens_draw(uint32_t low, uint32_t high, uint32_t i)
{
    uint32_t x = i * UINT32_C(0x9e3779b9) + low;
    x ^= x >> 16;
    x *= UINT32_C(0x21f0aaad);
    x ^= x >> 15 ^ high;
    x *= UINT32_C(0xd35a2d97);
    return x ^ x >> 15;
}

/* A function `f` of a struct of arguments, LEAT_INLINE, for each instruction set. */
#if defined(__x86_64__)
#define LEAT_TOKENS_FOR_EACH_ISA(f, type)                                                                              \
    static LEAT_TARGET_AVX512 void f##_avx512(const type *t)                                                           \
    {                                                                                                                  \
        f(t);                                                                                                          \
    }                                                                                                                  \
    static LEAT_TARGET_AVX2 void f##_avx2(const type *t)                                                               \
    {                                                                                                                  \
        f(t);                                                                                                          \
    }                                                                                                                  \
    static void f##_on(const type *t)                                                                                  \
    {                                                                                                                  \
        const enum leat_isa isa = leat_cpu_isa();                                                                      \
        if (isa == LEAT_ISA_AVX512)                                                                                    \
            f##_avx512(t);                                                                                             \
        else if (isa == LEAT_ISA_AVX2)                                                                                 \
            f##_avx2(t);                                                                                               \
        else                                                                                                           \
            f(t);                                                                                                      \
    }
#else
#define LEAT_TOKENS_FOR_EACH_ISA(f, type)                                                                              \
    static void f##_on(const type *t)                                                                                  \
    {                                                                                                                  \
        f(t);                                                                                                          \
    }
#endif

/* Widens n tokens of a dtype to int64. Inline, so that it is compiled for the instruction set of the loop that it
 * stands in. */
#define LEAT_WIDEN(type)                                                                                               \
    for (size_t i = 0; i < n; i++)                                                                                     \
        to[i] = (int64_t)((const type *)src)[i];                                                                       \
    return;
LEAT_INLINE void leat_tokens_widen(enum leat_dtype dtype, const void *src, int64_t *restrict to, size_t n)
{
    switch (dtype) {
    case LEAT_U8:
        LEAT_WIDEN(uint8_t)
    case LEAT_I8:
        LEAT_WIDEN(int8_t)
    case LEAT_U16:
        LEAT_WIDEN(uint16_t)
    case LEAT_I16:
        LEAT_WIDEN(int16_t)
    case LEAT_U32:
        LEAT_WIDEN(uint32_t)
    case LEAT_I32:
        LEAT_WIDEN(int32_t)
    default: /* u64 as its bits */
        LEAT_WIDEN(int64_t)
    }
}
/* As above for a few tokens of a row that has `left` from `src` on, with `room` from `to` on: `some`, a constant, at a
 * time, so that more than n may be written, which is faster. */
LEAT_INLINE void leat_tokens_widen_some(enum leat_dtype dtype, const void *src, uint64_t left, int64_t *restrict to,
                                        uint64_t room, size_t n, size_t some)
{
    const size_t size = leat_dtype_width(dtype), round = (n + some - 1) / some * some;
    if (round > left || round > room) {
        leat_tokens_widen(dtype, src, to, n);
        return;
    }
    for (size_t at = 0; at < n; at += some)
        leat_tokens_widen(dtype, (const uint8_t *)src + at * size, to + at, some);
}
/* The number of elements of a value of `bytes`, a list, as an operator takes it. */
static inline size_t leat_list_count(const struct leat_use *use, uint64_t bytes)
{
    return (size_t)(use->in.shape[0] < 0 ? bytes / leat_type_step(&use->in) : (uint64_t)use->in.shape[0]);
}
/* The number of tokens of a value of `bytes` when those equal to `fill` at its end are taken off, if `has_fill`. */
size_t leat_tokens_count(enum leat_dtype dtype, const void *src, uint64_t bytes, bool has_fill, int64_t fill);
/* Whether the type is a list of integers. */
bool leat_type_is_tokens(const struct leat_type *type);
/* Whether it is one of bytes, such as the residues of a sequence; and in words. */
static inline bool leat_type_is_residues(const struct leat_type *type)
{
    return leat_type_is_tokens(type) && type->dtype == LEAT_U8;
}
#define LEAT_RESIDUES "a list of residues: letters as a field of uint8"
/* `infer` and `count` of operators that change lists of integers and keep their length. */
int leat_infer_tokens(const void *args, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error);
uint64_t leat_count_tokens(const void *args, uint64_t n);
/* "part" of operators that give two outputs: "inputs" (false), or "labels". */
bool leat_args_part(struct leat_args *args);
/* An id of a token: [0, 2^53). Absent: `fallback`, which may be -1. */
void leat_args_token(struct leat_args *args, const char *name, int64_t fallback, int64_t *out);

#endif
