#include "../test.h"
#include "base/random.h"
#include "port/lending.h"

static uint32_t publish_all(struct leat_lending *l)
{
    uint32_t n = 0;
    uint8_t seen[LEAT_LENDING_SLOTS] = {0};
    leat_lending_open(l);
    for (uint32_t slot; (slot = leat_lending_publish(l)) != LEAT_NO_SLOT; n++) {
        assert_true(slot < LEAT_LENDING_SLOTS && !seen[slot]);
        seen[slot] = 1;
    }
    return n;
}

TEST(each_slot_is_published_once_until_it_is_dropped)
{
    struct leat_lending l;
    assert_int_equal(publish_all(&l), LEAT_LENDING_SLOTS);
    assert_true(leat_lending_drop(&l, 77));
    assert_int_equal(leat_lending_publish(&l), 77);
    assert_int_equal(leat_lending_publish(&l), LEAT_NO_SLOT);
}

TEST(a_slot_is_free_only_when_it_is_neither_kept_nor_held)
{
    struct leat_lending l;
    struct leat_loan a = {0}, b = {0};
    bool freed;
    leat_lending_open(&l);
    const uint32_t slot = leat_lending_publish(&l);
    leat_lending_lend(&l, &a, slot);
    leat_lending_lend(&l, &b, slot);
    assert_true(leat_lending_take_back(&l, &a, slot, &freed) && !freed);
    assert_false(leat_lending_drop(&l, slot));
    assert_true(leat_lending_take_back(&l, &b, slot, &freed) && freed);
    assert_int_equal(l.n_free, LEAT_LENDING_SLOTS);
}

TEST(what_a_consumer_does_not_have_is_not_taken_back_from_it)
{
    struct leat_lending l;
    struct leat_loan a = {0}, b = {0};
    bool freed;
    leat_lending_open(&l);
    const uint32_t slot = leat_lending_publish(&l);
    leat_lending_lend(&l, &a, slot);
    const struct leat_lending before = l;
    const uint32_t wrong[] = {slot, slot + 1, LEAT_LENDING_SLOTS, LEAT_NO_SLOT, 1u << 31};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(leat_lending_take_back(&l, &b, wrong[i], &freed));
        assert_false(freed);
    }
    assert_memory_equal(&l, &before, sizeof l);
    assert_true(leat_lending_take_back(&l, &a, slot, &freed));
    assert_false(leat_lending_take_back(&l, &a, slot, &freed));
}

TEST(a_slot_that_is_not_kept_cannot_be_dropped_again)
{
    struct leat_lending l;
    leat_lending_open(&l);
    const uint32_t slot = leat_lending_publish(&l);
    assert_true(leat_lending_drop(&l, slot));
    assert_false(leat_lending_drop(&l, slot));
    assert_false(leat_lending_drop(&l, LEAT_NO_SLOT));
    assert_int_equal(l.n_free, LEAT_LENDING_SLOTS);
}

/* Any operations, beside what they ought to do. */
TEST(drawn_operations_leave_every_slot_free_or_in_use_and_never_both)
{
    enum { CONSUMERS = 5, OPERATIONS = 400000 };
    static struct leat_lending l;
    static struct leat_loan loans[CONSUMERS];
    static bool kept[LEAT_LENDING_SLOTS], has[CONSUMERS][LEAT_LENDING_SLOTS];
    uint32_t used[LEAT_LENDING_SLOTS] = {0}, n_used = 0;
    leat_lending_open(&l);
    for (uint64_t t = 0; t < OPERATIONS; t++) {
        const uint32_t slot = (uint32_t)leat_draw_below(t, 1, t % 1000 < 500 ? 8 : LEAT_LENDING_SLOTS + 1);
        const uint32_t who = (uint32_t)leat_draw_below(t, 2, CONSUMERS);
        bool freed = false, in_range = slot < LEAT_LENDING_SLOTS;
        switch (leat_draw_below(t, 3, 4)) {
        case 0: {
            const uint32_t got = leat_lending_publish(&l);
            assert_int_equal(got == LEAT_NO_SLOT, n_used == LEAT_LENDING_SLOTS);
            if (got != LEAT_NO_SLOT) {
                assert_true(!used[got]++);
                kept[got] = true;
                n_used++;
            }
            break;
        }
        case 1:
            if (in_range && used[slot] && !has[who][slot]) {
                leat_lending_lend(&l, &loans[who], slot);
                has[who][slot] = true;
                used[slot]++;
            }
            break;
        case 2:
            assert_int_equal(leat_lending_take_back(&l, &loans[who], slot, &freed), in_range && has[who][slot]);
            if (in_range && has[who][slot]) {
                has[who][slot] = false;
                assert_int_equal(freed, !--used[slot]);
                n_used -= freed;
            }
            break;
        default:
            freed = leat_lending_drop(&l, slot);
            assert_int_equal(freed, in_range && kept[slot] && used[slot] == 1);
            if (in_range && kept[slot]) {
                kept[slot] = false;
                n_used -= !--used[slot];
            }
        }
        assert_int_equal(l.n_free, LEAT_LENDING_SLOTS - n_used);
    }
    for (uint32_t slot = 0; slot < LEAT_LENDING_SLOTS; slot++)
        leat_lending_drop(&l, slot);
    for (uint32_t who = 0; who < CONSUMERS; who++) {
        bool freed;
        for (uint32_t slot; (slot = leat_loan_any(&loans[who])) != LEAT_NO_SLOT;) {
            assert_true(has[who][slot]);
            assert_true(leat_lending_take_back(&l, &loans[who], slot, &freed));
        }
        assert_int_equal(loans[who].n, 0);
    }
    assert_int_equal(l.n_free, LEAT_LENDING_SLOTS);
}

TEST_MAIN()
