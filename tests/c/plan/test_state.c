#include "../allocations.h"
#include "common.h"

static const uint8_t print[16] = {1, 2, 3, 250};

static void free_plan_and(struct leat_plan *plan, char *text)
{
    leat_plan_free(plan);
    leat_free(text);
}

/* A plan that has everything a state can say: two sources, changed shares and sizes. */
static struct leat_plan *mixture(uint64_t seed, uint64_t global, uint32_t rank, uint32_t world)
{
    const double weights[] = {1, 2, 3, 4, 5};
    struct leat_plan_source sources[2] = {
        {.count = 70, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
        {.count = 5,
         .exhausted = LEAT_EXHAUSTED_REPEAT,
         .share = 1,
         .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 4, .replacement = true}}};
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = 2,
                                  .epoch_rows = 200,
                                  .seed = seed,
                                  .global_batch = global,
                                  .rank = rank,
                                  .world_size = world,
                                  .facts = "{\"program\": \"00ff\", \"on_error\": \"raise\"}"};
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(&spec, &plan, &error));
    return plan;
}

static void decide_two(struct leat_plan *plan)
{
    const double shares[] = {1, 4};
    struct leat_decision d[] = {{.at = {0, 64}, .global_batch = 24},
                                {.at = {1, 96}, .global_batch = 10, .shares = shares}};
    struct leat_error error = {0};
    for (int i = 0; i < 2; i++)
        assert_ok(leat_plan_decide(plan, &d[i], &error));
}

/* Not inlined: gcc takes the text for a pointer that may point at this function's variable, and warns of what is
 * searched in it. */
__attribute__((noinline)) static char *state_of(const struct leat_plan *plan, struct leat_position at)
{
    char *text;
    struct leat_error error = {0};
    assert_ok(plan_state(plan, print, at, &text, &error));
    return text;
}

TEST(a_state_comes_back_as_it_was_and_is_the_same_text_on_every_rank)
{
    struct leat_plan *plan = mixture(UINT64_MAX, 16, 0, 2), *other = mixture(UINT64_MAX, 16, 1, 2),
                     *fresh = mixture(UINT64_MAX, 16, 1, 2);
    struct leat_error error = {0};
    struct leat_position at;
    decide_two(plan);
    decide_two(other);
    char *text = state_of(plan, (struct leat_position){1, 116}),
         *same = state_of(other, (struct leat_position){1, 116});
    assert_string_equal(text, same);
    assert_ok(plan_load(fresh, print, text, &at, &error));
    assert_int_equal(at.epoch, 1);
    assert_int_equal(at.row, 116);
    assert_int_equal(leat_plan_hash(fresh), leat_plan_hash(plan));
    char *again = state_of(fresh, at);
    assert_string_equal(again, text);
    assert_true(strlen(text) < 65536);
    leat_free(again);
    free_plan_and(plan, text);
    free_plan_and(other, same);
    leat_plan_free(fresh);
}

TEST(a_state_that_is_checked_alone_changes_nothing)
{
    (void)state;
    struct leat_plan *plan = mixture(UINT64_MAX, 16, 0, 2), *fresh = mixture(UINT64_MAX, 16, 0, 2);
    struct leat_error error = {0};
    decide_two(plan);
    char *text = state_of(plan, (struct leat_position){1, 116}),
         *before = state_of(fresh, (struct leat_position){0, 32});
    const uint64_t hash = leat_plan_hash(fresh);
    assert_ok(leat_plan_load(fresh, print, text, NULL, NULL, NULL, &error));
    text[strlen(text) / 2] = '\x01';
    assert_int_not_equal(leat_plan_load(fresh, print, text, NULL, NULL, NULL, &error), LEAT_OK);
    char *after = state_of(fresh, (struct leat_position){0, 32});
    assert_string_equal(after, before);
    assert_int_equal(leat_plan_hash(fresh), hash);
    leat_free(after);
    free_plan_and(plan, text);
    free_plan_and(fresh, before);
}

TEST(a_run_goes_on_exactly_with_other_sizes_and_ranks)
{
    static struct leat_plan_row all[400], rest[400];
    struct leat_plan *plan = mixture(3, 16, 0, 1), *ranks[3];
    struct leat_error error = {0};
    struct leat_position at;
    struct leat_plan_batch batch;
    decide_two(plan);
    assert_int_equal(walk(&plan, 1, (struct leat_position){1, 0}, all, 400), 200);
    char *text = state_of(plan, (struct leat_position){1, 116});
    for (uint32_t r = 0; r < 3; r++) {
        ranks[r] = mixture(3, 9, r, 3);
        assert_ok(plan_load(ranks[r], print, text, &at, &error));
    }
    assert_int_equal(walk(ranks, 3, at, rest, 400), 84);
    for (int i = 0; i < 84; i++)
        assert_true(same_row(&rest[i], &all[116 + i]));
    assert_int_equal(leat_plan_batch(ranks[2], at, &batch), LEAT_OK);
    assert_int_equal(batch.rows, 3);
    struct leat_plan_batch old;
    assert_int_equal(leat_plan_batch(plan, at, &old), LEAT_OK);
    assert_int_equal(batch.step, old.step); /* steps count through the log */
    for (int r = 0; r < 3; r++)
        leat_plan_free(ranks[r]);
    free_plan_and(plan, text);
}

TEST(the_same_options_keep_what_a_decision_made_of_them)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, 100, 1, 4, 0, 1, LEAT_TAIL_PAD);
    struct leat_decision d = {.at = {0, 8}, .global_batch = 10};
    struct leat_error error = {0};
    struct leat_position at;
    struct leat_plan_batch batch;
    assert_ok(leat_plan_decide(plan, &d, &error));
    char *text = state_of(plan, (struct leat_position){0, 28});
    struct leat_plan *again = simple_plan(LEAT_ORDER_SHUFFLED, 100, 1, 4, 0, 1, LEAT_TAIL_PAD);
    assert_ok(plan_load(again, print, text, &at, &error));
    assert_int_equal(leat_plan_batch(again, at, &batch), LEAT_OK);
    assert_int_equal(batch.rows, 10);
    leat_plan_free(again);
    free_plan_and(plan, text);
}

TEST(a_state_after_the_last_batch_is_the_next_epochs_start)
{
    struct leat_plan *plan = simple_plan(LEAT_ORDER_SHUFFLED, 10, 1, 4, 0, 1, LEAT_TAIL_DROP);
    struct leat_error error = {0};
    struct leat_position at;
    char *text = state_of(plan, (struct leat_position){2, 10});
    assert_ok(plan_load(plan, print, text, &at, &error));
    assert_int_equal(at.epoch, 3);
    assert_int_equal(at.row, 0);
    free_plan_and(plan, text);
}

TEST(small_lists_stand_in_the_state_and_large_ones_are_named_by_hash)
{
    enum { LARGE = 100000 };
    static int64_t large[LARGE];
    const int64_t small[] = {7, 0, 99999, 3};
    for (int64_t i = 0; i < LARGE; i++)
        large[i] = i * 7919 % LARGE;
    struct leat_plan_source source = {.count = LARGE, .order = {.order = LEAT_ORDER_LIST}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD),
                     *fresh = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD);
    struct leat_decision one = {.at = {0, 0}, .positions = small, .n_positions = 4},
                         two = {.at = {1, 0}, .positions = large, .n_positions = LARGE};
    struct leat_error error = {0};
    struct leat_position at;
    struct leat_plan_row rows[4];
    assert_ok(leat_plan_decide(plan, &one, &error));
    char *text = state_of(plan, (struct leat_position){0, 2});
    assert_ok(plan_load(fresh, print, text, &at, &error));
    assert_int_equal(walk(&fresh, 1, at, rows, 4), 2);
    assert_int_equal(rows[0].piece.position, 99999);
    assert_int_equal(rows[1].piece.position, 3);
    leat_free(text);
    assert_ok(leat_plan_decide(plan, &two, &error));
    text = state_of(plan, (struct leat_position){1, 2});
    assert_true(strlen(text) < 65536);
    assert_int_equal(plan_load(fresh, print, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "list"));
    /* Until the load a list that is known is no part of the plan. */
    assert_ok(leat_plan_know_list(fresh, large, LARGE, &error));
    assert_ok(leat_plan_know_list(fresh, small, 4, &error));
    assert_int_equal(leat_plan_epoch_rows(fresh, 1), 4);
    assert_ok(plan_load(fresh, print, text, &at, &error));
    assert_int_equal(leat_plan_epoch_rows(fresh, 1), LARGE);
    leat_plan_free(fresh);
    fresh = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD);
    assert_ok(leat_plan_know_list(fresh, large, LARGE, &error));
    leat_plan_forget_lists(fresh);
    assert_int_equal(plan_load(fresh, print, text, &at, &error), LEAT_E_STATE);
    /* A list that the plan itself has is found too. */
    assert_ok(leat_plan_decide(fresh, &two, &error));
    assert_ok(plan_load(fresh, print, text, &at, &error));
    assert_int_equal(leat_plan_epoch_rows(fresh, 1), LARGE);
    leat_plan_free(fresh);
    free_plan_and(plan, text);
}

TEST(a_new_list_every_epoch_keeps_log_memory_and_state_small)
{
    enum { EPOCHS = 100000 };
    struct leat_plan_source source = {.count = 9, .order = {.order = LEAT_ORDER_LIST}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD),
                     *fresh = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_plan_row rows[2];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const int64_t list[] = {(int64_t)epoch % 9, 3};
        struct leat_decision d = {.at = {epoch, 0}, .positions = list, .n_positions = 2, .done = {epoch, 0}};
        assert_ok(leat_plan_decide(plan, &d, &error));
        assert_int_equal(walk(&plan, 1, (struct leat_position){epoch, 0}, rows, 2), 2);
        assert_int_equal(rows[0].piece.position, epoch % 9);
    }
    char *text = state_of(plan, (struct leat_position){EPOCHS - 1, 0});
    assert_true(strlen(text) < 1000);
    struct leat_plan_batch batch;
    struct leat_position at;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int rc = leat_plan_batch(plan, (struct leat_position){epoch, 0}, &batch);
        assert_int_equal(rc, epoch < EPOCHS - 4 ? LEAT_E_RANGE : LEAT_OK);
    }
    assert_ok(plan_load(fresh, print, text, &at, &error));
    assert_int_equal(leat_plan_hash(fresh), leat_plan_hash(plan));
    assert_int_equal(walk(&fresh, 1, at, rows, 2), 2);
    assert_int_equal(rows[0].piece.position, (EPOCHS - 1) % 9);
    leat_plan_free(fresh);
    free_plan_and(plan, text);
}

/* Sizes and shares decided `n` times, every second one in mid-epoch. `tell`: the plan is told how far the run is. */
static void decide_often(struct leat_plan *plan, uint64_t n, bool tell)
{
    struct leat_error error = {0};
    for (uint64_t i = 0; i < n; i++) {
        const double shares[] = {(double)(1 + i % 5), 3};
        struct leat_position at = {i / 2, i % 2 * (16 + i % 7)};
        struct leat_decision d = {.at = at,
                                  .global_batch = 9 + i % 8,
                                  .shares = i % 3 ? NULL : shares,
                                  .done = tell ? at : (struct leat_position){0, 0}};
        assert_ok(leat_plan_decide(plan, &d, &error));
    }
}

TEST(a_folded_log_gives_the_same_rows_steps_hash_and_state)
{
    static struct leat_plan_row rows[3][400];
    for (uint64_t n = 255; n < 1255; n += 250) {
        struct leat_plan *all = mixture(5, 16, 1, 3), *folded = mixture(5, 16, 1, 3), *loaded = mixture(5, 16, 1, 3);
        struct leat_error error = {0};
        struct leat_position at;
        struct leat_plan_batch batch[3];
        decide_often(all, n, false);
        decide_often(folded, n, true);
        assert_int_equal(leat_plan_hash(folded), leat_plan_hash(all));
        const struct leat_position end = {(n - 1) / 2 + 1, 0};
        char *text = state_of(all, end), *same = state_of(folded, end);
        assert_string_equal(text, same);
        assert_true(strlen(text) < 8192);
        assert_ok(plan_load(loaded, print, text, &at, &error));
        assert_int_equal(leat_plan_hash(loaded), leat_plan_hash(all));
        struct leat_plan *plans[3] = {all, folded, loaded};
        for (uint64_t epoch = end.epoch; epoch < end.epoch + 3; epoch++)
            for (int p = 0; p < 3; p++) {
                assert_int_equal(leat_plan_steps(plans[p], epoch), leat_plan_steps(all, epoch));
                assert_int_equal(leat_plan_rank_steps(plans[p], epoch), leat_plan_rank_steps(all, epoch));
                assert_int_equal(walk(&plans[p], 1, (struct leat_position){epoch, 0}, rows[p], 400),
                                 walk(&all, 1, (struct leat_position){epoch, 0}, rows[0], 400));
                assert_memory_equal(rows[p], rows[0], sizeof rows[0]);
                assert_int_equal(leat_plan_substitute(plans[p], epoch, 7, 1).position,
                                 leat_plan_substitute(all, epoch, 7, 1).position);
            }
        assert_int_equal(leat_plan_batch(loaded, (struct leat_position){0, 0}, &batch[0]), LEAT_E_RANGE);
        assert_int_equal(leat_plan_substitute(loaded, 0, 0, 0).count, 0);
        leat_plan_free(loaded);
        free_plan_and(all, text);
        free_plan_and(folded, same);
    }
}

TEST(steps_and_padding_of_an_epoch_whose_sizes_were_folded_stay)
{
    enum { N = 5000 };
    struct leat_plan *all = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 3, 4, LEAT_TAIL_PAD),
                     *folded = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 3, 4, LEAT_TAIL_PAD),
                     *loaded = simple_plan(LEAT_ORDER_SHUFFLED, N, 1, 8, 3, 4, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    for (uint64_t i = 1; i < 400; i++) {
        struct leat_decision d = {.at = {3, i * 11}, .global_batch = 5 + i % 4};
        assert_ok(leat_plan_decide(all, &d, &error));
        d.done = d.at;
        assert_ok(leat_plan_decide(folded, &d, &error));
    }
    struct leat_position at = {3, 399 * 11}, back;
    char *text = state_of(folded, at);
    assert_ok(plan_load(loaded, print, text, &back, &error));
    struct leat_plan *plans[] = {all, folded, loaded};
    struct leat_plan_batch batch[3];
    struct leat_plan_row rows[3][8] = {0};
    assert_int_equal(leat_plan_batch(loaded, (struct leat_position){3, 11}, &batch[0]), LEAT_E_RANGE);
    assert_int_equal(leat_plan_seek(loaded, 3, 1, &back), LEAT_E_RANGE);
    int rc[3] = {0};
    for (bool padded = false; !rc[0]; at = batch[0].next) {
        for (int p = 0; p < 3; p++) {
            rc[p] = leat_plan_batch(plans[p], at, &batch[p]);
            assert_int_equal(rc[p], rc[0]);
            assert_memory_equal(&batch[p], &batch[0], sizeof batch[0]);
            if (rc[p])
                continue;
            assert_int_equal(leat_plan_rows(plans[p], &batch[p], 0, batch[p].rows, rows[p]), LEAT_OK);
            assert_memory_equal(rows[p], rows[0], batch[0].rows * sizeof **rows);
            assert_int_equal(leat_plan_seek(plans[p], 3, batch[0].step, &back), LEAT_OK);
            assert_int_equal(back.row, at.row);
            padded |= !rows[p][batch[p].rows - 1].valid;
        }
        if (!rc[0] && batch[0].last)
            assert_true(padded);
    }
    assert_int_equal(leat_plan_steps(loaded, 3), leat_plan_steps(all, 3));
    leat_plan_free(loaded);
    leat_plan_free(all);
    free_plan_and(folded, text);
}

TEST(a_batch_whose_list_was_given_up_is_an_error)
{
    const int64_t list[] = {1, 2, 3};
    struct leat_plan_source source = {.count = 9, .order = {.order = LEAT_ORDER_LIST}};
    struct leat_plan *plan = make_plan(&source, 1, 0, 1, 2, 0, 1, LEAT_TAIL_PAD);
    struct leat_error error = {0};
    struct leat_plan_batch held, other;
    struct leat_plan_row rows[2];
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        struct leat_decision d = {.at = {epoch, 0}, .positions = list, .n_positions = 3, .done = {epoch, 0}};
        assert_ok(leat_plan_decide(plan, &d, &error));
        if (!epoch)
            assert_int_equal(leat_plan_batch(plan, d.at, &held), LEAT_OK);
        assert_int_equal(leat_plan_rows(plan, &held, 0, 2, rows), epoch < 4 ? LEAT_OK : LEAT_E_RANGE);
    }
    assert_int_equal(leat_plan_substitute(plan, 0, 0, 0).count, 0);
    /* Nor does a shorter list in the place of the one that it was asked of lead outside. */
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){7, 2}, &other), LEAT_OK);
    struct leat_decision d = {.at = {7, 0}, .positions = list, .n_positions = 1, .done = {7, 0}};
    assert_ok(leat_plan_decide(plan, &d, &error));
    assert_int_equal(leat_plan_rows(plan, &other, 0, 1, rows), LEAT_E_RANGE);
    /* What the run has not done with is kept, however many lists follow. */
    for (uint64_t epoch = 8; epoch < 20; epoch++) {
        struct leat_decision later = {.at = {epoch, 0}, .positions = list, .n_positions = 3, .done = {8, 0}};
        assert_ok(leat_plan_decide(plan, &later, &error));
    }
    for (uint64_t epoch = 8; epoch < 20; epoch++)
        assert_int_equal(leat_plan_batch(plan, (struct leat_position){epoch, 0}, &other), LEAT_OK);
    leat_plan_free(plan);
}

TEST(a_state_of_something_else_says_what_differs)
{
    struct leat_plan *plan = mixture(5, 16, 0, 2);
    char *text = state_of(plan, (struct leat_position){0, 16});
    struct leat_error error;
    struct leat_position at;
    const uint8_t another[16] = {9};
    struct leat_plan *seed = mixture(6, 16, 0, 2),
                     *order = simple_plan(LEAT_ORDER_SHUFFLED, 70, 5, 16, 0, 2, LEAT_TAIL_PAD);
    assert_int_equal(plan_load(plan, another, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "another data set"));
    assert_null(strstr(error.message, "its run was over"));
    assert_int_equal(plan_load(order, another, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "this one is over 70"));
    assert_int_equal(plan_load(seed, print, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "seed=5"));
    assert_int_equal(plan_load(order, print, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "order"));
    char *version = strstr(text, "\"plan\":1");
    assert_non_null(version);
    version[7] = '9';
    assert_int_equal(plan_load(plan, print, text, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "version 9"));
    leat_plan_free(seed);
    leat_plan_free(order);
    free_plan_and(plan, text);
}

TEST(a_damaged_state_is_refused_and_the_plan_stays_as_it_is)
{
    const char *const swaps[][2] = {{"\"row\":116", "\"row\":117"},
                                    {"\"row\":116", "\"row\":-16"},
                                    {"\"row\":116", "\"row\":999"},
                                    {"\"row\":116", "\"row\":1e2"},
                                    {"\"row\":96", "\"row\":-6"},
                                    {"\"kind\":\"open\"", "\"kind\":\"opeN\""},
                                    {"\"tail\":\"pad\"", "\"tail\":\"paD\""},
                                    {"\"global_batch\":10", "\"global_batch\":-1"},
                                    {"\"shares\":[", "\"sharez\":["},
                                    {"\"state\":1", "\"state\":0"},
                                    {"\"world_size\":2", "\"world_size\":0"},
                                    {"[3221225472,", "[4294967296,"},
                                    {"\"epoch\":1", "\"epoch\":{"},
                                    {"\"log\":", "\"log\":9,\"x\":"}};
    struct leat_plan *plan = mixture(5, 16, 0, 2);
    decide_two(plan);
    char *text = state_of(plan, (struct leat_position){1, 116});
    uint64_t hash = leat_plan_hash(plan);
    struct leat_error error;
    struct leat_position at;
    for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
        char *bad = calloc(1, strlen(text) + 100), *place = strstr(text, swaps[i][0]);
        assert_non_null(bad);
        if (!place)
            fail_msg("the state has no %s: %s", swaps[i][0], text);
        sprintf(bad, "%.*s%s%s", (int)(place - text), text, swaps[i][1], place + strlen(swaps[i][0]));
        if (plan_load(plan, print, bad, &at, &error) != LEAT_E_INVALID)
            fail_msg("%s instead of %s was not refused as no state: %s", swaps[i][1], swaps[i][0], error.message);
        assert_int_equal(leat_plan_hash(plan), hash);
        free(bad);
    }
    for (size_t cut = 0; cut < strlen(text); cut++) {
        char *bad = strndup(text, cut);
        assert_int_equal(plan_load(plan, print, bad, &at, &error), LEAT_E_INVALID);
        free(bad);
    }
    assert_int_equal(leat_plan_hash(plan), hash);
    free_plan_and(plan, text);
}

TEST(a_damaged_folded_entry_is_refused)
{
    const char *const swaps[][2] = {
        {"\"given\":[", "\"given\":[9,"},        {"\"given\":[", "\"given\":[-"},
        {"\"given\":[", "\"given\":[1"},         {"\"stream\":", "\"stream\":9"},
        {"\"hash\":\"", "\"hash\":\"0"},         {"\"entries\":", "\"entries\":-"},
        {"\"steps\":", "\"steps\":9"},           {"\"opened_batch\":16", "\"x\":1"},
        {"\"tail\":\"pad\",\"world", "\"world"}, {"\"kind\":\"decide\"", "\"kind\":\"folded\""}};
    struct leat_plan *plan = mixture(5, 16, 0, 3);
    decide_often(plan, 300, true);
    char *text = state_of(plan, (struct leat_position){150, 0});
    struct leat_error error;
    struct leat_position at;
    uint64_t hash = leat_plan_hash(plan);
    for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
        char *bad = calloc(1, strlen(text) + 100), *fold = strstr(text, "\"entries\""), *place;
        assert_non_null(bad);
        assert_non_null(fold);
        place = strstr(fold, swaps[i][0]);
        if (!place)
            fail_msg("the state has no %s: %s", swaps[i][0], text);
        sprintf(bad, "%.*s%s%s", (int)(place - text), text, swaps[i][1], place + strlen(swaps[i][0]));
        if (plan_load(plan, print, bad, &at, &error) != LEAT_E_INVALID)
            fail_msg("%s instead of %s was not refused", swaps[i][1], swaps[i][0]);
        assert_int_equal(leat_plan_hash(plan), hash);
        free(bad);
    }
    free_plan_and(plan, text);
}

TEST(other_facts_load_and_are_logged_as_what_the_run_was_resumed_with)
{
    struct leat_plan_source source = {.count = 20};
    struct leat_plan_spec spec = {
        .sources = &source, .n_sources = 1, .global_batch = 4, .world_size = 1, .facts = "{\"on_error\":\"raise\"}"};
    struct leat_plan *plan, *other;
    struct leat_error error = {0};
    struct leat_position at;
    assert_ok(leat_plan_new(&spec, &plan, &error));
    spec.facts = "{\"on_error\":\"skip\"}";
    assert_ok(leat_plan_new(&spec, &other, &error));
    char *text = state_of(plan, (struct leat_position){0, 8});
    assert_ok(plan_load(other, print, text, &at, &error));
    assert_int_equal(at.row, 8);
    assert_true(leat_plan_hash(other) != leat_plan_hash(plan));
    char *resumed = state_of(other, at);
    assert_non_null(strstr(resumed, "{\"epoch\":0,\"facts\":{\"on_error\":\"skip\"},\"kind\":\"resume\",\"row\":8}"));
    assert_non_null(strstr(resumed, "raise"));
    assert_ok(plan_load(other, print, resumed, &at, &error)); /* the same ones again add nothing */
    char *again = state_of(other, at);
    assert_string_equal(again, resumed);
    leat_free(again);
    leat_free(resumed);
    leat_plan_free(other);
    free_plan_and(plan, text);
}

TEST(a_view_is_left_out_of_a_state_that_it_would_make_too_large)
{
    enum { COUNT = 100000, MANY = 30000 };
    static int64_t list[MANY];
    static char facts[2][8100], view[8100];
    char *texts[] = {facts[0], facts[1], view};
    bool with = false, without = false;
    for (int i = 0; i < 3; i++)
        snprintf(texts[i], 8100, "{\"%s\":\"%0*d\"}", i < 2 ? "on" : "part", 8000, i);
    for (int64_t i = 0; i < MANY; i++)
        list[i] = i * 7919 % COUNT;
    for (uint64_t n = 1000; n <= MANY; n += 1000) {
        struct leat_plan_source source = {.count = COUNT, .order = {.order = LEAT_ORDER_LIST}};
        struct leat_plan_spec spec = {
            .sources = &source, .n_sources = 1, .global_batch = 4, .world_size = 1, .facts = facts[0]};
        struct leat_decision d = {.at = {0, 0}, .positions = list, .n_positions = n};
        struct leat_plan *plan, *other;
        struct leat_error error = {0};
        struct leat_position at;
        assert_ok(leat_plan_new(&spec, &plan, &error));
        assert_ok(leat_plan_decide(plan, &d, &error));
        spec.facts = facts[1];
        spec.view = view;
        assert_ok(leat_plan_new(&spec, &other, &error));
        assert_ok(leat_plan_decide(other, &d, &error));
        char *text = state_of(plan, (struct leat_position){0, 8});
        assert_ok(plan_load(other, print, text, &at, &error));
        char *resumed = state_of(other, at);
        assert_true(strlen(resumed) <= 65536);
        *(strstr(resumed, "\"view\"") ? &with : &without) = true;
        assert_ok(plan_load(other, print, resumed, &at, &error));
        leat_free(resumed);
        leat_plan_free(other);
        free_plan_and(plan, text);
    }
    assert_true(with && without);
}

/* ---- memory that runs out -------------------------------------------------------------------- */

TEST(every_allocation_may_fail_once)
{
    struct leat_plan *reference = mixture(5, 16, 0, 2);
    decide_often(reference, 250, false);
    char *text = state_of(reference, (struct leat_position){125, 0});
    const double shares[] = {2, 1}, weights[] = {1, 2, 3};
    struct leat_error error = {0};
    int n = 0;
    for (bool done = false; !done; n++) {
        struct leat_plan_source sources[2] = {
            {.count = 70, .exhausted = LEAT_EXHAUSTED_REPEAT, .share = 3, .order = {.order = LEAT_ORDER_SHUFFLED}},
            {.count = 3,
             .exhausted = LEAT_EXHAUSTED_REPEAT,
             .share = 1,
             .order = {.order = LEAT_ORDER_WEIGHTED, .weights = weights, .num_samples = 2}}};
        struct leat_plan_spec spec = {
            .sources = sources, .n_sources = 2, .epoch_rows = 50, .global_batch = 4, .world_size = 1, .facts = "{}"};
        struct leat_decision d = {.at = {0, 4}, .shares = shares};
        struct leat_plan *plan = NULL, *loaded = mixture(5, 12, 0, 3);
        struct leat_position at;
        char *out = NULL;
        fail_allocation(n);
        int rc = leat_plan_new(&spec, &plan, &error);
        if (!rc)
            rc = leat_plan_decide(plan, &d, &error);
        if (!rc)
            rc = plan_state(plan, print, (struct leat_position){0, 4}, &out, &error);
        if (!rc)
            rc = plan_load(loaded, print, text, &at, &error);
        if (!rc) {
            leat_free(out);
            rc = plan_state(reference, print, (struct leat_position){125, 0}, &out, &error);
        }
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        leat_plan_free(loaded);
        free_plan_and(plan, out);
    }
    assert_true(n > 20);
    free_plan_and(reference, text);
}

TEST_MAIN()
