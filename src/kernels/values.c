/* Conversions between all pairs of types, in portable C; the pairs that matter are vectorised in kernels_*.c. */
#include "kernels/values.h"

#include <math.h>

#include <string.h>

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

float leat_half_to_float(uint16_t half)
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

uint16_t leat_float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: the adder rounds to multiples of 2^-24 */
        float m;
        memcpy(&m, &magnitude, sizeof m);
        m += 0.5f;
        uint32_t sum;
        memcpy(&sum, &m, sizeof sum);
        return (uint16_t)(sign | (sum - 0x3f000000));
    }
    magnitude += 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((magnitude - (112u << 23)) >> 13));
}

static inline int64_t cut(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
static inline uint64_t cut_unsigned(double v)
{
    return v >= 0x1p63 && v < 0x1p64 ? (uint64_t)v : (uint64_t)cut(v);
}

#define SAME(v) (v)
#define FROM_HALF(v) leat_half_to_float(v)
#define FROM_BFLOAT(v) leat_bfloat_to_float(v)
/* memcpy: values at rest may lie at any address. */
#define LOOP(S, LOAD, D, STORE)                                                                                        \
    {                                                                                                                  \
        const uint8_t *s = src;                                                                                        \
        uint8_t *d = dst;                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                                               \
            S v;                                                                                                       \
            memcpy(&v, s + i * sizeof v, sizeof v);                                                                    \
            D r = STORE(LOAD(v));                                                                                      \
            memcpy(d + i * sizeof r, &r, sizeof r);                                                                    \
        }                                                                                                              \
        break;                                                                                                         \
    }

#define TO_U8(v) ((uint8_t)(v))
#define TO_I8(v) ((int8_t)(v))
#define TO_U16(v) ((uint16_t)(v))
#define TO_I16(v) ((int16_t)(v))
#define TO_U32(v) ((uint32_t)(v))
#define TO_I32(v) ((int32_t)(v))
#define TO_U64(v) ((uint64_t)(v))
#define TO_I64(v) ((int64_t)(v))
#define CUT_U8(v) ((uint8_t)cut((double)(v)))
#define CUT_I8(v) ((int8_t)cut((double)(v)))
#define CUT_U16(v) ((uint16_t)cut((double)(v)))
#define CUT_I16(v) ((int16_t)cut((double)(v)))
#define CUT_U32(v) ((uint32_t)cut((double)(v)))
#define CUT_I32(v) ((int32_t)cut((double)(v)))
#define CUT_U64(v) cut_unsigned((double)(v))
#define CUT_I64(v) cut((double)(v))
#define TO_HALF(v) leat_float_to_half((float)(v))
#define TO_BFLOAT(v) leat_float_to_bfloat((float)(v))
#define TO_F32(v) ((float)(v))
#define TO_F64(v) ((double)(v))
#define TO_BOOL(v) ((v) != 0)

/* One function per source type; INT is TO for integers and CUT for floats. */
#define FROM(NAME, S, LOAD, INT)                                                                                       \
    static void from_##NAME(enum leat_dtype to, const void *src, void *dst, size_t n)                                  \
    {                                                                                                                  \
        switch (to) {                                                                                                  \
        case LEAT_U8:                                                                                                  \
            LOOP(S, LOAD, uint8_t, INT##_U8)                                                                           \
        case LEAT_I8:                                                                                                  \
            LOOP(S, LOAD, int8_t, INT##_I8)                                                                            \
        case LEAT_U16:                                                                                                 \
            LOOP(S, LOAD, uint16_t, INT##_U16)                                                                         \
        case LEAT_I16:                                                                                                 \
            LOOP(S, LOAD, int16_t, INT##_I16)                                                                          \
        case LEAT_U32:                                                                                                 \
            LOOP(S, LOAD, uint32_t, INT##_U32)                                                                         \
        case LEAT_I32:                                                                                                 \
            LOOP(S, LOAD, int32_t, INT##_I32)                                                                          \
        case LEAT_U64:                                                                                                 \
            LOOP(S, LOAD, uint64_t, INT##_U64)                                                                         \
        case LEAT_I64:                                                                                                 \
            LOOP(S, LOAD, int64_t, INT##_I64)                                                                          \
        case LEAT_F16:                                                                                                 \
            LOOP(S, LOAD, uint16_t, TO_HALF)                                                                           \
        case LEAT_BF16:                                                                                                \
            LOOP(S, LOAD, uint16_t, TO_BFLOAT)                                                                         \
        case LEAT_F32:                                                                                                 \
            LOOP(S, LOAD, float, TO_F32)                                                                               \
        case LEAT_F64:                                                                                                 \
            LOOP(S, LOAD, double, TO_F64)                                                                              \
        case LEAT_BOOL:                                                                                                \
            LOOP(S, LOAD, uint8_t, TO_BOOL)                                                                            \
        }                                                                                                              \
    }
FROM(u8, uint8_t, SAME, TO)
FROM(i8, int8_t, SAME, TO)
FROM(u16, uint16_t, SAME, TO)
FROM(i16, int16_t, SAME, TO)
FROM(u32, uint32_t, SAME, TO)
FROM(i32, int32_t, SAME, TO)
FROM(u64, uint64_t, SAME, TO)
FROM(i64, int64_t, SAME, TO)
FROM(f16, uint16_t, FROM_HALF, CUT)
FROM(bf16, uint16_t, FROM_BFLOAT, CUT)
FROM(f32, float, SAME, CUT)
FROM(f64, double, SAME, CUT)
FROM(bool, uint8_t, TO_BOOL, TO)

void leat_values_convert(enum leat_dtype from, enum leat_dtype to, const void *src, void *dst, size_t n)
{
    static void (*const table[])(enum leat_dtype, const void *, void *, size_t) = {
        [LEAT_U8] = from_u8,    [LEAT_I8] = from_i8,     [LEAT_U16] = from_u16, [LEAT_I16] = from_i16,
        [LEAT_U32] = from_u32,  [LEAT_I32] = from_i32,   [LEAT_U64] = from_u64, [LEAT_I64] = from_i64,
        [LEAT_F16] = from_f16,  [LEAT_BF16] = from_bf16, [LEAT_F32] = from_f32, [LEAT_F64] = from_f64,
        [LEAT_BOOL] = from_bool};
    if (from == to)
        memcpy(dst, src, n * leat_dtype_size(from)); /* n may be 0 */
    else
        table[from](to, src, dst, n);
}

/* Turned in blocks, so that what is read and what is written both stay in the first-level cache; and a column of a
 * block at a time, because one of the sides is nearly always the few channels of an image. */
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
