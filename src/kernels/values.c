/* Conversions between all pairs of types, in portable C; the pairs that matter are vectorised in kernels_*.c. */
#include "kernels/values.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"

unsigned leat_dtype_value_bits(enum leat_dtype t)
{
    switch (t) {
    case LEAT_U8:
    case LEAT_U16:
    case LEAT_U32:
    case LEAT_U64:
        return (unsigned)leat_dtype_size(t) * 8;
    case LEAT_I8:
    case LEAT_I16:
    case LEAT_I32:
    case LEAT_I64:
        return (unsigned)leat_dtype_size(t) * 8 - 1;
    default:
        return 0;
    }
}

double leat_dtype_largest(enum leat_dtype t)
{
    return t == LEAT_BOOL ? 1.0 : ldexp(1.0, (int)leat_dtype_value_bits(t)) - 1.0;
}

static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact */
        float v = (float)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    uint32_t bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Conversion to float16: a loop over many, compiled for each instruction set. */
LEAT_INLINE void to_halves(const float *restrict from, uint16_t *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = leat_float_to_half(from[i]);
}

static void to_halves_portable(const float *from, uint16_t *to, size_t n)
{
    to_halves(from, to, n);
}
#if defined(__x86_64__)
static LEAT_TARGET_AVX2 void to_halves_avx2(const float *from, uint16_t *to, size_t n)
{
    to_halves(from, to, n);
}
static LEAT_TARGET_AVX512 void to_halves_avx512(const float *from, uint16_t *to, size_t n)
{
    to_halves(from, to, n);
}
#endif

static inline int64_t cut(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
static inline uint64_t cut_unsigned(double v)
{
    return v >= 0x1p63 && v < 0x1p64 ? (uint64_t)v : (uint64_t)cut(v);
}

/* Each type: its name, as it lies in memory, how it is read, and how integers are made of it. */
#define TYPES(X)                                                                                                       \
    X(U8, uint8_t, SAME, WRAP)                                                                                         \
    X(I8, int8_t, SAME, WRAP)                                                                                          \
    X(U16, uint16_t, SAME, WRAP)                                                                                       \
    X(I16, int16_t, SAME, WRAP)                                                                                        \
    X(U32, uint32_t, SAME, WRAP)                                                                                       \
    X(I32, int32_t, SAME, WRAP)                                                                                        \
    X(U64, uint64_t, SAME, WRAP)                                                                                       \
    X(I64, int64_t, SAME, WRAP)                                                                                        \
    X(F16, uint16_t, half_to_float, CUT)                                                                               \
    X(BF16, uint16_t, leat_bfloat_to_float, CUT)                                                                       \
    X(F32, float, SAME, CUT)                                                                                           \
    X(F64, double, SAME, CUT)                                                                                          \
    X(BOOL, uint8_t, NOT_0, WRAP)
#define SAME(v) (v)
#define NOT_0(v) ((v) != 0)
#define WRAP(T, v) ((T)(v))
#define CUT(T, v) ((T)((T)-1 > 0 && sizeof(T) == 8 ? cut_unsigned((double)(v)) : (uint64_t)cut((double)(v))))

/* memcpy: values at rest may lie at any address. */
#define LOOP(TO, D, STORE)                                                                                             \
    case LEAT_##TO:                                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                               \
            source v;                                                                                                  \
            memcpy(&v, s + i * sizeof v, sizeof v);                                                                    \
            D r = STORE;                                                                                               \
            memcpy(d + i * sizeof r, &r, sizeof r);                                                                    \
        }                                                                                                              \
        break;
#define FROM(NAME, S, LOAD, INTEGER)                                                                                   \
    static void from_##NAME(enum leat_dtype to, const uint8_t *s, uint8_t *d, size_t n)                                \
    {                                                                                                                  \
        typedef S source;                                                                                              \
        switch (to) {                                                                                                  \
            LOOP(U8, uint8_t, INTEGER(uint8_t, LOAD(v)))                                                               \
            LOOP(I8, int8_t, INTEGER(int8_t, LOAD(v)))                                                                 \
            LOOP(U16, uint16_t, INTEGER(uint16_t, LOAD(v)))                                                            \
            LOOP(I16, int16_t, INTEGER(int16_t, LOAD(v)))                                                              \
            LOOP(U32, uint32_t, INTEGER(uint32_t, LOAD(v)))                                                            \
            LOOP(I32, int32_t, INTEGER(int32_t, LOAD(v)))                                                              \
            LOOP(U64, uint64_t, INTEGER(uint64_t, LOAD(v)))                                                            \
            LOOP(I64, int64_t, INTEGER(int64_t, LOAD(v)))                                                              \
            LOOP(F16, uint16_t, leat_float_to_half((float)LOAD(v)))                                                    \
            LOOP(BF16, uint16_t, leat_float_to_bfloat((float)LOAD(v)))                                                 \
            LOOP(F32, float, (float)LOAD(v))                                                                           \
            LOOP(F64, double, (double)LOAD(v))                                                                         \
            LOOP(BOOL, uint8_t, LOAD(v) != 0)                                                                          \
        }                                                                                                              \
    }
TYPES(FROM)

void leat_values_convert(enum leat_dtype from, enum leat_dtype to, const void *src, void *dst, size_t n)
{
#define ENTRY(NAME, S, LOAD, INTEGER) [LEAT_##NAME] = from_##NAME,
    static void (*const table[])(enum leat_dtype, const uint8_t *, uint8_t *, size_t) = {TYPES(ENTRY)};
    if (from == to)
        memcpy(dst, src, n * leat_dtype_size(from)); /* n may be 0 */
    else if (from == LEAT_F32 && to == LEAT_F16 && !((uintptr_t)src % 4) && !((uintptr_t)dst % 2))
        LEAT_OF_ISA(leat_cpu_isa(), to_halves)(src, dst, n);
    else
        table[from](to, src, dst, n);
}

/* Turned in blocks, so that source and destination both stay in the first-level cache; and a column of a block at a
 * time, because one of the sides is nearly always the few channels of an image. */
#define TRANSPOSE(T)                                                                                                   \
    {                                                                                                                  \
        enum { BLOCK = 256 };                                                                                          \
        const T *s = src;                                                                                              \
        T *d = dst;                                                                                                    \
        for (size_t r = 0; r < rows; r += BLOCK)                                                                       \
            for (size_t c = 0, end = r + BLOCK < rows ? r + BLOCK : rows; c < columns; c++)                            \
                for (size_t i = r; i < end; i++)                                                                       \
                    d[c * rows + i] = s[i * columns + c];                                                              \
        break;                                                                                                         \
    }

void leat_values_transpose(size_t size, const void *src, void *dst, size_t rows, size_t columns)
{
    switch (size) {
    case 1:
        TRANSPOSE(uint8_t)
    case 2:
        TRANSPOSE(uint16_t)
    case 4:
        TRANSPOSE(uint32_t)
    default:
        TRANSPOSE(uint64_t)
    }
}
