/*
 * A filter that is written once and compiled for every instruction set: LEAT_FILTER_FOR_EACH_ISA(f), behind a
 * LEAT_INLINE function f with the arguments below, defines f_on, which runs the right one. Functions that f calls are
 * LEAT_INLINE too. LEAT_VECTORIZE, before all these, has gcc vectorise their loops as it does at -O3. The results are
 * equal: integers, and floats that are rounded after each operation.
 */
#ifndef LEAT_OP_FILTER_H
#define LEAT_OP_FILTER_H

#include "op/operator.h"

#if defined(__clang__)
#define LEAT_VECTORIZE
#else
#define LEAT_VECTORIZE _Pragma("GCC optimize(\"O3\")")
#endif
#define LEAT_FILTER_ARGS                                                                                               \
    const void *args, uint64_t key, const struct leat_image *in, const struct leat_image *out, void *scratch
#if defined(__x86_64__)
#define LEAT_FILTER_FOR_EACH_ISA(f)                                                                                    \
    static LEAT_TARGET_AVX512 void f##_avx512(LEAT_FILTER_ARGS)                                                        \
    {                                                                                                                  \
        f(args, key, in, out, scratch);                                                                                \
    }                                                                                                                  \
    static LEAT_TARGET_AVX2 void f##_avx2(LEAT_FILTER_ARGS)                                                            \
    {                                                                                                                  \
        f(args, key, in, out, scratch);                                                                                \
    }                                                                                                                  \
    static void f##_on(enum leat_isa isa, LEAT_FILTER_ARGS)                                                            \
    {                                                                                                                  \
        if (isa == LEAT_ISA_AVX512)                                                                                    \
            f##_avx512(args, key, in, out, scratch);                                                                   \
        else if (isa == LEAT_ISA_AVX2)                                                                                 \
            f##_avx2(args, key, in, out, scratch);                                                                     \
        else                                                                                                           \
            f(args, key, in, out, scratch);                                                                            \
    }
#else
#define LEAT_FILTER_FOR_EACH_ISA(f)                                                                                    \
    static void f##_on(enum leat_isa isa, LEAT_FILTER_ARGS)                                                            \
    {                                                                                                                  \
        f(args, key, in, out, scratch);                                                                                \
    }
#endif

#endif
