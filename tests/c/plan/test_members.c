/* Rows that are groups of samples, of which each draws one. */
#include "../allocations.h"
#include "common.h"
#include "plan/members.h"

enum { GROUPS = 4, SAMPLES = 20 };
static const uint64_t begins[GROUPS + 1] = {0, 1, 6, 8, 11}, members[] = {7, 0, 1, 2, 3, 4, 19, 19, 10, 11, 12};
static const double weights[] = {1, 0, 2, 0, 1, 0, 1, 1, 0.5, 0.25, 0.25};

static bool is_member(uint64_t group, uint64_t position)
{
    for (uint64_t i = begins[group]; i < begins[group + 1]; i++)
        if (members[i] == position)
            return true;
    return false;
}

static struct leat_plan *open_plan(const double *with, enum leat_order order, uint32_t rank, uint32_t world)
{
    static struct leat_one_of_options one_of;
    one_of = (struct leat_one_of_options){begins, GROUPS, members, with};
    const struct leat_plan_source source = {
        .count = SAMPLES, .order = {.order = order, .block_rows = 2}, .one_of = &one_of};
    return make_plan(&source, 1, 0, 5, 3, rank, world, LEAT_TAIL_PAD);
}

TEST(rows_draw_members_of_each_group_once_an_epoch)
{
    const enum leat_order orders[] = {LEAT_ORDER_SEQUENTIAL, LEAT_ORDER_SHUFFLED, LEAT_ORDER_BLOCKS};
    for (size_t o = 0; o < 3; o++) {
        struct leat_plan *plan = open_plan(NULL, orders[o], 0, 1);
        assert_true(leat_plan_draws(plan));
        for (uint64_t epoch = 0; epoch < 20; epoch++) {
            const uint64_t numbers[] = {0, 1, 2, 3};
            struct leat_plan_row rows[GROUPS];
            unsigned seen = 0;
            assert_int_equal(leat_plan_rows_at(plan, epoch, numbers, GROUPS, rows), LEAT_OK);
            for (size_t i = 0; i < GROUPS; i++)
                for (uint64_t g = 0; g < GROUPS; g++)
                    seen |= (unsigned)is_member(g, rows[i].piece.position) << g;
            assert_int_equal(seen, (1 << GROUPS) - 1);
        }
        leat_plan_free(plan);
    }
}

TEST(a_member_without_weight_is_never_drawn)
{
    struct leat_members *m;
    struct leat_error error;
    uint64_t counts[SAMPLES] = {0};
    assert_ok(leat_members_new(&(struct leat_one_of_options){begins, GROUPS, members, weights}, SAMPLES, &m, &error));
    for (uint64_t key = 0; key < 3000; key++)
        counts[leat_members_draw(m, 1, leat_key_mix(9, key), 0)]++;
    assert_int_equal(counts[0] + counts[2] + counts[4], 0);
    assert_int_equal(counts[1] + counts[3], 3000);
    assert_in_range(counts[1], 1900, 2100);
    leat_members_free(m);
}

TEST(groups_that_make_no_sense_are_refused)
{
    static const uint64_t empty[] = {0, 2, 2, 3}, late[] = {1, 2}, outside[] = {0, SAMPLES};
    static const double none[] = {0, 0}, less[] = {1, -1}, most[] = {1e308, 1e308};
    static const uint64_t two[] = {0, 2};
    const struct {
        struct leat_one_of_options options;
        int code;
    } cases[] = {
        {{NULL, 1, members, NULL}, LEAT_E_INVALID}, {{empty, 3, members, NULL}, LEAT_E_INVALID},
        {{late, 1, members, NULL}, LEAT_E_INVALID}, {{two, 1, NULL, NULL}, LEAT_E_INVALID},
        {{two, 1, outside, NULL}, LEAT_E_RANGE},    {{two, 1, members, none}, LEAT_E_INVALID},
        {{two, 1, members, less}, LEAT_E_INVALID},  {{two, 1, members, most}, LEAT_E_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_members *m;
        struct leat_error error;
        assert_int_equal(leat_members_new(&cases[i].options, SAMPLES, &m, &error), cases[i].code);
        assert_null(m);
    }
}

TEST(any_allocation_for_groups_may_fail)
{
    for (int64_t n = 0;; n++) {
        struct leat_members *m;
        struct leat_error error;
        fail_allocation(n);
        int rc = leat_members_new(&(struct leat_one_of_options){begins, GROUPS, members, weights}, SAMPLES, &m, &error);
        if (!allocation_failed()) {
            assert_ok(rc);
            leat_members_free(m);
            break;
        }
        assert_int_equal(rc, LEAT_E_NOMEM);
        assert_null(m);
    }
}

TEST_MAIN()
