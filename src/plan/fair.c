/*
 * The source of each row of a phase if shares are of tokens and rows vary in length.
 *
 * Each row has a tag: the time at which its source, given tokens steadily at the rate of its share, would have been
 * given half of it. Rows come in the order of their tags, those of one tag by source:
 *
 *     share 1/2   |   4   |   4   |       8       |          tags  4   12      24
 *     share 1/4   |       4       |       4       |                    8       24
 *     time        0       8      16      24      32          rows of  0, 1, 0, 0, 1
 *
 * So at any time each source is within half a row of its due (docs/order.md has the proof). A tag is a whole number of
 * tokens, rounded up, and depends on its source alone. The rows before a time are therefore found by one search in each
 * source, and the time of a row by trying some. From there on rows are taken one by one from a heap. The place of that
 * stop is kept, so that a run that goes on does not search.
 */
#include "plan/fair.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/lengths.h"

#define CURSORS 4
#define NEAR 256                         /* rows that are stepped over rather than searched for */
#define MOST_TAG (INT64_C(1) << 62)      /* a phase ends before, because plans have fewer tokens */
#define MOST_LONGEST (UINT64_C(1) << 29) /* the longest rows of all sources together: errors fit 64 bits */
#define MOST_TOKENS (UINT64_C(1) << 60)  /* of a plan */

typedef __int128 wide;

/* The next row of a source. */
struct next {
    uint64_t pass, row, length;
    int64_t tag;
    uint64_t rest; /* the excess from rounding the tag up, times the share */
};

struct cursor {
    bool set;
    uint64_t key, row, used;
    struct next *next;
    uint32_t *heap, n_heap; /* sources that have rows, those with the first row at the top */
};

struct leat_fair {
    struct leat_source_order *sources;
    pthread_mutex_t lock;
    struct cursor cursors[CURSORS];
    uint64_t uses, *counts;
};

/* ---- making one -------------------------------------------------------------------------------------------------- */

int leat_fair_new(struct leat_source_order *sources, uint32_t n, const struct leat_plan_source *from,
                  struct leat_fair **out, uint64_t *most_rows, struct leat_error *error)
{
    uint64_t longest = 0, all = 0;
    struct leat_fair *f = *out = leat_new(struct leat_fair);
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a mixture");
    pthread_mutex_init(&f->lock, NULL);
    f->sources = sources;
    f->counts = leat_new_array(n, sizeof *f->counts);
    bool made = f->counts != NULL;
    for (unsigned i = 0; i < CURSORS; i++) {
        f->cursors[i].next = leat_new_array(n, sizeof(struct next));
        f->cursors[i].heap = leat_new_array(n, sizeof(uint32_t));
        made = made && f->cursors[i].next && f->cursors[i].heap;
    }
    if (!made)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a mixture");
    for (uint32_t k = 0; k < n; k++) {
        struct leat_source_order *o = &sources[k];
        int rc = leat_lengths_new(&from[k], k, o->rows, &o->lengths, error);
        if (rc)
            return rc;
        const uint64_t own = leat_lengths_longest(o->lengths);
        longest = own > longest ? own : longest;
        all += own;
    }
    if (all > MOST_LONGEST)
        return leat_fail(error, LEAT_E_RANGE, "the longest rows of all sources have %llu tokens together: at most 2^29",
                         (unsigned long long)all);
    *most_rows = MOST_TOKENS / (longest ? longest : 1);
    return LEAT_OK;
}

void leat_fair_free(struct leat_fair *f)
{
    if (!f)
        return;
    pthread_mutex_destroy(&f->lock);
    for (unsigned i = 0; i < CURSORS; i++) {
        leat_free(f->cursors[i].next);
        leat_free(f->cursors[i].heap);
    }
    leat_free(f->counts);
    leat_free(f);
}

/* ---- tags -------------------------------------------------------------------------------------------------------- */

static uint64_t share_of(const struct leat_division *d, uint32_t k)
{
    return d->sums[k + 1] - d->sums[k];
}

/* Tokens of a source's pass before the phase. The tree has no nodes here, and lends their place. */
static uint64_t *tokens_before(const struct leat_division *d)
{
    return (uint64_t *)d->offsets;
}

static bool repeats(const struct leat_source_order *o)
{
    return o->exhausted == LEAT_EXHAUSTED_REPEAT;
}

/* The place of row x of a source in the phase: its pass, counted from that in which the phase begins, and its row
 * there. */
static void place_of(struct leat_fair *f, const struct leat_division *d, uint32_t k, uint64_t x, uint64_t *pass,
                     uint64_t *row)
{
    const struct leat_source_order *o = &f->sources[k];
    if (!repeats(o)) {
        *pass = d->epoch;
        *row = d->given[k] + x;
        return;
    }
    *pass = (d->given[k] + x) / o->rows;
    *row = (d->given[k] + x) % o->rows;
}

/* Tokens of the phase before such a place. */
static uint64_t tokens_to(struct leat_fair *f, const struct leat_division *d, uint32_t k, uint64_t pass, uint64_t row)
{
    const struct leat_source_order *o = &f->sources[k];
    const uint64_t passes = repeats(o) ? pass - d->given[k] / o->rows : 0;
    return passes * leat_lengths_total(o->lengths) + leat_lengths_before(o, pass, row) - tokens_before(d)[k];
}

/* A number of 2^-32 tokens as a tag, rounded up. */
static int64_t tag_of(wide due, uint64_t share, uint64_t *rest)
{
    wide tag = due / (wide)share;
    tag += tag * (wide)share < due;
    *rest = (uint64_t)(tag * (wide)share - due);
    return tag < MOST_TAG ? (int64_t)tag : MOST_TAG;
}

static wide owed(const struct leat_division *d, uint32_t k)
{
    return (wide)d->carry[k] - d->mean;
}

/* Row x of a source in the phase. False: it has none. */
static bool set_next(struct leat_fair *f, const struct leat_division *d, uint32_t k, uint64_t x, struct next *next)
{
    const struct leat_source_order *o = &f->sources[k];
    place_of(f, d, k, x, &next->pass, &next->row);
    if (next->row == o->rows)
        return false;
    next->length = leat_lengths_at(o, next->pass, next->row);
    const uint64_t twice = 2 * tokens_to(f, d, k, next->pass, next->row) + next->length;
    next->tag = tag_of(((wide)twice << (LEAT_SHARE_BITS - 1)) + owed(d, k), share_of(d, k), &next->rest);
    return true;
}

/* The number of rows that a source gives in the phase up to a tag, with it. */
static uint64_t count_of(struct leat_fair *f, const struct leat_division *d, uint32_t k, int64_t tag)
{
    const struct leat_source_order *o = &f->sources[k];
    const uint64_t share = share_of(d, k);
    const wide twice = ((wide)share * tag - owed(d, k)) >> (LEAT_SHARE_BITS - 1);
    if (!share || twice < 0)
        return 0;
    const uint64_t both = (uint64_t)twice + 2 * tokens_before(d)[k];
    if (!repeats(o))
        return leat_lengths_count(o, d->epoch, both) - d->given[k];
    const uint64_t whole = 2 * leat_lengths_total(o->lengths), passes = both / whole, first = d->given[k] / o->rows;
    return (first + passes) * o->rows + leat_lengths_count(o, first + passes, both % whole) - d->given[k];
}

static uint64_t count_all(struct leat_fair *f, const struct leat_division *d, int64_t tag, uint64_t *counts)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < d->n; k++)
        sum += counts[k] = count_of(f, d, k, tag);
    return sum;
}

/* Rows of the phase before a place in its order: that of row `own` of source k, which has this tag. */
static uint64_t rows_before(struct leat_fair *f, const struct leat_division *d, int64_t tag, uint32_t k, uint64_t own)
{
    uint64_t rows = own;
    for (uint32_t other = 0; other < d->n; other++)
        if (other != k)
            rows += count_of(f, d, other, other < k ? tag : tag - 1);
    return rows;
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

/* A tag before all of a phase. */
static int64_t first_tag(struct leat_fair *f, const struct leat_division *d)
{
    int64_t first = MOST_TAG;
    for (uint32_t k = 0; k < d->n; k++) {
        uint64_t rest;
        if (!share_of(d, k))
            continue;
        const int64_t tag = tag_of(owed(d, k), share_of(d, k), &rest) - 1;
        first = tag < first ? tag : first;
    }
    return first;
}

/* Rows of the phase per token, on average. */
static double rate_of(struct leat_fair *f, const struct leat_division *d)
{
    double rate = 0;
    for (uint32_t k = 0; k < d->n; k++)
        if (share_of(d, k))
            rate += (double)share_of(d, k) / 0x1p32 * (double)f->sources[k].rows /
                    (double)leat_lengths_total(f->sources[k].lengths);
    return rate;
}

static int64_t between(double guess, int64_t low, int64_t high)
{
    return !(guess > (double)low) ? low + 1 : guess >= (double)high ? high - 1 : (int64_t)guess;
}

/* Counts at a tag before row i and near it; returns how many rows that are. The bound from above moves away until it is
 * one; then guesses by how many rows lie between both take turns with halving. */
static uint64_t search(struct leat_fair *f, const struct leat_division *d, uint64_t i, uint64_t *counts)
{
    const double rate = rate_of(f, d), aim = (double)i - NEAR / 2;
    int64_t low = first_tag(f, d), high = MOST_TAG, tag;
    uint64_t below = 0, above = 0, found = 0;
    memset(counts, 0, d->n * sizeof *counts);
    for (unsigned turn = 0; i - below > NEAR && high - low > 1; turn++) {
        const double left = aim - (double)below;
        if (high == MOST_TAG)
            tag = between((double)low + left / rate * (double)(1 + turn * turn), low, high);
        else if (turn % 3 == 2)
            tag = low + (high - low) / 2;
        else
            tag = between((double)low + left * (double)(high - low) / (double)(above - below), low, high);
        found = count_all(f, d, tag, counts);
        if (found <= i) {
            low = tag;
            below = found;
        } else {
            high = tag;
            above = found;
        }
    }
    return found == below ? below : count_all(f, d, low, counts);
}

/* ---- taking rows ------------------------------------------------------------------------------------------------- */

static bool precedes(const struct cursor *c, uint32_t a, uint32_t b)
{
    return c->next[a].tag != c->next[b].tag ? c->next[a].tag < c->next[b].tag : a < b;
}

static void sink(struct cursor *c, uint32_t at)
{
    const uint32_t k = c->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < c->n_heap; at = child) {
        child += child + 1 < c->n_heap && precedes(c, c->heap[child + 1], c->heap[child]);
        if (!precedes(c, c->heap[child], k))
            break;
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = k;
}

/* Moves on to the next row of the source at the top. */
static void step(struct leat_fair *f, const struct leat_division *d, struct cursor *c)
{
    const uint32_t k = c->heap[0];
    const struct leat_source_order *o = &f->sources[k];
    const uint64_t share = share_of(d, k);
    struct next *next = &c->next[k];
    if (++next->row == o->rows && repeats(o)) {
        next->row = 0;
        next->pass++;
    }
    c->row++;
    if (next->row == o->rows) { /* it has no more */
        c->heap[0] = c->heap[--c->n_heap];
    } else {
        uint64_t due = next->length;
        next->length = leat_lengths_at(o, next->pass, next->row);
        due = (due + next->length) << (LEAT_SHARE_BITS - 1);
        if (due > next->rest) {
            const uint64_t more = (due - next->rest + share - 1) / share;
            next->tag += (int64_t)more;
            next->rest += more * share - due;
        } else {
            next->rest -= due;
        }
    }
    if (c->n_heap)
        sink(c, 0);
}

/* Starts a cursor at a row of the phase, or near before it. */
static void start(struct leat_fair *f, const struct leat_division *d, uint64_t i, struct cursor *c)
{
    uint64_t *counts = f->counts;
    c->row = search(f, d, i, counts);
    c->key = d->key;
    c->set = true;
    c->n_heap = 0;
    for (uint32_t k = 0; k < d->n; k++)
        if (share_of(d, k) && set_next(f, d, k, counts[k], &c->next[k]))
            c->heap[c->n_heap++] = k;
    for (uint32_t at = c->n_heap / 2; at--;)
        sink(c, at);
}

/* A cursor at a row of the phase. */
static struct cursor *cursor_at(struct leat_fair *f, const struct leat_division *d, uint64_t i)
{
    struct cursor *best = NULL, *oldest = f->cursors;
    for (struct cursor *c = f->cursors; c < f->cursors + CURSORS; c++) {
        if (c->set && c->key == d->key && c->row <= i && i - c->row <= NEAR && (!best || c->row > best->row))
            best = c;
        oldest = c->used < oldest->used ? c : oldest;
    }
    if (!best)
        start(f, d, i, best = oldest);
    best->used = ++f->uses;
    while (best->row < i && best->n_heap)
        step(f, d, best);
    return best;
}

size_t leat_fair_run(struct leat_fair *f, const struct leat_division *d, uint64_t first, size_t n, uint32_t *sources,
                     uint64_t *passes, uint64_t *rows)
{
    pthread_mutex_lock(&f->lock);
    struct cursor *c = cursor_at(f, d, first);
    size_t done = 0;
    for (; done < n && c->n_heap; done++) {
        const struct next *next = &c->next[c->heap[0]];
        sources[done] = c->heap[0];
        passes[done] = next->pass;
        rows[done] = next->row;
        step(f, d, c);
    }
    pthread_mutex_unlock(&f->lock);
    return done;
}

/* ---- the phase --------------------------------------------------------------------------------------------------- */

void leat_fair_begin(struct leat_fair *f, struct leat_division *d)
{
    pthread_mutex_lock(&f->lock);
    for (uint32_t k = 0; k < d->n; k++) {
        uint64_t pass, row;
        tokens_before(d)[k] = 0;
        if (!f->sources[k].rows)
            continue;
        place_of(f, d, k, 0, &pass, &row);
        tokens_before(d)[k] = leat_lengths_before(&f->sources[k], pass, row);
    }
    pthread_mutex_unlock(&f->lock);
}

uint64_t leat_fair_counts(struct leat_fair *f, const struct leat_division *d, uint64_t i, uint64_t *counts,
                          uint64_t *tokens)
{
    uint64_t all = 0;
    pthread_mutex_lock(&f->lock);
    const struct cursor *c = cursor_at(f, d, i);
    for (uint32_t k = 0; k < d->n; k++) {
        const struct leat_source_order *o = &f->sources[k];
        counts[k] = tokens[k] = 0;
        if (!share_of(d, k) || !o->rows)
            continue;
        const struct next *next = &c->next[k];
        const uint64_t given = repeats(o) ? next->pass * o->rows + next->row : next->row;
        counts[k] = given - d->given[k];
        all += tokens[k] = tokens_to(f, d, k, next->pass, next->row);
    }
    pthread_mutex_unlock(&f->lock);
    return all;
}

uint64_t leat_fair_end(struct leat_fair *f, const struct leat_division *d, const uint64_t *left, uint32_t *ends)
{
    int64_t first = MOST_TAG;
    *ends = d->n;
    pthread_mutex_lock(&f->lock);
    for (uint32_t k = 0; k < d->n; k++) {
        uint64_t pass, row, rest;
        if (!share_of(d, k) || left[k] >= LEAT_PLAN_MAX_ROWS)
            continue;
        place_of(f, d, k, left[k], &pass, &row);
        const wide due = ((wide)tokens_to(f, d, k, pass, row) << LEAT_SHARE_BITS) + owed(d, k);
        const int64_t tag = tag_of(due, share_of(d, k), &rest);
        if (tag < first) {
            first = tag;
            *ends = k;
        }
    }
    const uint64_t rows = *ends < d->n ? rows_before(f, d, first, *ends, left[*ends]) : UINT64_MAX;
    pthread_mutex_unlock(&f->lock);
    return rows;
}

uint64_t leat_fair_rows_to_read_all(struct leat_fair *f, const struct leat_division *d)
{
    uint64_t rows = 0, own = 0;
    uint32_t latest = d->n;
    struct next last = {0}, next;
    pthread_mutex_lock(&f->lock);
    for (uint32_t k = 0; k < d->n; k++) {
        const uint64_t given = d->given[k] - d->at_first[k], all = f->sources[k].rows;
        if (!share_of(d, k) || given >= all || !set_next(f, d, k, all - given - 1, &next))
            continue;
        if (latest == d->n || next.tag >= last.tag) {
            last = next;
            latest = k;
            own = all - given;
        }
    }
    if (latest < d->n)
        rows = rows_before(f, d, last.tag, latest, own);
    pthread_mutex_unlock(&f->lock);
    return rows;
}
