#include "../test.h"
#include "format/source.h"

TEST(values_of_any_size_stay_as_they_were_put)
{
    enum { FIELDS = 2, SAMPLES = 40 };
    static uint8_t big[200000];
    struct leat_values v;
    memset(big, 7, sizeof big);
    assert_int_equal(leat_values_init(&v, FIELDS, SAMPLES), LEAT_OK);
    for (size_t s = 0; s < SAMPLES; s++) {
        uint64_t number = s * s;
        assert_int_equal(leat_values_put(&v, 0, s, &number, sizeof number), LEAT_OK);
        if (s != 3)
            assert_int_equal(leat_values_put(&v, 1, s, big, s % 2 ? s * 5000 : 0), LEAT_OK);
    }
    for (size_t s = 0; s < SAMPLES; s++) {
        const struct leat_computed *a = &v.at[s], *b = &v.at[SAMPLES + s];
        assert_int_equal(a->bytes, 8);
        assert_int_equal(*(const uint64_t *)(const void *)a->data, s * s);
        assert_int_equal((uintptr_t)a->data % 64, 0);
        assert_int_equal(b->data == NULL, s == 3);
        if (s != 3) {
            assert_int_equal(b->bytes, s % 2 ? s * 5000 : 0);
            assert_memory_equal(b->data, big, b->bytes);
        }
    }
    leat_values_destroy(&v);
    assert_null(v.chunks);
}

TEST(a_value_that_is_missing_is_missing_in_a_copy_too)
{
    struct leat_values from, to;
    assert_int_equal(leat_values_init(&from, 1, 2), LEAT_OK);
    assert_int_equal(leat_values_init(&to, 2, 5), LEAT_OK);
    assert_int_equal(leat_values_put(&from, 0, 1, "", 0), LEAT_OK);
    assert_int_equal(leat_values_take(&to, 1, 3, &from, 0), LEAT_OK);
    assert_null(to.at[5 + 3].data);
    assert_non_null(to.at[5 + 4].data);
    leat_values_destroy(&from);
    leat_values_destroy(&to);
}

TEST(sizes_that_cannot_be_are_out_of_memory)
{
    struct leat_values v;
    assert_int_equal(leat_values_init(&v, SIZE_MAX, 2), LEAT_E_NOMEM);
    leat_values_destroy(&v);
    assert_int_equal(leat_values_init(&v, 1, 1), LEAT_OK);
    assert_int_equal(leat_values_put(&v, 0, 0, "", UINT64_MAX - 3), LEAT_E_NOMEM);
    leat_values_destroy(&v);
}

TEST_MAIN()
