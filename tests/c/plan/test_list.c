/* Lists of positions as text, and numbers of sources. */
#include <jansson.h>

#include "base/alloc.h"
#include "common.h"
#include "plan/list.h"
#include "plan/numbers.h"

TEST(a_list_comes_back_from_its_text)
{
    for (uint64_t t = 0; t < 200; t++) {
        const uint64_t n = draw(t, 0, 0, 300), count = UINT64_C(1) << draw(t, 1, 0, 62);
        int64_t positions[300];
        struct leat_list *list, *again;
        struct leat_error error = {0};
        char *text;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = (int64_t)draw(t, 2 + i, 0, count - 1);
        assert_ok(leat_list_new(positions, n, count, &list, &error));
        assert_ok(leat_list_to_text(list, UINT64_MAX, &text));
        assert_ok(leat_list_from_text(text, count, &again, &error));
        assert_int_equal(again->n, n);
        assert_int_equal(again->hash, list->hash);
        assert_memory_equal(again->positions, positions, n * sizeof *positions);
        leat_list_free(again);
        leat_free(text);
        assert_ok(leat_list_to_text(list, 0, &text)); /* one that finds no room has no text */
        assert_true(!text == (n > 0));
        leat_free(text);
        leat_list_free(list);
    }
}

TEST(a_text_that_was_cut_or_changed_or_leaves_the_data_set_is_no_list)
{
    const int64_t positions[] = {5, 1000000, 7, 0};
    struct leat_list *list, *again;
    struct leat_error error = {0};
    char *text;
    assert_ok(leat_list_new(positions, 4, 1000001, &list, &error));
    assert_ok(leat_list_to_text(list, UINT64_MAX, &text));
    assert_int_equal(leat_list_from_text(text, 1000000, &again, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "entry 1 of the list of positions is 1000000"));
    text[strlen(text) - 1] = 0;
    assert_int_equal(leat_list_from_text(text, 1000001, &again, &error), LEAT_E_INVALID);
    text[2] = '!';
    assert_int_equal(leat_list_from_text(text, 1000001, &again, &error), LEAT_E_INVALID);
    assert_int_equal(leat_list_from_text("gICAgA==", 1000001, &again, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "inside a number"));
    leat_free(text);
    leat_list_free(list);
}

TEST(numbers_of_few_and_of_many_sources_come_back)
{
    int64_t numbers[200], *again;
    struct leat_error error = {0};
    for (uint32_t n = 1; n <= 200; n++)
        for (int packed = 0; packed < 2; packed++) {
            for (uint32_t k = 0; k < n; k++)
                numbers[k] = (int64_t)leat_draw_below(n, k, UINT64_MAX) >> k % 64;
            json_t *o = leat_numbers_json(numbers, n, packed);
            assert_int_equal(json_is_array(o), !packed || leat_numbers_listed(n));
            assert_ok(leat_numbers_read(o, n, "", &again, &error));
            assert_memory_equal(again, numbers, n * sizeof *numbers);
            leat_free(again);
            assert_int_equal(leat_numbers_read(o, n + 1, "it lacks one", &again, &error), LEAT_E_INVALID);
            assert_non_null(strstr(error.message, "not a state of leat: it lacks one."));
            json_decref(o);
        }
}

TEST_MAIN()
