/* A packed set has the ids that went into it, whatever form its chunks take. */
#include "data/packed.h"

#include "../allocations.h"
#include "../test.h"
#include "base/random.h"

enum { CHUNKS = 9, IDS = CHUNKS * LEAT_CHUNK_IDS };

static uint64_t bits[IDS / 64];

static bool has(uint64_t id)
{
    return bits[id >> 6] >> (id & 63) & 1;
}

static void put(uint64_t id)
{
    bits[id >> 6] |= UINT64_C(1) << (id & 63);
}

/* Chunks of every kind: none, all, one id, few, many, runs, all but one, the borders. */
static void make_bits(void)
{
    memset(bits, 0, sizeof bits);
    for (uint64_t i = 0; i < LEAT_CHUNK_IDS; i++) {
        put(LEAT_CHUNK_IDS + i);
        if (i != 777)
            put(6 * LEAT_CHUNK_IDS + i);
        if (leat_draw_u64(1, i) % 1000 == 0)
            put(3 * LEAT_CHUNK_IDS + i);
        if (leat_draw_u64(2, i) % 2)
            put(4 * LEAT_CHUNK_IDS + i);
        if (i / 500 % 3 == 1)
            put(5 * LEAT_CHUNK_IDS + i);
    }
    put(2 * LEAT_CHUNK_IDS + 5);
    put(7 * LEAT_CHUNK_IDS);
    put(8 * LEAT_CHUNK_IDS - 1);
    put(8 * LEAT_CHUNK_IDS);
}

static int pack(struct leat_packed *p)
{
    int rc = LEAT_OK;
    for (uint64_t key = 0; key < CHUNKS && !rc; key++)
        rc = leat_packed_add(p, key, bits + key * LEAT_CHUNK_WORDS);
    return rc;
}

static void assert_has_bits(const struct leat_packed *p)
{
    struct leat_packed_cursor cursor = {0};
    uint64_t begin, count, end = 0, position = 0, run;
    while (leat_packed_next(p, &cursor, &begin, &count)) {
        assert_true(count > 0);
        for (; end < begin; end++)
            assert_false(has(end));
        for (; end < begin + count; end++, position++) {
            assert_true(has(end));
            if (position % 5 == 0 || count < 4) {
                assert_int_equal(leat_packed_at(p, position, &run), end);
                assert_true(run >= 1 && run <= begin + count - end);
            }
        }
    }
    for (; end < IDS; end++)
        assert_false(has(end));
    assert_int_equal(p->count, position);
}

TEST(a_set_has_the_ids_of_its_bits)
{
    struct leat_packed p = {0};
    make_bits();
    assert_int_equal(pack(&p), LEAT_OK);
    assert_has_bits(&p);
    assert_true(p.bytes < CHUNKS * 8400);
    leat_packed_destroy(&p);
}

TEST(a_set_made_of_runs_is_the_same)
{
    static struct leat_set_making making;
    struct leat_packed p = {0};
    make_bits();
    memset(&making, 0, sizeof making);
    for (uint64_t at = 0, end; at < IDS; at = end) {
        for (end = at + 1; end < IDS && has(end) == has(at); end++)
            ;
        if (has(at))
            assert_int_equal(leat_set_making_add(&making, at, end - at), LEAT_OK);
    }
    assert_int_equal(leat_set_making_close(&making, &p), LEAT_OK);
    assert_has_bits(&p);
    leat_packed_destroy(&p);
}

TEST(a_set_of_nothing_is_empty)
{
    struct leat_packed p = {0};
    struct leat_packed_cursor cursor = {0};
    uint64_t begin, count;
    memset(bits, 0, sizeof bits);
    assert_int_equal(pack(&p), LEAT_OK);
    assert_int_equal(p.count, 0);
    assert_false(leat_packed_next(&p, &cursor, &begin, &count));
    leat_packed_destroy(&p);
}

TEST(without_memory_packing_fails_cleanly)
{
    make_bits();
    bool reached = true;
    for (int64_t n = 0; reached; n++) {
        struct leat_packed p = {0};
        fail_allocation(n);
        const int rc = pack(&p);
        reached = allocation_failed();
        leat_packed_destroy(&p);
        assert_int_equal(rc, reached ? LEAT_E_NOMEM : LEAT_OK);
    }
}

TEST_MAIN()
