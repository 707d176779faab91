/*
 * The resources that the machine offers this process: vector instructions and address space. Cores and memory are
 * leat_cpu_count and leat_memory_allowed of leat.h.
 */
#ifndef LEAT_BASE_CPU_H
#define LEAT_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

enum leat_isa { LEAT_ISA_PORTABLE = 0, LEAT_ISA_AVX2, LEAT_ISA_AVX512 };

/* The instructions that functions of each set are compiled for. cpu.c asks the processor for all of them, because
 * compilers use all that they may. */
#define LEAT_TARGET_AVX2 __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt,movbe")))
#define LEAT_TARGET_AVX512                                                                                             \
    __attribute__((target(                                                                                             \
        "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni,avx2,fma,bmi,bmi2,lzcnt,popcnt,movbe")))

/* For functions that are compiled into callers of several instruction sets, with the instructions of each. */
#define LEAT_INLINE static inline __attribute__((always_inline))
/* Before a loop over a few registers, which gcc else keeps in memory, or of a few instructions, which it else repeats
 * one by one. */
#if defined(__clang__)
#define LEAT_UNROLL
#else
#define LEAT_UNROLL _Pragma("GCC unroll 16")
#endif

/* Chooses among NAME_portable, NAME_avx2 and NAME_avx512. */
#if defined(__x86_64__)
#define LEAT_OF_ISA(isa, NAME)                                                                                         \
    ((isa) == LEAT_ISA_AVX512 ? NAME##_avx512 : (isa) == LEAT_ISA_AVX2 ? NAME##_avx2 : NAME##_portable)
#else
#define LEAT_OF_ISA(isa, NAME) ((void)(isa), NAME##_portable)
#endif

/* The best instruction set of this machine, or a lower one that the environment variable LEAT_ISA names. Fixed at the
 * first call. */
enum leat_isa leat_cpu_isa(void);

/* The lower of `best` and the set named `wish`: "portable", "avx2", "avx512", or NULL or "" for none. A name that is
 * not known, or of a set above `best`, only leads to a warning in the log. */
enum leat_isa leat_cpu_isa_wished(enum leat_isa best, const char *wish);

/* Bytes that may still be mapped: the rest of RLIMIT_AS (ulimit -v). UINT64_MAX: no limit. */
uint64_t leat_address_space_left(void);

#endif
