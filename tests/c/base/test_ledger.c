/* The memory of a process, by who uses it. */
#include "../test.h"
#include "base/ledger.h"
#include "leat/leat.h"

TEST(loaders_and_workers_share_half_of_the_memory)
{
    const uint64_t allowed = leat_ledger_allowed();
    assert_int_equal(allowed, leat_memory_allowed() / 2);
    assert_int_equal(leat_memory_left(), allowed);
    leat_ledger_take(LEAT_OF_LOADERS, 1000);
    leat_ledger_take(LEAT_OF_WORKERS, 500);
    assert_int_equal(leat_memory_left(), allowed - 1500);
    assert_true(leat_ledger_fits(allowed - 1500) && !leat_ledger_fits(allowed - 1499));
    leat_ledger_give(LEAT_OF_LOADERS, 400);
    assert_int_equal(leat_ledger_used(LEAT_OF_LOADERS), 600);
    leat_ledger_take(LEAT_OF_WORKERS, allowed);
    assert_int_equal(leat_memory_left(), 0);
    leat_ledger_forget(LEAT_OF_LOADERS);
    leat_ledger_forget(LEAT_OF_WORKERS);
    assert_int_equal(leat_memory_left(), allowed);
}

TEST(blocks_and_photos_give_way)
{
    const uint64_t allowed = leat_ledger_allowed();
    leat_ledger_take(LEAT_OF_BLOCKS, allowed);
    assert_true(!leat_ledger_is_over(0) && leat_ledger_fits(allowed));
    leat_ledger_take(LEAT_OF_LOADERS, 1);
    assert_true(leat_ledger_is_over(0));
    leat_ledger_give(LEAT_OF_BLOCKS, 2);
    leat_ledger_take(LEAT_OF_PHOTOS, 1);
    assert_true(!leat_ledger_is_over(0));
    leat_ledger_take(LEAT_OF_PHOTOS, 1);
    assert_true(leat_ledger_is_over(0));
    leat_ledger_forget(LEAT_OF_PHOTOS);
    leat_ledger_forget(LEAT_OF_BLOCKS);
    leat_ledger_forget(LEAT_OF_LOADERS);
}

TEST_MAIN()
