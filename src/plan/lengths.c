/*
 * Running sums of the tokens of a source's rows, in the order of a pass: the base of a mixture by tokens if rows vary
 * in length.
 *
 *     pass     | 5 | 0 | 12 | 7 | ... | 3 | 9 | ...           tokens of its rows
 *     sums     0                      ^ of the 16 before      kept for each 16th row, of the two passes used last
 *              |--- made ---| front         back |-- made --|
 *
 * The row at which a sum is reached is found by searching these, and 16 lengths. So 5 bytes are kept for each row, and
 * nothing is read. The sums of a pass are made on demand, from its begin or, as the sum of all is known, from its end:
 * half of them at most, for any place.
 */
#include "plan/lengths.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/search.h"

#define STEP 16                          /* rows between two sums */
#define MOST_TOKENS (UINT64_C(1) << 28)  /* of a row: tags then fit 64 bits, */
#define MOST_OF_PASS (UINT64_C(1) << 56) /* ... of a pass */

struct leat_lengths {
    uint64_t n, total, longest, hash, each; /* each: of every row, if `of` is NULL */
    uint32_t *of;
    struct sums {
        bool set;
        uint64_t pass, front, back, *of; /* known: those before `front` and from `back` on */
    } pass[2];
    unsigned newest;
    struct leat_order_cursor cursor, sums_cursor;
    struct {
        bool set;
        uint64_t pass, index;
        uint32_t of[STEP];
    } block; /* that was used last */
};

int leat_lengths_new(const struct leat_plan_source *from, uint32_t k, uint64_t rows, struct leat_lengths **out,
                     struct leat_error *error)
{
    *out = NULL;
    const enum leat_order order = from->order.order;
    if (from->row_tokens && order != LEAT_ORDER_SEQUENTIAL && order != LEAT_ORDER_SHUFFLED &&
        order != LEAT_ORDER_BLOCKS)
        return leat_fail(error, LEAT_E_INVALID,
                         "source %u: where rows vary in tokens, they are read in order, shuffled or in blocks", k);
    struct leat_lengths *l = leat_new(struct leat_lengths);
    if (!l)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the lengths of a source");
    const bool two = order != LEAT_ORDER_SEQUENTIAL;
    *l = (struct leat_lengths){.n = rows, .each = from->tokens, .longest = from->tokens};
    if (from->row_tokens) {
        l->of = leat_new_array(rows + 1, sizeof *l->of);
        for (int i = 0; i < 1 + two; i++)
            l->pass[i].of = leat_new_array(rows / STEP + 2, sizeof *l->pass[i].of);
        if (!l->of || !l->pass[0].of || (two && !l->pass[1].of)) {
            leat_lengths_free(l);
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the lengths of %llu rows", (unsigned long long)rows);
        }
    }
    uint64_t long_one = 0;
    for (uint64_t i = 0; l->of && i < rows; i++) {
        const uint64_t tokens = from->row_tokens[i];
        long_one = tokens > MOST_TOKENS && !long_one ? i : long_one;
        l->longest = tokens > l->longest ? tokens : l->longest;
        l->total = tokens > MOST_TOKENS ? l->total : l->total + tokens;
        l->of[i] = (uint32_t)(tokens > MOST_TOKENS ? 0 : tokens);
    }
    if (!l->of && __builtin_mul_overflow(rows, l->each, &l->total))
        l->total = UINT64_MAX;
    const uint64_t longest = l->longest;
    if (longest > MOST_TOKENS || l->total > MOST_OF_PASS) {
        const bool pass = longest <= MOST_TOKENS;
        leat_lengths_free(l);
        return pass ? leat_fail(error, LEAT_E_RANGE, "source %u has more than 2^56 tokens", k)
                    : leat_fail(error, LEAT_E_RANGE, "row %llu of source %u has %llu tokens: at most 2^28",
                                (unsigned long long)long_one, k, (unsigned long long)longest);
    }
    l->hash = l->of ? leat_hash64(l->of, rows * sizeof *l->of) : l->each;
    *out = l;
    return LEAT_OK;
}

void leat_lengths_free(struct leat_lengths *l)
{
    if (!l)
        return;
    leat_free(l->of);
    leat_free(l->pass[0].of);
    leat_free(l->pass[1].of);
    leat_free(l);
}

uint64_t leat_lengths_total(const struct leat_lengths *l)
{
    return l->total;
}

uint64_t leat_lengths_longest(const struct leat_lengths *l)
{
    return l->longest;
}

uint64_t leat_lengths_hash(const struct leat_lengths *l)
{
    return l->hash;
}

/* In the order of the data set all passes are the same. */
static uint64_t distinct(const struct leat_source_order *o, uint64_t pass)
{
    return o->order == LEAT_ORDER_SEQUENTIAL ? 0 : pass;
}

static uint64_t blocks_of(const struct leat_lengths *l)
{
    return l->n / STEP + (l->n % STEP > 0);
}

/* The sums of a pass; at least the first and the last are known. */
static struct sums *sums_of(const struct leat_source_order *o, uint64_t pass)
{
    struct leat_lengths *l = o->lengths;
    for (unsigned i = 0; i < 2; i++)
        if (l->pass[i].set && l->pass[i].pass == pass) {
            l->newest = i;
            return &l->pass[i];
        }
    l->newest = l->pass[1].of ? 1 - l->newest : 0;
    struct sums *s = &l->pass[l->newest];
    *s = (struct sums){.set = true, .pass = pass, .front = 1, .back = blocks_of(l), .of = s->of};
    s->of[0] = 0;
    s->of[s->back] = l->total;
    return s;
}

/* Tokens of each of the blocks from `first` on, of rows that are computed together: their number. */
static uint64_t sum_blocks(const struct leat_source_order *o, uint64_t pass, uint64_t first, uint64_t n,
                           uint64_t tokens[LEAT_ORDER_RUN / STEP])
{
    struct leat_lengths *l = o->lengths;
    const uint64_t begin = first * STEP, most = n < LEAT_ORDER_RUN / STEP ? n * STEP : LEAT_ORDER_RUN;
    const size_t rows = l->n - begin < most ? (size_t)(l->n - begin) : (size_t)most;
    uint64_t at[LEAT_ORDER_RUN], blocks = 0;
    leat_order_run(o, NULL, &l->sums_cursor, pass, begin, rows, at);
    for (size_t i = 0; i < rows; i += STEP) {
        uint64_t sum = 0;
        for (size_t j = i; j < rows && j < i + STEP; j++)
            sum += l->of[at[j]];
        tokens[blocks++] = sum;
    }
    return blocks;
}

static void extend_front(const struct leat_source_order *o, struct sums *s)
{
    uint64_t tokens[LEAT_ORDER_RUN / STEP], n = sum_blocks(o, s->pass, s->front - 1, s->back - s->front, tokens);
    for (uint64_t i = 0; i < n; i++, s->front++)
        s->of[s->front] = s->of[s->front - 1] + tokens[i];
}

static void extend_back(const struct leat_source_order *o, struct sums *s)
{
    const uint64_t left = s->back - s->front,
                   first = left < LEAT_ORDER_RUN / STEP ? s->front : s->back - LEAT_ORDER_RUN / STEP;
    uint64_t tokens[LEAT_ORDER_RUN / STEP], n = sum_blocks(o, s->pass, first, s->back - first, tokens);
    for (; n--; s->back--)
        s->of[s->back - 1] = s->of[s->back] - tokens[n];
}

/* Tokens before a block. */
static uint64_t sum_at(const struct leat_source_order *o, struct sums *s, uint64_t block)
{
    while (block >= s->front && block < s->back)
        if (block - s->front < s->back - block)
            extend_front(o, s);
        else
            extend_back(o, s);
    return s->of[block];
}

/* Lengths of the rows [16 index, ...) of a pass. */
static const uint32_t *block_of(const struct leat_source_order *o, uint64_t pass, uint64_t index)
{
    struct leat_lengths *l = o->lengths;
    if (l->block.set && l->block.pass == pass && l->block.index == index)
        return l->block.of;
    const uint64_t first = index * STEP;
    const size_t n = l->n - first < STEP ? (size_t)(l->n - first) : STEP;
    uint64_t at[STEP];
    leat_order_run(o, NULL, &l->cursor, pass, first, n, at);
    for (size_t i = 0; i < n; i++)
        l->block.of[i] = l->of[at[i]];
    l->block.pass = pass;
    l->block.index = index;
    l->block.set = true;
    return l->block.of;
}

uint64_t leat_lengths_at(const struct leat_source_order *o, uint64_t pass, uint64_t row)
{
    return o->lengths->of ? block_of(o, distinct(o, pass), row / STEP)[row % STEP] : o->lengths->each;
}

uint64_t leat_lengths_before(const struct leat_source_order *o, uint64_t pass, uint64_t row)
{
    const struct leat_lengths *l = o->lengths;
    if (!l->of)
        return row * l->each;
    if (!row || row == l->n)
        return row ? l->total : 0;
    pass = distinct(o, pass);
    uint64_t sum = sum_at(o, sums_of(o, pass), row / STEP);
    const uint32_t *lengths = row % STEP ? block_of(o, pass, row / STEP) : NULL;
    for (uint64_t i = 0; i < row % STEP; i++)
        sum += lengths[i];
    return sum;
}

uint64_t leat_lengths_count(const struct leat_source_order *o, uint64_t pass, uint64_t twice)
{
    const struct leat_lengths *l = o->lengths;
    if (twice >= 2 * l->total)
        return l->n;
    if (!l->of) /* 2 x + 1 lengths, at the middle of row x */
        return (twice / l->each + 1) / 2;
    pass = distinct(o, pass);
    struct sums *s = sums_of(o, pass);
    const uint64_t *sums = s->of;
    while (s->front < s->back && 2 * sums[s->front - 1] <= twice && twice < 2 * sums[s->back])
        if (twice - 2 * sums[s->front - 1] < 2 * sums[s->back] - twice)
            extend_front(o, s);
        else
            extend_back(o, s);
    const bool in_front = twice < 2 * sums[s->front - 1], in_back = twice >= 2 * sums[s->back];
    const uint64_t from = in_front  ? 0
                          : in_back ? s->back
                                    : s->front - 1,
                   to = in_front  ? s->front - 1
                        : in_back ? blocks_of(l)
                                  : s->back; /* 2 sums[from] <= twice < 2 sums[to] */
    const uint64_t low = LEAT_BISECT(i, from + 1, to, 2 * sums[i] <= twice) - 1;
    const uint32_t *lengths = block_of(o, pass, low);
    uint64_t row = low * STEP, both = 2 * sums[low];
    for (size_t i = 0; row < l->n && i < STEP; row++, i++) {
        if (both + lengths[i] > twice)
            break;
        both += 2 * (uint64_t)lengths[i];
    }
    return row;
}
