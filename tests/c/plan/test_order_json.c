/* The order in a state has all that tells orders apart, and nothing that may differ. */
#include <jansson.h>

#include "base/alloc.h"
#include "common.h"
#include "plan/order_json.h"

static struct leat_plan *make(const struct leat_plan_spec *spec)
{
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(spec, &plan, &error));
    return plan;
}

static struct leat_plan *make_one(const struct leat_plan_source *source, uint64_t global, uint32_t rank)
{
    const struct leat_plan_spec spec = {
        .sources = source, .n_sources = 1, .seed = 1, .global_batch = global, .rank = rank, .world_size = 2};
    return make(&spec);
}

/* The order as text, which the caller frees. */
static char *text_of(const struct leat_plan *plan)
{
    json_t *json = leat_order_json(plan);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_non_null(text);
    json_decref(json);
    return text;
}

/* Puts # in the place of each hash. */
static void mask_hashes(char *text)
{
    for (char *at = text; (at = strchr(at, '"')); at++)
        if (strspn(at + 1, "0123456789abcdef") == 16 && at[17] == '"') {
            at[1] = '#';
            memmove(at + 2, at + 17, strlen(at + 17) + 1);
        }
}

/* `wanted`: the text of the order, with # in the place of each hash. */
static void assert_order(const struct leat_plan_source *source, const char *wanted)
{
    struct leat_plan *plan = make_one(source, 4, 0), *other = make_one(source, 6, 1);
    const struct leat_decision d = {.at = {1, 0}, .global_batch = 5};
    struct leat_error error = {0};
    assert_ok(leat_plan_decide(other, &d, &error));
    char *text = text_of(plan), *same = text_of(other);
    assert_string_equal(same, text); /* whatever the rank, the sizes and the decisions are */
    mask_hashes(text);
    assert_string_equal(text, wanted);
    free(text);
    free(same);
    leat_plan_free(plan);
    leat_plan_free(other);
}

TEST(an_order_is_what_rows_follow_from_and_hashes_of_what_is_long)
{
    static const double weights[] = {1, 2, 3, 4};
    static const int64_t positions[] = {2, 0, 1};
    static const uint64_t lengths[] = {3, 9, 4, 1};
    const struct leat_pack_spec pack = {.length = 4, .lengths = lengths};
    const struct leat_group_spec group = {.lengths = lengths, .budget = 16};
    struct leat_plan_source s = {.count = 40};
    assert_order(&s, "{\"sources\":[{\"count\":40,\"order\":\"sequential\"}]}");
    s.order = (struct leat_order_spec){.order = LEAT_ORDER_SHUFFLED};
    assert_order(&s, "{\"sources\":[{\"count\":40,\"order\":\"shuffled\"}]}");
    s.order = (struct leat_order_spec){.order = LEAT_ORDER_BLOCKS, .block_rows = 7};
    assert_order(&s, "{\"sources\":[{\"block_rows\":7,\"count\":40,\"order\":\"blocks\"}]}");
    s.order.block_window = 14;
    assert_order(&s, "{\"sources\":[{\"block_rows\":7,\"block_window\":14,\"count\":40,\"order\":\"blocks\"}]}");
    s.order.block_window = 56; /* the usual one */
    assert_order(&s, "{\"sources\":[{\"block_rows\":7,\"count\":40,\"order\":\"blocks\"}]}");
    s.count = 4;
    s.order = (struct leat_order_spec){.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 3};
    assert_order(&s, "{\"sources\":[{\"count\":4,\"hash\":\"#\",\"num_samples\":3,\"order\":\"weighted\","
                     "\"replacement\":false}]}");
    s.order = (struct leat_order_spec){.order = LEAT_ORDER_LIST, .positions = positions, .n_positions = 3};
    assert_order(&s, "{\"sources\":[{\"count\":4,\"hash\":\"#\",\"n\":3,\"order\":\"list\"}]}");
    s.order = (struct leat_order_spec){.order = LEAT_ORDER_SEQUENTIAL};
    s.pack = &pack;
    assert_order(&s,
                 "{\"sources\":[{\"count\":4,\"order\":\"sequential\",\"packed_hash\":\"#\",\"packed_length\":4}]}");
    s.pack = NULL;
    s.group = &group;
    struct leat_plan *plan = make_one(&s, 2, 0);
    char *text = text_of(plan);
    mask_hashes(text);
    assert_non_null(strstr(text, "\"groups_hash\":\"#\""));
    free(text);
    leat_plan_free(plan);
}

/* ---- mixtures -------------------------------------------------------------------------------- */

enum { MANY = 40, CHANGES = 15 };

/* A mixture of n sources with change number i: 0 is none, and all others are different. */
static struct leat_plan *make_mixture(uint32_t n, unsigned i)
{
    static struct leat_plan_source sources[MANY];
    static double shares[MANY];
    static const double weights[] = {1, 2, 3, 4, 5}, other_weights[] = {1, 2, 3, 4, 6};
    static const int64_t positions[] = {3, 1}, other_positions[] = {1, 3};
    static const uint64_t lengths[] = {5, 6, 7, 8, 9}, other_lengths[] = {5, 6, 8, 7, 9};
    const struct leat_pack_spec pack = {.length = 4, .lengths = lengths},
                                other = {.length = 4, .lengths = other_lengths};
    const struct leat_mix_point points[] = {{0, shares}};
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = n,
                                  .mixed = true,
                                  .epoch_rows = i == 1 ? 90 : 80,
                                  .seed = 1,
                                  .global_batch = 2,
                                  .world_size = 1,
                                  .schedule = i == 2 ? points : NULL,
                                  .n_points = i == 2};
    for (uint32_t k = 0; k < n; k++) {
        const bool last = k + 1 == n;
        shares[k] = 1.0 / n;
        sources[k] =
            (struct leat_plan_source){.count = i == 3 && last ? 6 : 5,
                                      .share = shares[k],
                                      .exhausted = i == 4 && last ? LEAT_EXHAUSTED_STOP : LEAT_EXHAUSTED_REPEAT,
                                      .limit = i == 5 && last ? 9 : 0,
                                      .tokens = i == 6 ? 3 : 0,
                                      .pack = i == 7   ? &pack
                                              : i == 8 ? &other
                                                       : NULL,
                                      .order = {.order = LEAT_ORDER_SHUFFLED}};
        if (i == 9 || i == 10)
            sources[k].order = (struct leat_order_spec){
                .order = LEAT_ORDER_WEIGHTED, .weights = i == 9 && last ? other_weights : weights, .num_samples = 4};
        if (i == 11)
            sources[k].order = (struct leat_order_spec){
                .order = LEAT_ORDER_LIST, .positions = last ? other_positions : positions, .n_positions = 2};
        if (i >= 12)
            sources[k].order = (struct leat_order_spec){.order = LEAT_ORDER_BLOCKS,
                                                        .block_rows = 1,
                                                        .block_window = i == 12           ? 0
                                                                        : i == 13 && last ? 3
                                                                                          : 2};
    }
    return make(&spec);
}

TEST(each_change_to_a_mixture_changes_what_is_said_of_it)
{
    for (uint32_t n = 2; n <= MANY; n += MANY - 2) {
        char *texts[CHANGES];
        for (unsigned i = 0; i < CHANGES; i++) {
            struct leat_plan *plan = make_mixture(n, i), *same = make_mixture(n, i);
            texts[i] = text_of(plan);
            char *again = text_of(same);
            assert_string_equal(again, texts[i]);
            for (unsigned k = 0; k < i; k++)
                if (!strcmp(texts[k], texts[i]))
                    fail_msg("changes %u and %u of %" PRIu32 " sources: %s", k, i, n, texts[i]);
            free(again);
            leat_plan_free(plan);
            leat_plan_free(same);
        }
        assert_non_null(strstr(texts[2], "\"points\":1"));
        for (unsigned i = 0; i < CHANGES; i++)
            free(texts[i]);
    }
}

TEST(few_sources_are_listed_and_many_are_columns_of_numbers)
{
    for (uint32_t n = 2; n <= MANY; n += MANY - 2) {
        struct leat_plan *plan = make_mixture(n, 3);
        json_t *order = leat_order_json(plan), *sources = json_object_get(order, "sources");
        assert_int_equal(json_integer_value(json_object_get(order, "epoch_rows")), 80);
        assert_int_equal(json_is_array(sources), n == 2);
        if (n == 2) {
            assert_int_equal(json_array_size(sources), n);
            const json_t *last = json_array_get(sources, 1);
            assert_int_equal(json_integer_value(json_object_get(last, "count")), 6);
            assert_string_equal(json_string_value(json_object_get(last, "exhausted")), "repeat");
        } else { /* one that is the same for all stands there once */
            assert_int_equal(json_integer_value(json_object_get(sources, "n")), n);
            assert_true(json_is_string(json_object_get(sources, "count")));
            assert_string_equal(json_string_value(json_object_get(sources, "order")), "shuffled");
            assert_string_equal(json_string_value(json_object_get(sources, "exhausted")), "repeat");
            assert_null(json_object_get(sources, "limit"));
        }
        json_decref(order);
        leat_plan_free(plan);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

TEST(the_samples_of_all_sources_are_counted_from_either_form)
{
    for (uint32_t n = 1; n <= MANY; n++)
        for (unsigned i = 0; i <= 3; i += 3) {
            struct leat_plan *plan = make_mixture(n, i);
            json_t *order = leat_order_json(plan);
            assert_int_equal(leat_order_samples(order), 5 * n + (i == 3));
            json_decref(order);
            leat_plan_free(plan);
        }
}

TEST(an_order_that_was_damaged_has_no_samples)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"sources\": 7}",
        "{\"sources\": [{}, 3, {\"count\": \"5\"}]}",
        "{\"sources\": {\"n\": 40}}",
        "{\"sources\": {\"n\": 0, \"count\": 5}}",
        "{\"sources\": {\"n\": -1, \"count\": 5}}",
        "{\"sources\": {\"n\": 1025, \"count\": 5}}",
        "{\"sources\": {\"n\": \"40\", \"count\": 5}}",
        "{\"sources\": {\"n\": 40, \"count\": \"Cgo\"}}",
        "{\"sources\": {\"n\": 40, \"count\": \"CgoK\"}}",
        "{\"sources\": {\"n\": 3, \"count\": [5, 5]}}",
        "{\"sources\": {\"n\": 3, \"count\": [5, 5, \"5\"]}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *order = json_loads(bad[i], 0, NULL);
        assert_non_null(order);
        if (leat_order_samples(order))
            fail_msg("%s", bad[i]);
        json_decref(order);
    }
    assert_int_equal(leat_order_samples(NULL), 0);
}

TEST(orders_that_differ_in_the_lengths_of_documents_alone_are_told)
{
    json_t *orders[CHANGES];
    for (unsigned i = 0; i < CHANGES; i++) {
        struct leat_plan *plan = make_mixture(2, i);
        orders[i] = leat_order_json(plan);
        leat_plan_free(plan);
    }
    for (unsigned a = 0; a < CHANGES; a++)
        for (unsigned b = 0; b < CHANGES; b++)
            assert_int_equal(leat_order_differs_in_lengths(orders[a], orders[b]),
                             (a == 7 && b == 8) || (a == 8 && b == 7));
    for (unsigned i = 0; i < CHANGES; i++)
        json_decref(orders[i]);
}

TEST_MAIN()
