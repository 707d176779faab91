/* Rows that cut no document, against a packing that looks at all rows for each document. */
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
}

TEST_MAIN()
