/* Ranges of ordinals hold exactly the values for which the comparison is true. */
#include "data/query_ranges.h"

#include <math.h>

#include "../test.h"
#include "base/random.h"

static const enum leat_dtype dtypes[] = {LEAT_U8,  LEAT_I8,  LEAT_U16, LEAT_I16, LEAT_U32,  LEAT_I32, LEAT_U64,
                                         LEAT_I64, LEAT_F16, LEAT_F32, LEAT_F64, LEAT_BF16, LEAT_BOOL};
enum { N = 4096 };
static uint64_t words[N];

/* Bits of any value; of wide types some at the borders and many at random. */
static void make_values(enum leat_dtype dtype)
{
    static const uint64_t borders[] = {0,
                                       1,
                                       2,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       INT64_MAX,
                                       (uint64_t)INT64_MAX + 1,
                                       UINT64_MAX,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0x7ff8000000000000,
                                       0x3fe0000000000000,
                                       0x4340000000000001,
                                       0x8000000000000000,
                                       0x7f800000,
                                       0xff800000,
                                       0x7fc00000};
    const size_t n = sizeof borders / sizeof *borders;
    for (size_t i = 0; i < N; i++)
        words[i] = i < n ? borders[i] : leat_draw_u64(dtype, i) >> (i % 3 ? 0 : i % 60);
    for (size_t i = 0; i < N && dtype == LEAT_BOOL; i++)
        words[i] &= 1;
}

/* The values one behind the other, as in a column. */
static const void *column_of(enum leat_dtype dtype)
{
    static uint64_t column[N];
    const size_t each = leat_dtype_size(dtype);
    for (size_t i = 0; i < N; i++)
        memcpy((uint8_t *)column + i * each, &words[i], each);
    return column;
}

static const struct leat_query_value constants[] = {
    {.type = LEAT_QUERY_INT, .number = 0},
    {.type = LEAT_QUERY_INT, .number = 1},
    {.type = LEAT_QUERY_INT, .number = -1},
    {.type = LEAT_QUERY_INT, .number = 127},
    {.type = LEAT_QUERY_INT, .number = 65536},
    {.type = LEAT_QUERY_INT, .number = INT64_MAX},
    {.type = LEAT_QUERY_INT, .number = INT64_MIN},
    {.type = LEAT_QUERY_INT, .number = (INT64_C(1) << 53) + 1},
    {.type = LEAT_QUERY_REAL, .real = 0.5},
    {.type = LEAT_QUERY_REAL, .real = -0.0},
    {.type = LEAT_QUERY_REAL, .real = 0x1p63},
    {.type = LEAT_QUERY_REAL, .real = -0x1p63},
    {.type = LEAT_QUERY_REAL, .real = 1e300},
    {.type = LEAT_QUERY_REAL, .real = (double)INFINITY},
    {.type = LEAT_QUERY_REAL, .real = -(double)INFINITY},
};

static bool bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static enum leat_truth truth_of(enum leat_query_compare how, const struct leat_query_value *a,
                                const struct leat_query_value *b)
{
    if (a->type == LEAT_QUERY_NULL)
        return LEAT_UNKNOWN;
    const int order = leat_query_order(a, b);
    const bool truths[] = {[LEAT_QUERY_LT] = order<0, [LEAT_QUERY_LE] = order <= 0, [LEAT_QUERY_EQ] = order == 0,
                                                   [LEAT_QUERY_GE] = order >= 0, [LEAT_QUERY_GT] = order> 0,
                           [LEAT_QUERY_NE] = order != 0};
    return truths[how] ? LEAT_TRUE : LEAT_FALSE;
}

TEST(a_comparison_holds_for_the_values_in_its_ranges_and_no_others)
{
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        make_values(dtypes[d]);
        const void *column = column_of(dtypes[d]);
        for (size_t k = 0; k < sizeof constants / sizeof *constants; k++)
            for (enum leat_query_compare how = LEAT_QUERY_LT; how <= LEAT_QUERY_NE; how++) {
                struct leat_query_ranges r = {.dtype = dtypes[d]};
                uint64_t bits[N / 64], not_bits[N / 64];
                assert_int_equal(leat_query_ranges_add(&r, how, &constants[k]), LEAT_OK);
                leat_query_ranges_test(&r, column, N, bits);
                assert_int_equal(leat_query_ranges_not(&r), LEAT_OK);
                leat_query_ranges_test(&r, column, N, not_bits);
                for (size_t i = 0; i < N; i++) {
                    const struct leat_query_value v = leat_query_number(dtypes[d], &words[i]);
                    const enum leat_truth truth = truth_of(how, &v, &constants[k]);
                    if (bit(bits, i) != (truth == LEAT_TRUE) || bit(not_bits, i) != (truth == LEAT_FALSE))
                        fail_msg("dtype %d, constant %zu, comparison %d, value %" PRIx64, (int)dtypes[d], k, (int)how,
                                 words[i]);
                }
                leat_query_ranges_destroy(&r);
            }
    }
}

TEST(ranges_are_united_and_intersected)
{
    const struct leat_query_value low = {.type = LEAT_QUERY_INT, .number = -20},
                                  high = {.type = LEAT_QUERY_INT, .number = 30},
                                  one = {.type = LEAT_QUERY_INT, .number = 100};
    struct leat_query_ranges r = {.dtype = LEAT_I8}, other = {.dtype = LEAT_I8};
    make_values(LEAT_I8);
    uint64_t bits[N / 64];
    assert_int_equal(leat_query_ranges_add(&r, LEAT_QUERY_GE, &low), LEAT_OK);
    assert_int_equal(leat_query_ranges_add(&other, LEAT_QUERY_LE, &high), LEAT_OK);
    assert_int_equal(leat_query_ranges_and(&r, &other), LEAT_OK);
    assert_int_equal(leat_query_ranges_add(&r, LEAT_QUERY_EQ, &one), LEAT_OK);
    leat_query_ranges_test(&r, column_of(LEAT_I8), N, bits);
    for (size_t i = 0; i < N; i++) {
        const int8_t v = (int8_t)(uint8_t)words[i];
        assert_int_equal(bit(bits, i), (v >= -20 && v <= 30) || v == 100);
    }
    leat_query_ranges_destroy(&r);
    leat_query_ranges_destroy(&other);
}

TEST(only_nan_is_null)
{
    struct leat_query_ranges r = {.dtype = LEAT_F64};
    uint64_t bits[N / 64];
    make_values(LEAT_F64);
    assert_int_equal(leat_query_ranges_null(&r), LEAT_OK);
    leat_query_ranges_test(&r, column_of(LEAT_F64), N, bits);
    for (size_t i = 0; i < N; i++) {
        double v;
        memcpy(&v, &words[i], sizeof v);
        assert_int_equal(bit(bits, i), isnan(v));
    }
    leat_query_ranges_destroy(&r);
}

TEST(any_number_of_values_is_tested)
{
    const struct leat_query_value zero = {.type = LEAT_QUERY_INT, .number = 0};
    struct leat_query_ranges r = {.dtype = LEAT_I32};
    make_values(LEAT_I32);
    const int32_t *column = column_of(LEAT_I32);
    assert_int_equal(leat_query_ranges_add(&r, LEAT_QUERY_GT, &zero), LEAT_OK);
    for (size_t n = 1; n < 200; n++) {
        uint64_t bits[4] = {0};
        leat_query_ranges_test(&r, column, n, bits);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bit(bits, i), column[i] > 0);
    }
    leat_query_ranges_destroy(&r);
}

TEST(ranges_that_touch_have_one_value_in_common_and_others_none)
{
    for (int64_t gap = 0; gap < 2; gap++) {
        const struct leat_query_value low = {.type = LEAT_QUERY_INT, .number = 7 + gap},
                                      high = {.type = LEAT_QUERY_INT, .number = 7};
        struct leat_query_ranges r = {.dtype = LEAT_I16}, other = {.dtype = LEAT_I16};
        const int16_t column[4] = {6, 7, 8, 9};
        uint64_t bits = 0;
        assert_int_equal(leat_query_ranges_add(&r, LEAT_QUERY_GE, &low), LEAT_OK);
        assert_int_equal(leat_query_ranges_add(&other, LEAT_QUERY_LE, &high), LEAT_OK);
        assert_int_equal(leat_query_ranges_and(&r, &other), LEAT_OK);
        leat_query_ranges_test(&r, column, 4, &bits);
        assert_int_equal(bits, gap ? 0 : 2);
        leat_query_ranges_destroy(&r);
        leat_query_ranges_destroy(&other);
    }
}

TEST_MAIN()
