/*
 * Documents into rows of one length, none of them cut: best-fit decreasing, as "Fewer Truncations Improve Language
 * Modeling" (Ding et al., ICML 2024) packs.
 *
 * The longest documents come first. Each goes into the row that it leaves the least room in, or into a new one. A
 * document longer than a row is cut into pieces of a row's length before; only the rest of it is packed. So a document
 * is at most one item, a list of rows is a list of documents, and it takes 4 bytes a document and a row.
 *
 *     waiting[r]     the row with room r that came to it last -> the one before -> ...
 *     a bitmap       of the r with rows, and bitmaps of its words: the smallest r >= length is found in a few steps
 *
 * So an item costs a search in the bitmaps, whatever the number of rows. Best fit needs more rows than first fit for
 * few lists of lengths. If it needs more than a bound that no packing can go below, first fit is tried as well, with a
 * tree of the largest room in each half, and the better of the two is taken.
 */
#include "plan/best_fit.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/permute.h"
#include "base/random.h"
#include "plan/spec.h"

#define NONE UINT32_MAX
#define LEVELS 5 /* of bitmaps: 64^5 is above 2^24 + 1 */

/* ---- which rooms there are --------------------------------------------------------------------------------------- */

struct bitmap {
    uint64_t *level[LEVELS]; /* bit i of a level: word i of the one below is not 0 */
    uint64_t *words;
};

static bool bitmap_init(struct bitmap *b, uint64_t bits)
{
    uint64_t sizes[LEVELS], sum = 0;
    for (int k = 0; k < LEVELS; k++)
        sum += sizes[k] = bits = bits / 64 + 1;
    b->words = leat_new_array(sum, sizeof *b->words);
    if (!b->words)
        return false;
    b->level[0] = b->words;
    for (int k = 1; k < LEVELS; k++)
        b->level[k] = b->level[k - 1] + sizes[k - 1];
    return true;
}

static void bitmap_set(struct bitmap *b, uint64_t i)
{
    for (int k = 0; k < LEVELS; k++, i /= 64)
        b->level[k][i / 64] |= UINT64_C(1) << i % 64;
}

static void bitmap_clear(struct bitmap *b, uint64_t i)
{
    for (int k = 0; k < LEVELS; k++, i /= 64)
        if (b->level[k][i / 64] &= ~(UINT64_C(1) << i % 64))
            return;
}

/* The first bit that is set from `i` on; UINT64_MAX: none. */
static uint64_t bitmap_next(const struct bitmap *b, uint64_t i)
{
    for (int k = 0; k < LEVELS; k++) {
        uint64_t word = b->level[k][i / 64] & (UINT64_MAX << i % 64);
        if (word) {
            i = i / 64 * 64 + (uint64_t)__builtin_ctzll(word);
            while (k--)
                i = i * 64 + (uint64_t)__builtin_ctzll(b->level[k][i]);
            return i;
        }
        i = i / 64 + 1; /* each level has a word more than it needs */
    }
    return UINT64_MAX;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

struct items {
    const uint32_t *lengths; /* of the documents */
    uint32_t length;         /* of a row */
    uint64_t n;
    uint32_t *counts; /* items of each length, 0 to length - 1 */
    uint32_t *sorted; /* documents that have an item, the longest first, those of a length as the seed says */
    uint32_t *row;    /* of each, in the order of `sorted` */
    uint64_t n_rows;
};

static uint32_t item_of(const struct items *s, uint64_t document)
{
    return s->lengths[document] % s->length;
}

static void sort_items(struct items *s, uint64_t documents, uint64_t key, uint32_t *begin)
{
    enum { MANY = 64 };
    const struct leat_permutation order = leat_permutation_init(documents, key);
    uint64_t at[MANY];
    uint32_t sum = 0;
    for (uint64_t i = 0; i < documents; i++)
        s->counts[item_of(s, i)]++;
    s->counts[0] = 0; /* nothing is left of them */
    for (uint32_t k = s->length; k-- > 1; sum += s->counts[k])
        begin[k] = sum;
    s->n = sum;
    for (uint64_t first = 0; first < documents; first += MANY) {
        size_t n = documents - first < MANY ? (size_t)(documents - first) : MANY;
        for (size_t i = 0; i < n; i++)
            at[i] = first + i;
        leat_permute_many(&order, at, n);
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(&s->lengths[at[i]]);
        for (size_t i = 0; i < n; i++)
            if (item_of(s, at[i]))
                s->sorted[begin[item_of(s, at[i])]++] = (uint32_t)at[i];
    }
}

/* A number of rows that no packing goes below (Martello and Toth 1990, their bound L2). For any a, an item above
 * length - a has a row for itself as far as items of at least a go, and no two of the upper half share one. Items of
 * [a, length / 2] that exceed the room beside the others of the upper half need further rows. */
static uint64_t least_rows(const struct items *s)
{
    uint64_t best = 0, alone = 0, upper = 0, upper_sum = 0, small_sum = 0;
    const uint32_t half = s->length / 2;
    for (uint32_t k = half + 1; k < s->length; k++) {
        upper += s->counts[k];
        upper_sum += (uint64_t)s->counts[k] * k;
    }
    for (uint32_t k = 1; k <= half; k++)
        small_sum += (uint64_t)s->counts[k] * k;
    for (uint32_t a = 1; a <= half + 1; a++) { /* items above length - a are `alone`, those of [a, half] small */
        uint64_t room = upper * s->length - upper_sum;
        uint64_t more = small_sum > room ? (small_sum - room + s->length - 1) / s->length : 0;
        best = alone + upper + more > best ? alone + upper + more : best;
        if (a > half)
            break;
        small_sum -= (uint64_t)s->counts[a] * a;
        const uint32_t moved = s->length - a; /* above length - (a + 1) */
        if (moved > half) {
            alone += s->counts[moved];
            upper -= s->counts[moved];
            upper_sum -= (uint64_t)s->counts[moved] * moved;
        }
    }
    return best;
}

/* ---- the two packings -------------------------------------------------------------------------------------------- */

/* Gives each item its row, and returns how many rows there are. `waiting` has length + 1 entries, all NONE. */
static uint64_t best_fit(const struct items *s, struct bitmap *has, uint32_t *waiting, uint32_t *before)
{
    uint64_t n_rows = 0;
    for (uint64_t i = 0, length = s->length; i < s->n; i++) {
        const uint32_t need = item_of(s, s->sorted[i]);
        __builtin_prefetch(&s->lengths[s->sorted[i + 16 < s->n ? i + 16 : i]]);
        uint64_t room = bitmap_next(has, need);
        uint32_t row;
        if (room > length) {
            row = (uint32_t)n_rows++;
            room = length;
        } else {
            row = waiting[room];
            waiting[room] = before[row];
            if (waiting[room] == NONE)
                bitmap_clear(has, room);
        }
        s->row[i] = row;
        room -= need;
        if (room) {
            if (waiting[room] == NONE)
                bitmap_set(has, room);
            before[row] = waiting[room];
            waiting[room] = row;
        }
    }
    return n_rows;
}

/* As best_fit, but into the first row with room. Gives up and returns `most` when it needs as many. tree[1] is the
 * largest room of all rows; leaves from `leaves` on; all rows have the room `length` at first. */
static uint64_t first_fit(const struct items *s, uint64_t most, uint32_t *tree, uint64_t leaves, uint32_t *to)
{
    uint64_t n_rows = 0;
    for (uint64_t i = 0; i < s->n; i++) {
        const uint32_t need = item_of(s, s->sorted[i]);
        uint64_t at = 1;
        while (at < leaves)
            at = 2 * at + (tree[2 * at] < need);
        to[i] = (uint32_t)(at - leaves);
        if (to[i] >= n_rows && (n_rows = to[i] + UINT64_C(1)) >= most)
            return most;
        tree[at] -= need;
        for (at /= 2; at; at /= 2) {
            const uint32_t largest = tree[2 * at] > tree[2 * at + 1] ? tree[2 * at] : tree[2 * at + 1];
            if (tree[at] == largest)
                break;
            tree[at] = largest;
        }
    }
    return n_rows;
}

static int try_first_fit(struct items *s)
{
    uint64_t leaves = 1;
    while (leaves < s->n_rows) /* it gives up before it needs more */
        leaves *= 2;
    uint32_t *tree = leat_new_array(2 * leaves, sizeof *tree), *to = leat_new_array(s->n, sizeof *to);
    int rc = tree && to ? LEAT_OK : LEAT_E_NOMEM;
    for (uint64_t i = 0; !rc && i < 2 * leaves; i++)
        tree[i] = s->length;
    const uint64_t n_rows = rc ? s->n_rows : first_fit(s, s->n_rows, tree, leaves, to);
    if (n_rows < s->n_rows) {
        memcpy(s->row, to, s->n * sizeof *to);
        s->n_rows = n_rows;
    }
    leat_free(tree);
    leat_free(to);
    return rc;
}

static int pack(struct items *s, uint64_t documents, uint64_t key)
{
    uint32_t *waiting = leat_new_array(s->length + UINT64_C(1), sizeof *waiting);
    uint32_t *before = NULL;
    struct bitmap has = {0};
    int rc = LEAT_E_NOMEM;
    if (!waiting || !bitmap_init(&has, s->length + UINT64_C(1)))
        goto out;
    sort_items(s, documents, key, waiting);
    before = leat_new_array(s->n ? s->n : 1, sizeof *before);
    s->row = leat_new_array(s->n ? s->n : 1, sizeof *s->row);
    if (!before || !s->row)
        goto out;
    memset(waiting, 0xff, (s->length + UINT64_C(1)) * sizeof *waiting);
    s->n_rows = best_fit(s, &has, waiting, before);
    leat_free(before);
    before = NULL;
    rc = s->n_rows > least_rows(s) ? try_first_fit(s) : LEAT_OK;
out:
    leat_free(has.words);
    leat_free(waiting);
    leat_free(before);
    return rc;
}

int leat_bins_new(const uint32_t *lengths, uint64_t documents, uint64_t length, uint64_t seed, struct leat_bins *out,
                  struct leat_error *error)
{
    *out = (struct leat_bins){0};
    if (!length || length > LEAT_BINS_MAX_LENGTH)
        return leat_fail(error, LEAT_E_INVALID, "best fit packs rows of 1 to 2^24 elements, not %llu",
                         (unsigned long long)length);
    if (documents >= NONE)
        return leat_fail(error, LEAT_E_RANGE, "best fit packs fewer than 2^32 - 1 documents, not %llu: pack parts",
                         (unsigned long long)documents);
    struct items s = {.lengths = lengths, .length = (uint32_t)length};
    s.counts = leat_new_array(length, sizeof *s.counts);
    s.sorted = leat_new_array(documents ? documents : 1, sizeof *s.sorted);
    int rc = LEAT_E_NOMEM;
    if (s.counts && s.sorted)
        rc = documents ? pack(&s, documents, leat_key_mix(seed, LEAT_TAG_BINS)) : LEAT_OK;
    out->n = s.n_rows;
    out->begin = leat_new_array(s.n_rows + 2, sizeof *out->begin);
    out->documents = leat_new_array(s.n ? s.n : 1, sizeof *out->documents);
    if (rc || !out->begin || !out->documents) {
        leat_bins_clear(out);
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to pack %llu documents", (unsigned long long)documents);
        goto out;
    }
    for (uint64_t i = 0; i < s.n; i++)
        out->begin[s.row[i] + 2]++;
    for (uint64_t k = 2; k <= s.n_rows; k++)
        out->begin[k] += out->begin[k - 1];
    for (uint64_t i = 0; i < s.n; i++) /* begin[k + 1] goes from the start of row k to its end */
        out->documents[out->begin[s.row[i] + 1]++] = s.sorted[i];
out:
    leat_free(s.counts);
    leat_free(s.sorted);
    leat_free(s.row);
    return rc;
}

void leat_bins_clear(struct leat_bins *bins)
{
    leat_free(bins->begin);
    leat_free(bins->documents);
    *bins = (struct leat_bins){0};
}

int leat_pack_best_fit(const uint32_t *lengths, uint64_t n, uint64_t length, uint64_t seed, uint64_t *rows,
                       uint32_t *begin, uint32_t *documents, struct leat_error *error)
{
    struct leat_bins bins;
    *rows = 0;
    int rc = leat_bins_new(lengths, n, length, seed, &bins, error);
    if (rc)
        return rc;
    *rows = bins.n;
    memcpy(begin, bins.begin, (bins.n + 1) * sizeof *begin);
    memcpy(documents, bins.documents, (size_t)bins.begin[bins.n] * sizeof *documents);
    leat_bins_clear(&bins);
    return LEAT_OK;
}
