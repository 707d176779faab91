/*
 * Ranges of ordinals: made from comparisons, and tested in loops that compilers turn into vector instructions.
 */
#include "data/query_ranges.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/search.h"
#include "kernels/values.h"

/* ---- comparing as SQLite does ---------------------------------------------------------------- */

static int sign_of(int before, int after)
{
    return after - before;
}

/* An integer with a float that is no NaN, exactly. */
static int compare_mixed(int64_t i, double r)
{
    if (r < -9223372036854775808.0)
        return 1;
    if (r >= 9223372036854775808.0)
        return -1;
    const int64_t whole = (int64_t)r;
    if (i != whole)
        return sign_of(i<whole, i> whole);
    const double rest = r - (double)whole; /* exact: r has a fraction only if it is small */
    return sign_of(rest > 0, rest < 0);
}

int leat_query_order(const struct leat_query_value *a, const struct leat_query_value *b)
{
    if (a->type == LEAT_QUERY_INT && b->type == LEAT_QUERY_INT)
        return sign_of(a->number<b->number, a->number> b->number);
    if (a->type == LEAT_QUERY_INT)
        return compare_mixed(a->number, b->real);
    if (b->type == LEAT_QUERY_INT)
        return -compare_mixed(b->number, a->real);
    return sign_of(a->real<b->real, a->real> b->real);
}

/* ---- ordinals -------------------------------------------------------------------------------- */

static bool is_signed(enum leat_dtype t)
{
    return t == LEAT_I8 || t == LEAT_I16 || t == LEAT_I32 || t == LEAT_I64;
}

static uint64_t sign_bit(enum leat_dtype t)
{
    return UINT64_C(1) << (8 * leat_dtype_size(t) - 1);
}

static uint64_t all_bits(enum leat_dtype t)
{
    return sign_bit(t) | (sign_bit(t) - 1);
}

/* The value of an ordinal. */
static struct leat_query_value value_of(enum leat_dtype t, uint64_t ordinal)
{
    uint64_t bits = ordinal;
    if (is_signed(t))
        bits = ordinal ^ sign_bit(t);
    else if (leat_dtype_is_float(t))
        bits = ordinal & sign_bit(t) ? ordinal ^ sign_bit(t) : ~ordinal & all_bits(t);
    return leat_query_number(t, &bits); /* little-endian, as all that leat runs on */
}

/* The ordinals that are numbers. */
static struct leat_query_range valid(enum leat_dtype t)
{
    if (!leat_dtype_is_float(t))
        return (struct leat_query_range){0, all_bits(t)};
    const uint64_t infinity = t == LEAT_F16    ? UINT64_C(0x7c00)
                              : t == LEAT_BF16 ? UINT64_C(0x7f80)
                              : t == LEAT_F32  ? UINT64_C(0x7f800000)
                                               : UINT64_C(0x7ff0000000000000);
    return (struct leat_query_range){~(infinity | sign_bit(t)) & all_bits(t), infinity | sign_bit(t)};
}

/* Whether the value of an ordinal is below the constant, or, with `above`, not above it. */
static bool is_below(enum leat_dtype t, uint64_t ordinal, const struct leat_query_value *constant, bool above)
{
    const struct leat_query_value v = value_of(t, ordinal);
    return leat_query_order(&v, constant) < (int)above;
}

/* The first valid ordinal whose value is at least the constant, or, with `above`, above it; one behind the last if
 * none is (*none). */
static uint64_t first_from(enum leat_dtype t, const struct leat_query_value *constant, bool above, bool *none)
{
    const struct leat_query_range all = valid(t);
    const uint64_t low = LEAT_BISECT(i, all.low, all.high, is_below(t, i, constant, above));
    *none = is_below(t, low, constant, above);
    return low;
}

/* ---- sets ------------------------------------------------------------------------------------ */

static int push(struct leat_query_ranges *r, uint64_t low, uint64_t high)
{
    if (!leat_grow(&r->at, &r->room, r->n + 1, sizeof *r->at))
        return LEAT_E_NOMEM;
    size_t i = r->n++;
    for (; i && r->at[i - 1].low > low; i--)
        r->at[i] = r->at[i - 1];
    r->at[i] = (struct leat_query_range){low, high};
    size_t kept = 0;
    for (i = 1; i < r->n; i++)
        if (r->at[i].low <= r->at[kept].high || r->at[i].low - 1 == r->at[kept].high)
            r->at[kept].high = r->at[i].high > r->at[kept].high ? r->at[i].high : r->at[kept].high;
        else
            r->at[++kept] = r->at[i];
    r->n = kept + 1;
    return LEAT_OK;
}

int leat_query_ranges_add(struct leat_query_ranges *r, enum leat_query_compare how,
                          const struct leat_query_value *constant)
{
    const struct leat_query_range all = valid(r->dtype);
    bool none_from, none_above;
    const uint64_t from = first_from(r->dtype, constant, false, &none_from),
                   above = first_from(r->dtype, constant, true, &none_above);
    /* below: [all.low, from), equal: [from, above), greater: [above, all.high], `none` puts the border behind */
    const bool some_below = none_from || from > all.low, some_equal = !none_from && (none_above || above > from);
    const uint64_t last_below = none_from ? all.high : from - 1, last_equal = none_above ? all.high : above - 1;
    int rc = LEAT_OK;
    if (some_below && (how == LEAT_QUERY_LT || how == LEAT_QUERY_LE || how == LEAT_QUERY_NE))
        rc = push(r, all.low, last_below);
    if (!rc && some_equal && (how == LEAT_QUERY_LE || how == LEAT_QUERY_EQ || how == LEAT_QUERY_GE))
        rc = push(r, from, last_equal);
    if (!rc && !none_above && (how == LEAT_QUERY_GE || how == LEAT_QUERY_GT || how == LEAT_QUERY_NE))
        rc = push(r, above, all.high);
    return rc;
}

int leat_query_ranges_not(struct leat_query_ranges *r)
{
    const struct leat_query_range all = valid(r->dtype);
    struct leat_query_ranges out = {.dtype = r->dtype};
    uint64_t at = all.low;
    bool past = false; /* the last valid ordinal was covered */
    int rc = LEAT_OK;
    for (size_t i = 0; i < r->n && !rc; i++) {
        if (r->at[i].high < all.low || r->at[i].low > all.high)
            continue; /* of NaN */
        if (r->at[i].low > at)
            rc = push(&out, at, r->at[i].low - 1);
        past = r->at[i].high >= all.high;
        at = past ? at : r->at[i].high + 1;
    }
    if (!rc && !past)
        rc = push(&out, at, all.high);
    leat_query_ranges_destroy(r);
    *r = out;
    return rc;
}

int leat_query_ranges_and(struct leat_query_ranges *r, const struct leat_query_ranges *other)
{
    struct leat_query_ranges out = {.dtype = r->dtype};
    int rc = LEAT_OK;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < other->n && !rc; k++) {
            const uint64_t low = r->at[i].low > other->at[k].low ? r->at[i].low : other->at[k].low,
                           high = r->at[i].high < other->at[k].high ? r->at[i].high : other->at[k].high;
            if (low <= high)
                rc = push(&out, low, high);
        }
    leat_query_ranges_destroy(r);
    *r = out;
    return rc;
}

int leat_query_ranges_null(struct leat_query_ranges *r)
{
    const struct leat_query_range all = valid(r->dtype);
    int rc = all.low ? push(r, 0, all.low - 1) : LEAT_OK;
    return !rc && all.high < all_bits(r->dtype) ? push(r, all.high + 1, all_bits(r->dtype)) : rc;
}

void leat_query_ranges_destroy(struct leat_query_ranges *r)
{
    leat_free(r->at);
    r->at = NULL;
    r->n = r->room = 0;
}

/* ---- testing --------------------------------------------------------------------------------- */

/* 64 bytes of 0 or 1 as bits. */
LEAT_INLINE uint64_t gather_bits(const uint8_t flags[64])
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t eight;
        memcpy(&eight, flags + 8 * i, 8);
        bits |= (eight * UINT64_C(0x0102040810204080)) >> 56 << (8 * i);
    }
    return bits;
}

/* For integers `flip` turns bits into ordinals; for floats it is the sign, and below it all bits of negative ones. */
#define DEFINE_TEST(NAME, TYPE, SIGNED, IS_FLOAT)                                                                      \
    LEAT_INLINE void NAME(const struct leat_query_ranges *r, TYPE flip, const void *values, size_t n, uint64_t *bits)  \
    {                                                                                                                  \
        const TYPE *v = values;                                                                                        \
        for (size_t at = 0; at < n; at += 64) {                                                                        \
            const size_t here = n - at < 64 ? n - at : 64;                                                             \
            TYPE ordinals[64] = {0};                                                                                   \
            uint8_t flags[64] = {0};                                                                                   \
            if (here == 64)                                                                                            \
                for (size_t i = 0; i < 64; i++)                                                                        \
                    ordinals[i] =                                                                                      \
                        (TYPE)(v[at + i] ^                                                                             \
                               (TYPE)(IS_FLOAT ? (TYPE)((SIGNED)v[at + i] >> (8 * sizeof(TYPE) - 1)) | flip : flip));  \
            else                                                                                                       \
                for (size_t i = 0; i < here; i++)                                                                      \
                    ordinals[i] =                                                                                      \
                        (TYPE)(v[at + i] ^                                                                             \
                               (TYPE)(IS_FLOAT ? (TYPE)((SIGNED)v[at + i] >> (8 * sizeof(TYPE) - 1)) | flip : flip));  \
            for (size_t k = 0; k < r->n; k++) {                                                                        \
                const TYPE low = (TYPE)r->at[k].low, span = (TYPE)(r->at[k].high - r->at[k].low);                      \
                for (size_t i = 0; i < 64; i++)                                                                        \
                    flags[i] |= (TYPE)(ordinals[i] - low) <= span;                                                     \
            }                                                                                                          \
            bits[at / 64] = gather_bits(flags) & (here == 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1);                \
        }                                                                                                              \
    }

DEFINE_TEST(test_u8, uint8_t, int8_t, false)
DEFINE_TEST(test_u16, uint16_t, int16_t, false)
DEFINE_TEST(test_u32, uint32_t, int32_t, false)
DEFINE_TEST(test_u64, uint64_t, int64_t, false)
DEFINE_TEST(test_f16, uint16_t, int16_t, true)
DEFINE_TEST(test_f32, uint32_t, int32_t, true)
DEFINE_TEST(test_f64, uint64_t, int64_t, true)

LEAT_INLINE void test(const struct leat_query_ranges *r, const void *values, size_t n, uint64_t *bits)
{
    const bool floats = leat_dtype_is_float(r->dtype);
    const uint64_t flip = floats || is_signed(r->dtype) ? sign_bit(r->dtype) : 0;
    switch (leat_dtype_size(r->dtype)) {
    case 1:
        test_u8(r, (uint8_t)flip, values, n, bits);
        break;
    case 2:
        if (floats)
            test_f16(r, (uint16_t)flip, values, n, bits);
        else
            test_u16(r, (uint16_t)flip, values, n, bits);
        break;
    case 4:
        if (floats)
            test_f32(r, (uint32_t)flip, values, n, bits);
        else
            test_u32(r, (uint32_t)flip, values, n, bits);
        break;
    default:
        if (floats)
            test_f64(r, flip, values, n, bits);
        else
            test_u64(r, flip, values, n, bits);
    }
}

typedef void test_fn(const struct leat_query_ranges *r, const void *values, size_t n, uint64_t *bits);

static test_fn test_portable;
static void test_portable(const struct leat_query_ranges *r, const void *values, size_t n, uint64_t *bits)
{
    test(r, values, n, bits);
}

#if defined(__x86_64__)
LEAT_TARGET_AVX2 static void test_avx2(const struct leat_query_ranges *r, const void *values, size_t n, uint64_t *bits)
{
    test(r, values, n, bits);
}

LEAT_TARGET_AVX512 static void test_avx512(const struct leat_query_ranges *r, const void *values, size_t n,
                                           uint64_t *bits)
{
    test(r, values, n, bits);
}
#endif

void leat_query_ranges_test(const struct leat_query_ranges *r, const void *values, size_t n, uint64_t *bits)
{
    test_fn *const run = LEAT_OF_ISA(leat_cpu_isa(), test);
    run(r, values, n, bits);
}
