/*
 * Items into rows of one length, none of them cut: best-fit decreasing, as "Fewer Truncations Improve Language
 * Modeling" (Ding et al., ICML 2024) packs.
 *
 * The largest items come first. Each goes into the row that it leaves the least room in, or into a new one. Items are
 * documents, or samples with a cost. A document longer than a row is cut into pieces of a row's length before; only the
 * rest of it is packed. So a document is at most one item, and a list of rows is a list of documents. A sample that
 * costs more than a row holds has one for itself.
 *
 * Rows are sorted by what fits into them: a row is in the class of the largest item, of all that there are, that it has
 * room for. So an item of class k goes into a row of the first class from k on that has any, the one with the least
 * room there:
 *
 *     sizes          ascending, each once               3     7     8     20
 *     classes        rooms from one size to the next    3..6  7     8..19 20..
 *     rows[k]        a pairing heap of the rows of class k, the least room on top
 *     a bitmap       of the classes with rows, and bitmaps of its words: the first class from k on takes a few steps
 *
 * So an item costs a search in the bitmaps and some steps in a heap, whatever the length and the number of rows. Best
 * fit needs more rows than first fit for few lists of sizes. If it needs more than a bound that no packing can go
 * below, first fit is tried as well, with a tree of the largest room in each half, and the better of the two is taken.
 */
#include "plan/best_fit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/permute.h"
#include "base/random.h"
#include "base/search.h"
#include "plan/spec.h"

#define NONE UINT32_MAX
#define LEVELS 6 /* of bitmaps: 64^6 is above 2^32 + 1 */

/* ---- which classes have rows --------------------------------------------------------------------------------------
 */

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
    const uint32_t *lengths; /* of documents; or NULL, and */
    const uint64_t *costs;   /* ... of samples */
    uint64_t documents;
    uint64_t length; /* of a row */
    uint64_t most;   /* items of a row */
    bool permuted;
    struct leat_permutation order; /* if permuted: of the documents, which decides between items of one size */

    uint64_t *sizes; /* of the items, ascending, each once, and */
    uint64_t n_sizes;
    uint32_t *counts; /* ... how many there are; */
    uint32_t *table;  /* ... those with i in the bits from `shift` on are [table[i], table[i + 1]) */
    unsigned shift;

    /* Documents with an item: those larger than a row, then items with the largest first, then those of size 0. Each
     * has its row. */
    uint32_t *sorted, *row;
    uint64_t larger, n, empty, n_rows;
};

static uint64_t item_of(const struct items *s, uint64_t document)
{
    return s->lengths ? s->lengths[document] % s->length : s->costs[document];
}

/* The class of an item or a room: the last size that is not above it; UINT64_MAX: none. */
static uint64_t class_of(const struct items *s, uint64_t room)
{
    const uint64_t bits = room >> s->shift;
    return LEAT_BISECT(i, s->table[bits], s->table[bits + 1], s->sizes[i] <= room) - 1;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Finds the sizes, by their upper bits and then by sorting the few that have these in common. */
static int find_sizes(struct items *s)
{
    while (s->length >> s->shift >> 10 && s->length >> s->shift > s->documents)
        s->shift++;
    const uint64_t n_bits = (s->length >> s->shift) + 1;
    s->table = leat_new_array(n_bits + 2, sizeof *s->table);
    if (!s->table)
        return LEAT_E_NOMEM;
    for (uint64_t i = 0; i < s->documents; i++) {
        const uint64_t item = item_of(s, i);
        s->larger += item > s->length;
        s->empty += !item;
        if (item && item <= s->length)
            s->table[(item >> s->shift) + 2]++;
    }
    for (uint64_t b = 2; b <= n_bits; b++)
        s->table[b + 1] += s->table[b];
    s->n = s->table[n_bits + 1];
    s->sizes = leat_new_array(s->n + 1, sizeof *s->sizes);
    s->counts = leat_new_array(s->n + 1, sizeof *s->counts);
    if (!s->sizes || !s->counts)
        return LEAT_E_NOMEM;
    for (uint64_t i = 0; i < s->documents; i++) { /* table[b + 1] goes from the start of b to its end */
        const uint64_t item = item_of(s, i);
        if (item && item <= s->length)
            s->sizes[s->table[(item >> s->shift) + 1]++] = item;
    }
    for (uint64_t b = 0, begin = 0; b < n_bits; b++) {
        const uint64_t end = s->table[b + 1];
        if (s->shift && end > begin + 1)
            qsort(s->sizes + begin, end - begin, sizeof *s->sizes, compare);
        s->table[b] = (uint32_t)s->n_sizes;
        for (uint64_t i = begin; i < end; i++) {
            if (i == begin || s->sizes[i] != s->sizes[s->n_sizes - 1])
                s->sizes[s->n_sizes++] = s->sizes[i];
            s->counts[s->n_sizes - 1]++;
        }
        begin = end;
    }
    s->table[n_bits] = (uint32_t)s->n_sizes;
    return LEAT_OK;
}

/* `begin` has room for a number of each size. */
static void sort_items(struct items *s, uint32_t *begin)
{
    enum { MANY = 64 };
    uint64_t at[MANY];
    uint32_t larger = 0, empty = (uint32_t)(s->larger + s->n), sum = (uint32_t)s->larger;
    for (uint64_t k = s->n_sizes; k--; sum += s->counts[k])
        begin[k] = sum;
    for (uint64_t first = 0; first < s->documents; first += MANY) {
        const size_t n = s->documents - first < MANY ? (size_t)(s->documents - first) : MANY;
        for (size_t i = 0; i < n; i++)
            at[i] = first + i;
        if (s->permuted)
            leat_permute_many(&s->order, at, n);
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(s->lengths ? (const void *)&s->lengths[at[i]] : &s->costs[at[i]]);
        for (size_t i = 0; i < n; i++) {
            const uint64_t item = item_of(s, at[i]);
            if (item || s->empty)
                s->sorted[item > s->length ? larger++ : !item ? empty++ : begin[class_of(s, item)]++] = (uint32_t)at[i];
        }
    }
}

/* A number of rows that no packing goes below (Martello and Toth 1990, their bound L2). For any a, an item above
 * length - a has a row for itself as far as items of at least a go, and no two of the upper half share one. Items of
 * [a, length / 2] that exceed the room beside the others of the upper half need further rows. */
static uint64_t least_rows(const struct items *s)
{
    const uint64_t half = s->length / 2, halves = LEAT_BISECT(i, 0, s->n_sizes, s->sizes[i] <= half);
    uint64_t alone = 0, upper = 0, best = s->n / s->most + (s->n % s->most > 0);
    unsigned __int128 room = 0, small = 0; /* beside the upper half; of those of [a, half] */
    for (uint64_t k = halves; k < s->n_sizes; k++) {
        upper += s->counts[k];
        room += (unsigned __int128)s->counts[k] * (s->length - s->sizes[k]);
    }
    for (uint64_t k = 0; k < halves; k++)
        small += (unsigned __int128)s->counts[k] * s->sizes[k];
    best = upper > best ? upper : best;
    for (uint64_t k = 0, top = s->n_sizes; k < halves; k++) { /* a is the size of class k */
        for (; top > halves && s->sizes[top - 1] > s->length - s->sizes[k]; top--) {
            alone += s->counts[top - 1];
            upper -= s->counts[top - 1];
            room -= (unsigned __int128)s->counts[top - 1] * (s->length - s->sizes[top - 1]);
        }
        const uint64_t more = small > room ? (uint64_t)((small - room + s->length - 1) / s->length) : 0;
        best = alone + upper + more > best ? alone + upper + more : best;
        small -= (unsigned __int128)s->counts[k] * s->sizes[k];
    }
    return best;
}

/* ---- rows by their room ------------------------------------------------------------------------------------------ */

/* Pairing heaps: of one room, the row that came to it last is on top. */
struct heap {
    uint64_t *room;
    uint32_t *came, *child, *next; /* `next`: of the children of one row */
};

static uint32_t meld(struct heap *h, uint32_t a, uint32_t b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    const bool swap = h->room[b] < h->room[a] || (h->room[b] == h->room[a] && h->came[b] > h->came[a]);
    const uint32_t top = swap ? b : a, below = swap ? a : b;
    h->next[below] = h->child[top];
    h->child[top] = below;
    return top;
}

/* The heap without its top. */
static uint32_t pop(struct heap *h, uint32_t top)
{
    uint32_t pairs = NONE, rest = NONE;
    for (uint32_t a = h->child[top], b, more; a != NONE; a = more) {
        b = h->next[a];
        more = b == NONE ? NONE : h->next[b];
        a = meld(h, a, b);
        h->next[a] = pairs;
        pairs = a;
    }
    for (uint32_t a = pairs, more; a != NONE; a = more) {
        more = h->next[a];
        rest = meld(h, rest, a);
    }
    return rest;
}

/* ---- the two packings -------------------------------------------------------------------------------------------- */

/* Gives each item its row, and returns how many rows there are. `rows` has a heap for each class, all NONE; `full`
 * counts the items of each row, if there is a most. */
static uint64_t best_fit(const struct items *s, struct bitmap *has, uint32_t *rows, struct heap *h, uint32_t *full)
{
    uint64_t n_rows = 0, i = 0;
    for (uint64_t k = s->n_sizes; k--;)
        for (const uint64_t need = s->sizes[k], end = i + s->counts[k]; i < end; i++) {
            uint64_t class = bitmap_next(has, k), room = s->length;
            uint32_t row = (uint32_t)n_rows;
            if (class == UINT64_MAX) {
                n_rows++;
            } else {
                row = rows[class];
                room = h->room[row];
                rows[class] = pop(h, row);
                if (rows[class] == NONE)
                    bitmap_clear(has, class);
            }
            s->row[s->larger + i] = row;
            room -= need;
            class = class_of(s, room);
            if ((full && ++full[row] == s->most) || class == UINT64_MAX)
                continue; /* nothing more goes into it */
            h->room[row] = room;
            h->came[row] = (uint32_t)i;
            h->child[row] = NONE;
            if (rows[class] == NONE)
                bitmap_set(has, class);
            rows[class] = meld(h, rows[class], row);
        }
    return n_rows;
}

/* As best_fit, but into the first row with room. Gives up and returns `most` when it needs as many. tree[1] is the
 * largest room of all rows; leaves from `leaves` on; all rows have the room `length` at first. */
static uint64_t first_fit(const struct items *s, uint64_t most, uint64_t *tree, uint64_t leaves, uint32_t *to,
                          uint32_t *full)
{
    uint64_t n_rows = 0, i = 0;
    for (uint64_t k = s->n_sizes; k--;)
        for (const uint64_t need = s->sizes[k], end = i + s->counts[k]; i < end; i++) {
            uint64_t at = 1;
            while (at < leaves)
                at = 2 * at + (tree[2 * at] < need);
            to[i] = (uint32_t)(at - leaves);
            if (to[i] >= n_rows && (n_rows = to[i] + UINT64_C(1)) >= most)
                return most;
            tree[at] = full && ++full[to[i]] == s->most ? 0 : tree[at] - need;
            for (at /= 2; at; at /= 2) {
                const uint64_t largest = tree[2 * at] > tree[2 * at + 1] ? tree[2 * at] : tree[2 * at + 1];
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
    uint64_t *tree = leat_new_array(2 * leaves, sizeof *tree);
    uint32_t *to = leat_new_array(s->n, sizeof *to), *full = NULL;
    if (s->most != UINT64_MAX)
        full = leat_new_array(leaves, sizeof *full);
    int rc = tree && to && (full || s->most == UINT64_MAX) ? LEAT_OK : LEAT_E_NOMEM;
    for (uint64_t i = 0; !rc && i < 2 * leaves; i++)
        tree[i] = s->length;
    const uint64_t n_rows = rc ? s->n_rows : first_fit(s, s->n_rows, tree, leaves, to, full);
    if (n_rows < s->n_rows) {
        memcpy(s->row + s->larger, to, s->n * sizeof *to);
        s->n_rows = n_rows;
    }
    leat_free(tree);
    leat_free(to);
    leat_free(full);
    return rc;
}

/* Gives the documents of size 0 to the rows in turn, as long as these may have more. */
static int spread_empty(struct items *s)
{
    uint64_t n_open = s->n_rows;
    uint32_t *open = leat_new_array(n_open + 1, sizeof *open), *full = leat_new_array(n_open + s->empty, sizeof *full);
    int rc = open && full ? LEAT_OK : LEAT_E_NOMEM;
    uint32_t *row = s->row + s->larger;
    for (uint64_t i = 0; !rc && i < s->n; i++)
        full[row[i]]++;
    uint64_t kept = 0;
    for (uint64_t k = 0; !rc && k < n_open; k++)
        if (full[k] < s->most)
            open[kept++] = (uint32_t)k;
    for (uint64_t i = s->n, end = s->n + s->empty; !rc && i < end;) {
        n_open = kept;
        kept = 0;
        if (!n_open)
            open[n_open++] = (uint32_t)s->n_rows++;
        for (uint64_t k = 0; k < n_open && i < end; k++) {
            row[i++] = open[k];
            if (++full[open[k]] < s->most)
                open[kept++] = open[k];
        }
    }
    leat_free(open);
    leat_free(full);
    return rc;
}

/* Best fit, and first fit if it may need fewer rows. */
static int fit(struct items *s)
{
    struct bitmap has = {0};
    struct heap h = {leat_new_array(s->n, sizeof *h.room), leat_new_array(s->n, sizeof *h.came),
                     leat_new_array(s->n, sizeof *h.child), leat_new_array(s->n, sizeof *h.next)};
    uint32_t *rows = leat_new_array(s->n_sizes, sizeof *rows), *full = NULL;
    if (s->most != UINT64_MAX)
        full = leat_new_array(s->n, sizeof *full);
    int rc = LEAT_E_NOMEM;
    if (rows && h.room && h.came && h.child && h.next && (full || s->most == UINT64_MAX) &&
        bitmap_init(&has, s->n_sizes)) {
        rc = LEAT_OK;
        memset(rows, 0xff, s->n_sizes * sizeof *rows);
        s->n_rows = best_fit(s, &has, rows, &h, full);
    }
    leat_free(has.words);
    leat_free(rows);
    leat_free(full);
    leat_free(h.room);
    leat_free(h.came);
    leat_free(h.child);
    leat_free(h.next);
    return rc || s->n_rows <= least_rows(s) ? rc : try_first_fit(s);
}

static int pack(struct items *s)
{
    int rc = find_sizes(s);
    if (rc)
        return rc;
    if (s->lengths) /* nothing is left of them */
        s->empty = 0;
    const uint64_t all = s->larger + s->n + s->empty;
    uint32_t *begin = leat_new_array(s->n_sizes + 1, sizeof *begin);
    s->sorted = leat_new_array(all + 1, sizeof *s->sorted);
    s->row = leat_new_array(all + 1, sizeof *s->row);
    if (begin && s->sorted && s->row)
        sort_items(s, begin);
    else
        rc = LEAT_E_NOMEM;
    leat_free(begin);
    rc = rc || !s->n ? rc : fit(s);
    rc = rc || !s->empty ? rc : spread_empty(s);
    for (uint64_t i = 0; !rc && i < all; i++) /* the rows of the larger ones are the first */
        s->row[i] = i < s->larger ? (uint32_t)i : s->row[i] + (uint32_t)s->larger;
    s->n_rows += s->larger;
    return rc;
}

/* ---- bins -------------------------------------------------------------------------------------------------------- */

static int make_bins(struct items *s, const uint64_t *seed, struct leat_bins *out, struct leat_error *error)
{
    *out = (struct leat_bins){0};
    if (s->documents >= NONE)
        return leat_fail(error, LEAT_E_RANGE,
                         "best fit packs fewer than 2^32 - 1 documents, not %" PRIu64 ": pack parts", s->documents);
    s->permuted = seed && s->documents;
    if (s->permuted)
        s->order = leat_permutation_init(s->documents, leat_key_mix(*seed, LEAT_TAG_BINS));
    int rc = pack(s);
    const uint64_t all = s->larger + s->n + s->empty;
    out->n = s->n_rows;
    out->begin = leat_new_array(s->n_rows + 2, sizeof *out->begin);
    out->documents = leat_new_array(all + 1, sizeof *out->documents);
    if (rc || !out->begin || !out->documents) {
        leat_bins_clear(out);
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to pack %" PRIu64 " documents", s->documents);
        goto out;
    }
    for (uint64_t i = 0; i < all; i++)
        out->begin[s->row[i] + 2]++;
    for (uint64_t k = 2; k <= s->n_rows; k++)
        out->begin[k] += out->begin[k - 1];
    for (uint64_t i = 0; i < all; i++) /* begin[k + 1] goes from the start of row k to its end */
        out->documents[out->begin[s->row[i] + 1]++] = s->sorted[i];
out:
    leat_free(s->sizes);
    leat_free(s->counts);
    leat_free(s->table);
    leat_free(s->sorted);
    leat_free(s->row);
    return rc;
}

int leat_bins_new(const uint32_t *lengths, uint64_t documents, uint64_t length, uint64_t seed, struct leat_bins *out,
                  struct leat_error *error)
{
    struct items s = {.lengths = lengths, .documents = documents, .length = length, .most = UINT64_MAX};
    *out = (struct leat_bins){0};
    if (!length || length > LEAT_BINS_MAX_LENGTH)
        return leat_fail(error, LEAT_E_INVALID, "best fit packs rows of 1 to 2^24 elements, not %" PRIu64, length);
    return make_bins(&s, &seed, out, error);
}

int leat_bins_of_costs(const uint64_t *costs, uint64_t samples, uint64_t budget, uint64_t most, const uint64_t *seed,
                       struct leat_bins *out, struct leat_error *error)
{
    struct items s = {.costs = costs, .documents = samples, .length = budget, .most = most ? most : UINT64_MAX};
    assert(budget && budget <= LEAT_BINS_MAX_COST);
    return make_bins(&s, seed, out, error);
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
