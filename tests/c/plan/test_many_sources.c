/* Mixtures of more sources than a state lists one by one: it has their numbers in little room. */
#include <string.h>

#include "base/alloc.h"
#include "mixtures.h"

enum { MANY = 1024, DECIDED = 40, DECIDED_BY_MANY = 12, WITHIN = 1 };

enum kind { REDISTRIBUTE, LIMITED, ENDLESS, FIXED_TOKENS, VARYING_TOKENS, LARGE, KINDS };

static const uint8_t print[16] = {9};

static void draw_many_shares(uint64_t key, uint32_t n, double *shares)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += shares[k] = 1 + 20 * leat_draw_unit(key, k);
    for (uint32_t k = 0; k < n; k++)
        shares[k] /= sum;
}

static struct leat_plan *open_many(uint32_t n, enum kind kind)
{
    struct leat_plan_source *sources = calloc(n, sizeof *sources);
    double *shares = calloc(n, sizeof *shares);
    uint64_t tokens[1024];
    for (uint64_t i = 0; i < 1024; i++)
        tokens[i] = draw(5, i, 0, 1 << 18);
    assert_non_null(sources);
    assert_non_null(shares);
    draw_many_shares(3, n, shares);
    for (uint32_t k = 0; k < n; k++) {
        const bool soon = k % 50 == 1; /* through before the last decision */
        sources[k] = (struct leat_plan_source){
            .count = kind == LARGE ? (UINT64_C(1) << 40) + k : (soon ? 1 : 24000 / n) + draw(4, k, 0, 9),
            .share = shares[k],
            .exhausted = kind == ENDLESS || kind == LARGE ? LEAT_EXHAUSTED_REPEAT
                         : kind == LIMITED ? (k % 2 ? LEAT_EXHAUSTED_REPEAT : LEAT_EXHAUSTED_REDISTRIBUTE)
                                           : LEAT_EXHAUSTED_REDISTRIBUTE,
            .limit = kind == LIMITED && k % 2 ? 1 + k % 7 : 0,
            .tokens = kind == FIXED_TOKENS || kind == VARYING_TOKENS ? 1 + k % 9 : 0,
            .row_tokens = kind == VARYING_TOKENS && k % 3 ? tokens : NULL,
            .order = {.order = LEAT_ORDER_SHUFFLED}};
    }
    struct leat_plan_spec spec = {.sources = sources,
                                  .mixed = true,
                                  .n_sources = n,
                                  .epoch_rows = kind == LARGE ? UINT64_C(1) << 60 : 6000,
                                  .seed = 8,
                                  .global_batch = 16,
                                  .world_size = 1};
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(&spec, &plan, &error));
    free(sources);
    free(shares);
    return plan;
}

/* Decisions within epoch 1. Returns the position of the last. */
static struct leat_position decide_many(struct leat_plan *plan, uint32_t n, enum kind kind)
{
    double *shares = calloc(n, sizeof *shares);
    struct leat_error error = {0};
    struct leat_position at = {WITHIN, kind == LARGE ? UINT64_C(1) << 58 : 640};
    assert_non_null(shares);
    for (uint64_t i = 0; i < (n < 1000 ? DECIDED : DECIDED_BY_MANY); i++, at.row += 16) {
        draw_many_shares(100 + i, n, shares);
        struct leat_decision d = {.at = at, .shares = shares};
        assert_ok(leat_plan_decide(plan, &d, &error));
    }
    free(shares);
    at.row -= 16;
    return at;
}

static void assert_same_rows(struct leat_plan *a, struct leat_plan *b, struct leat_position at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = at.row + i;
        assert_int_equal(leat_plan_rows_at(a, at.epoch, &row, 1, &rows[0]), LEAT_OK);
        assert_int_equal(leat_plan_rows_at(b, at.epoch, &row, 1, &rows[1]), LEAT_OK);
        assert_true(same_row(&rows[0], &rows[1]));
    }
}

TEST(a_state_of_many_sources_is_small_and_resumes_the_run)
{
    static const uint32_t sizes[] = {32, 33, MANY};
    bool large = false;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const uint32_t n = sizes[s];
            struct leat_plan *whole = open_many(n, kind), *loaded = open_many(n, kind);
            const struct leat_position at = decide_many(whole, n, kind);
            struct leat_position found;
            struct leat_error error = {0};
            char *json, *again;
            assert_ok(plan_state(whole, print, at, &json, &error));
            assert_true(strlen(json) <= (n < 512 ? 65536 : n * 128));
            large |= strlen(json) > 65536;
            assert_true(n == MANY || strstr(json, "\"inside\":")); /* there is room for the decisions of many */
            assert_ok(plan_load(loaded, print, json, &found, &error));
            assert_true(found.epoch == at.epoch && found.row == at.row);
            assert_same_rows(whole, loaded, at, 200);
            assert_same_rows(whole, loaded, (struct leat_position){WITHIN + 1, 0}, 100);
            assert_ok(plan_state(loaded, print, at, &again, &error));
            assert_string_equal(json, again);
            leat_free(json);
            leat_free(again);
            leat_plan_free(whole);
            leat_plan_free(loaded);
        }
    assert_true(large); /* what is said of many sources may take more than 64 KiB */
}

TEST(a_log_lists_shares_however_many_there_are)
{
    struct leat_plan *plan = open_many(100, REDISTRIBUTE);
    struct leat_error error = {0};
    char *json;
    decide_many(plan, 100, REDISTRIBUTE);
    assert_ok(leat_plan_log(plan, 0, &json, &error));
    assert_non_null(strstr(json, "\"shares\":["));
    assert_null(strstr(json, "\"shares\":\""));
    leat_free(json);
    leat_plan_free(plan);
}

/* Loads the state with the text behind `key` damaged by one of some ways. */
static int load_damaged(const char *json, const char *key, int way)
{
    char *text = calloc(strlen(json) + 64, 1);
    const char *at = strstr(json, key);
    assert_non_null(text);
    assert_non_null(at);
    at += strlen(key);
    const char *end = strchr(at, '"');
    const size_t before = (size_t)(at - json), length = (size_t)(end - at);
    memcpy(text, json, before);
    if (way == 0) /* fewer numbers */
        strncat(text, at, length - 4);
    else if (way == 1) /* more */
        sprintf(text + before, "%.*sAAAA", (int)length, at);
    else if (way == 2) /* no base64 */
        sprintf(text + before, "!%.*s", (int)length - 1, at + 1);
    else if (way == 3) /* one that does not end */
        sprintf(text + before, "%.*s////", (int)length - 4, at);
    strcat(text, end);
    struct leat_plan *plan = open_many(100, REDISTRIBUTE);
    struct leat_position found;
    const int rc = plan_load(plan, print, text, &found, NULL);
    leat_plan_free(plan);
    free(text);
    return rc;
}

TEST(numbers_of_sources_that_were_cut_or_changed_are_refused)
{
    static const char *const keys[] = {"\"carry\":\"", "\"given\":\"", "\"shares\":\"", "\"through\":\"",
                                       "\"count\":\""};
    struct leat_plan *plan = open_many(100, REDISTRIBUTE);
    const struct leat_position at = decide_many(plan, 100, REDISTRIBUTE);
    struct leat_error error = {0};
    char *json;
    assert_ok(plan_state(plan, print, at, &json, &error));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (int way = 0; way < 5; way++) {
            const int rc = load_damaged(json, keys[k], way);
            if (way < 4)
                assert_int_equal(rc, k < 4 ? LEAT_E_INVALID : LEAT_E_STATE);
            else /* all of it is gone */
                assert_int_not_equal(rc, LEAT_OK);
        }
    leat_free(json);
    leat_plan_free(plan);
}

TEST_MAIN()
