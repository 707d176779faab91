/* Rows that cut no document and batches by cost, against a packing that looks at all rows for each of them. */
#include "../allocations.h"
#include "base/alloc.h"
#include "common.h"
#include "plan/best_fit.h"

enum { MOST = 400 };

/* Lengths drawn from a number; some are longer than a row, and some leave nothing behind pieces of its length. */
static uint32_t draw_lengths(uint64_t key, uint32_t most, uint32_t length, uint32_t *lengths)
{
    const uint32_t n = (uint32_t)draw(key, 0, 0, most), longest = (uint32_t)draw(key, 1, 1, 3 * length);
    for (uint32_t i = 0; i < n; i++)
        lengths[i] = (uint32_t)draw(key, 2 + i, 0, 9) ? (uint32_t)draw(key, 1000 + i, 0, longest) : length;
    return n;
}

static void assert_packed(const uint32_t *lengths, uint32_t n, uint32_t length, const struct leat_bins *bins)
{
    uint32_t seen[MOST] = {0};
    assert_int_equal(bins->begin[0], 0);
    for (uint64_t row = 0; row < bins->n; row++) {
        uint64_t sum = 0;
        assert_true(bins->begin[row] < bins->begin[row + 1]);
        for (uint32_t k = bins->begin[row]; k < bins->begin[row + 1]; k++) {
            assert_true(bins->documents[k] < n);
            seen[bins->documents[k]]++;
            sum += lengths[bins->documents[k]] % length;
        }
        assert_true(sum <= length);
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(seen[i], lengths[i] % length != 0);
}

/* The number of rows if the longest document goes first into the first row with room, or into that with the least. */
static uint64_t rows_of(const uint32_t *lengths, uint32_t n, uint32_t length, bool best)
{
    uint32_t room[MOST];
    uint64_t rows = 0;
    for (uint32_t need = length - 1; need; need--)
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = rows;
            if (lengths[i] % length != need)
                continue;
            for (uint64_t k = 0; k < rows; k++)
                if (room[k] >= need && (at == rows || (best && room[k] < room[at])))
                    at = k;
            room[at] = (at == rows ? length : room[at]) - need;
            rows += at == rows;
        }
    return rows;
}

TEST(each_document_is_in_one_row_that_has_room_for_it)
{
    for (uint64_t t = 0; t < 300; t++) {
        uint32_t lengths[MOST];
        const uint32_t length = (uint32_t)draw(t, 9000, 1, t % 3 ? 20 : 5000),
                       n = draw_lengths(t, MOST, length, lengths);
        struct leat_bins bins;
        struct leat_error error = {0};
        assert_ok(leat_bins_new(lengths, n, length, t, &bins, &error));
        assert_packed(lengths, n, length, &bins);
        leat_bins_clear(&bins);
        assert_true(!bins.n && !bins.begin && !bins.documents);
    }
}

static const uint32_t fewer_by_first_fit[] = {15, 14, 9, 7, 6, 3, 2, 2, 2}; /* in rows of 20 */
enum { FEWER = sizeof fewer_by_first_fit / sizeof *fewer_by_first_fit };

TEST(rows_are_as_few_as_those_of_best_fit_or_of_first_fit)
{
    struct leat_bins bins;
    struct leat_error error = {0};
    for (uint64_t t = 0; t < 2000; t++) {
        uint32_t lengths[MOST];
        const uint32_t length = (uint32_t)draw(t, 9000, 2, 60), n = draw_lengths(t, 40, length, lengths);
        const uint64_t best = rows_of(lengths, n, length, true), first = rows_of(lengths, n, length, false);
        assert_ok(leat_bins_new(lengths, n, length, 1, &bins, &error));
        assert_int_equal(bins.n, best < first ? best : first);
        leat_bins_clear(&bins);
    }
    assert_int_equal(rows_of(fewer_by_first_fit, FEWER, 20, true), 4);
    assert_ok(leat_bins_new(fewer_by_first_fit, FEWER, 20, 1, &bins, &error));
    assert_int_equal(bins.n, 3);
    assert_packed(fewer_by_first_fit, FEWER, 20, &bins);
    leat_bins_clear(&bins);
}

TEST(the_seed_decides_between_documents_of_one_length_and_nothing_else_does)
{
    uint32_t lengths[MOST];
    struct leat_bins a, b, other;
    struct leat_error error = {0};
    for (uint32_t i = 0; i < MOST; i++)
        lengths[i] = 1 + i % 7;
    assert_ok(leat_bins_new(lengths, MOST, 16, 5, &a, &error));
    assert_ok(leat_bins_new(lengths, MOST, 16, 5, &b, &error));
    assert_ok(leat_bins_new(lengths, MOST, 16, 6, &other, &error));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.begin, b.begin, (a.n + 1) * sizeof *a.begin);
    assert_memory_equal(a.documents, b.documents, MOST * sizeof *a.documents);
    assert_memory_equal(a.begin, other.begin, (a.n + 1) * sizeof *a.begin);
    assert_memory_not_equal(a.documents, other.documents, MOST * sizeof *a.documents);
    for (uint32_t k = 0; k < MOST; k++)
        assert_int_equal(lengths[a.documents[k]], lengths[other.documents[k]]);
    leat_bins_clear(&a);
    leat_bins_clear(&b);
    leat_bins_clear(&other);
}

TEST(the_public_function_gives_the_same_rows)
{
    uint32_t lengths[MOST], begin[MOST + 2], documents[MOST];
    const uint32_t n = draw_lengths(77, MOST, 30, lengths);
    struct leat_bins bins;
    struct leat_error error = {0};
    uint64_t rows;
    assert_ok(leat_bins_new(lengths, n, 30, 2, &bins, &error));
    assert_ok(leat_pack_best_fit(lengths, n, 30, 2, &rows, begin, documents, &error));
    assert_int_equal(rows, bins.n);
    assert_memory_equal(begin, bins.begin, (rows + 1) * sizeof *begin);
    assert_memory_equal(documents, bins.documents, begin[rows] * sizeof *documents);
    leat_bins_clear(&bins);
}

TEST(lengths_of_rows_and_numbers_of_documents_have_limits)
{
    static const uint32_t lengths[] = {LEAT_BINS_MAX_LENGTH - 1, 1, 3, 0};
    struct leat_bins bins;
    struct leat_error error = {0};
    assert_int_equal(leat_bins_new(lengths, 4, 0, 0, &bins, &error), LEAT_E_INVALID);
    assert_int_equal(leat_bins_new(lengths, 4, LEAT_BINS_MAX_LENGTH + 1, 0, &bins, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "not 16777217"));
    assert_int_equal(leat_bins_new(NULL, UINT32_MAX, 8, 0, &bins, &error), LEAT_E_RANGE);
    assert_true(!bins.n && !bins.begin && !bins.documents);
    assert_ok(leat_bins_new(lengths, 4, LEAT_BINS_MAX_LENGTH, 0, &bins, &error));
    assert_int_equal(bins.n, 2);
    assert_int_equal(bins.begin[1], 2);
    assert_int_equal(bins.documents[0], 0);
    leat_bins_clear(&bins);
    assert_ok(leat_bins_new(NULL, 0, 8, 0, &bins, &error));
    assert_int_equal(bins.n, 0);
    assert_int_equal(bins.begin[0], 0);
    leat_bins_clear(&bins);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Best fit in plain steps, by docs/order.md, "Batches by cost": the number of batches, and the one of each sample. With
 * `first` the first batch with room is taken. */
static uint64_t batches_of(const uint64_t *costs, uint64_t n, uint64_t budget, uint64_t most, bool first, uint64_t *of)
{
    uint64_t room[MOST], came[MOST], size[MOST], sorted[MOST], batches = 0, alone = 0;
    for (uint64_t i = 0; i < n; i++) { /* the dearest first, those above the budget in the order that they have */
        uint64_t k = i;
        const uint64_t cost = costs[i] > budget ? budget + 1 : costs[i];
        for (; k && cost > (costs[sorted[k - 1]] > budget ? budget + 1 : costs[sorted[k - 1]]); k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = i;
        alone += cost > budget;
    }
    uint64_t dealt = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t cost = costs[sorted[i]];
        uint64_t at = batches;
        if (!cost) { /* in turn, over those that may have more */
            for (uint64_t tried = 0; at == batches && tried < batches - alone; tried++, dealt++)
                if (size[alone + dealt % (batches - alone)] < most)
                    at = alone + dealt % (batches - alone);
        } else {
            for (uint64_t k = alone; cost <= budget && k < batches; k++)
                if (room[k] >= cost && size[k] < most &&
                    (at == batches || (!first && (room[k] < room[at] || (room[k] == room[at] && came[k] > came[at])))))
                    at = k;
        }
        if (at == batches) {
            room[batches] = cost > budget ? cost : budget;
            size[batches++] = 0;
        }
        room[at] -= cost;
        came[at] = i;
        size[at]++;
        of[sorted[i]] = at;
    }
    return batches;
}

/* Costs of a test: many alike, or few; large or small; with some of 0, and some above the budget. */
static uint64_t draw_costs(uint64_t key, uint64_t budget, uint64_t *costs)
{
    const uint64_t n = draw(key, 0, 0, key % 4 ? 60 : MOST),
                   grain = draw(key, 1, 0, 2) ? budget / draw(key, 2, 2, 9) : 1;
    for (uint64_t i = 0; i < n; i++) {
        costs[i] = draw(key, 10 + i, 0, key % 3 ? budget : budget / 3);
        costs[i] -= grain > 1 && draw(key, 1000 + i, 0, 1) ? costs[i] % grain : 0;
        if (key % 5 == 0 && !draw(key, 2000 + i, 0, 3))
            costs[i] = draw(key, 3000 + i, 0, 1) ? 0 : budget + draw(key, 4000 + i, 1, 1000);
    }
    return n;
}

TEST(samples_are_put_together_by_their_costs_as_best_fit_does_in_plain_steps)
{
    static const uint64_t budgets[] = {7, 100, 3000, 1000000000, LEAT_BINS_MAX_COST};
    for (uint64_t t = 0; t < 600; t++) {
        uint64_t costs[MOST], of[MOST], other[MOST], seen[MOST] = {0};
        const uint64_t budget = budgets[t % 5], n = draw_costs(t, budget, costs);
        const uint64_t most = t % 2 ? draw(t, 5000, 1, 6) : 0;
        struct leat_bins bins;
        struct leat_error error = {0};
        assert_ok(leat_bins_of_costs(costs, n, budget, most, NULL, &bins, &error));
        const uint64_t best = batches_of(costs, n, budget, most ? most : UINT64_MAX, false, of),
                       first = batches_of(costs, n, budget, most ? most : UINT64_MAX, true, other);
        assert_int_equal(bins.n, best < first ? best : first);
        assert_int_equal(bins.begin[bins.n], n);
        for (uint64_t k = 0; k < bins.n; k++) {
            uint64_t sum = 0;
            assert_true(bins.begin[k] < bins.begin[k + 1]);
            for (uint32_t i = bins.begin[k]; i < bins.begin[k + 1]; i++) {
                const uint32_t sample = bins.documents[i];
                seen[sample]++;
                sum += costs[sample];
                assert_int_equal((best <= first ? of : other)[sample], k);
            }
            assert_true(!most || bins.begin[k + 1] - bins.begin[k] <= most);
            assert_true(sum <= budget || bins.begin[k + 1] - bins.begin[k] == 1);
        }
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
        leat_bins_clear(&bins);
    }
}

TEST(costs_are_packed_as_documents_of_these_lengths_are)
{
    for (uint64_t t = 0; t < 100; t++) {
        uint32_t lengths[MOST];
        uint64_t costs[MOST];
        const uint32_t n = 1 + (uint32_t)draw(t, 0, 0, MOST - 1), length = (uint32_t)draw(t, 1, 2, 3000);
        for (uint32_t i = 0; i < n; i++)
            costs[i] = lengths[i] = (uint32_t)draw(t, 2 + i, 1, length - 1);
        struct leat_bins a, b;
        struct leat_error error = {0};
        assert_ok(leat_bins_new(lengths, n, length, t, &a, &error));
        assert_ok(leat_bins_of_costs(costs, n, length, 0, &t, &b, &error));
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.begin, b.begin, (a.n + 1) * sizeof *a.begin);
        assert_memory_equal(a.documents, b.documents, n * sizeof *a.documents);
        leat_bins_clear(&a);
        leat_bins_clear(&b);
    }
}

TEST(costs_that_differ_in_their_lowest_bits_alone_do_not_slow_it_down)
{
    enum { MANY = 200000 };
    uint64_t *costs = leat_new_array(MANY, sizeof *costs);
    struct leat_bins bins;
    struct leat_error error = {0};
    assert_non_null(costs);
    for (uint64_t i = 0; i < MANY; i++) /* pairs of these fill a batch, and all have one place in the table */
        costs[i] = LEAT_BINS_MAX_COST / 2 + (i % 2 ? i / 2 : (uint64_t) - (int64_t)(i / 2));
    assert_ok(leat_bins_of_costs(costs, MANY, LEAT_BINS_MAX_COST, 0, NULL, &bins, &error));
    assert_int_equal(bins.n, MANY / 2);
    leat_bins_clear(&bins);
    leat_free(costs);
}

TEST(every_allocation_may_fail_once)
{
    struct leat_error error = {0};
    int64_t n = 0;
    for (bool done = false; !done; n++) {
        struct leat_bins bins;
        fail_allocation(n);
        const int rc = leat_bins_new(fewer_by_first_fit, FEWER, 20, 0, &bins, &error);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        assert_true((bins.n > 0) == done);
        leat_bins_clear(&bins);
    }
    assert_true(n > 8);
    n = 0;
    for (bool done = false; !done; n++) {
        static const uint64_t costs[] = {15, 14, 9, 7, 6, 3, 2, 2, 2, 0, 0, 99}; /* first fit saves one of budget 20 */
        struct leat_bins bins;
        fail_allocation(n);
        const int rc = leat_bins_of_costs(costs, 12, 20, 5, NULL, &bins, &error);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
        assert_true((bins.n > 0) == done);
        leat_bins_clear(&bins);
    }
}

TEST_MAIN()
