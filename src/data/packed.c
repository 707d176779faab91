/*
 * Chunks of packed sets: choosing a form, and finding the k-th id in each.
 */
#include "data/packed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "leat/leat.h"

enum { ARRAY, BITS, RUNS };
enum { RANK_WORDS = 16, RANKS = LEAT_CHUNK_WORDS / RANK_WORDS };

struct bits {
    uint64_t words[LEAT_CHUNK_WORDS];
    uint16_t rank[RANKS]; /* bits before each 16 words */
};

/* Ids begin, ... stand at places at, ... up to the next run's. */
struct chunk_run {
    uint16_t begin, at;
};

void leat_packed_destroy(struct leat_packed *p)
{
    for (size_t i = 0; i < p->n; i++)
        leat_free(p->chunks[i].data);
    leat_free(p->chunks);
    *p = (struct leat_packed){0};
}

static void count_bits(const uint64_t *bits, uint32_t *count, uint32_t *runs)
{
    uint64_t carry = 0;
    *count = *runs = 0;
    for (size_t i = 0; i < LEAT_CHUNK_WORDS; i++) {
        *count += (uint32_t)__builtin_popcountll(bits[i]);
        *runs += (uint32_t)__builtin_popcountll(bits[i] & ~(bits[i] << 1 | carry));
        carry = bits[i] >> 63;
    }
}

/* The next run of set bits from `at` on. */
static bool next_run(const uint64_t *bits, uint32_t at, uint32_t *begin, uint32_t *end)
{
    while (at < LEAT_CHUNK_IDS) {
        const uint64_t word = bits[at >> 6] >> (at & 63);
        if (word) {
            at += (uint32_t)__builtin_ctzll(word);
            break;
        }
        at = (at | 63) + 1;
    }
    if (at >= LEAT_CHUNK_IDS)
        return false;
    *begin = at;
    while (at < LEAT_CHUNK_IDS) {
        const uint64_t zeros = ~(bits[at >> 6] >> (at & 63)); /* the bits shifted in are set here */
        const uint32_t ones = zeros ? (uint32_t)__builtin_ctzll(zeros) : 64, room = 64 - (at & 63);
        if (ones < room) {
            at += ones;
            break;
        }
        at += room;
    }
    *end = at;
    return true;
}

static void fill_array(uint16_t *to, const uint64_t *bits)
{
    for (size_t w = 0; w < LEAT_CHUNK_WORDS; w++)
        for (uint64_t word = bits[w]; word; word &= word - 1)
            *to++ = (uint16_t)(w * 64 + (unsigned)__builtin_ctzll(word));
}

static void fill_bits(struct bits *to, const uint64_t *bits)
{
    uint32_t before = 0;
    memcpy(to->words, bits, sizeof to->words);
    for (size_t i = 0; i < RANKS; i++) {
        to->rank[i] = (uint16_t)before;
        for (size_t k = 0; k < RANK_WORDS; k++)
            before += (uint32_t)__builtin_popcountll(bits[i * RANK_WORDS + k]);
    }
}

static void fill_runs(struct chunk_run *to, const uint64_t *bits)
{
    uint32_t at = 0, begin, end = 0;
    while (next_run(bits, end, &begin, &end)) {
        *to++ = (struct chunk_run){(uint16_t)begin, (uint16_t)at};
        at += end - begin;
    }
}

int leat_packed_add(struct leat_packed *p, uint64_t key, const uint64_t bits[LEAT_CHUNK_WORDS])
{
    uint32_t count, runs;
    count_bits(bits, &count, &runs);
    if (!count)
        return LEAT_OK;
    if (!leat_grow(&p->chunks, &p->room, p->n + 1, sizeof *p->chunks))
        return LEAT_E_NOMEM;
    const size_t as_runs = runs * sizeof(struct chunk_run), as_array = count * sizeof(uint16_t);
    size_t bytes = as_runs <= as_array ? as_runs : as_array;
    const uint8_t form = bytes > sizeof(struct bits) ? BITS : as_runs <= as_array ? RUNS : ARRAY;
    bytes = form == BITS ? sizeof(struct bits) : bytes;
    void *data = leat_alloc(bytes);
    if (!data)
        return LEAT_E_NOMEM;
    if (form == BITS)
        fill_bits(data, bits);
    else if (form == RUNS)
        fill_runs(data, bits);
    else
        fill_array(data, bits);
    p->chunks[p->n++] = (struct leat_chunk){
        .key = key, .before = p->count, .count = count, .n = form == RUNS ? runs : count, .form = form, .data = data};
    p->count += count;
    p->n_runs += runs;
    p->bytes += bytes + sizeof *p->chunks;
    return LEAT_OK;
}

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t run_end(const struct leat_chunk *c, uint32_t run)
{
    const struct chunk_run *runs = c->data;
    return run + 1 < c->n ? runs[run + 1].at : c->count;
}

/* The place of the k-th bit (from 0) of a word that has more than k. */
static unsigned bit_at(uint64_t word, unsigned k)
{
    unsigned at = 0;
    for (unsigned width = 32; width; width /= 2) {
        const unsigned low = (unsigned)__builtin_popcountll(word & ((UINT64_C(1) << width) - 1));
        if (k >= low) {
            k -= low;
            word >>= width;
            at += width;
        } else {
            word &= (UINT64_C(1) << width) - 1;
        }
    }
    return at;
}

static uint32_t find_bit(const struct bits *b, uint32_t k)
{
    const uint32_t low = (uint32_t)LEAT_BISECT(i, 1, RANKS, b->rank[i] <= k) - 1;
    k -= b->rank[low];
    uint32_t word = low * RANK_WORDS;
    for (;; word++) {
        const uint32_t ones = (uint32_t)__builtin_popcountll(b->words[word]);
        if (k < ones)
            return word * 64 + bit_at(b->words[word], k);
        k -= ones;
    }
}

static uint32_t find_run(const struct leat_chunk *c, uint32_t k)
{
    const struct chunk_run *runs = c->data;
    return (uint32_t)LEAT_BISECT(i, 1, c->n, runs[i].at <= k) - 1;
}

uint64_t leat_packed_at(const struct leat_packed *p, uint64_t position, uint64_t *run)
{
    const struct leat_chunk *c = &p->chunks[LEAT_BISECT(i, 1, p->n, p->chunks[i].before <= position) - 1];
    const uint32_t k = (uint32_t)(position - c->before);
    uint32_t id = 0, n = 1;
    if (c->form == ARRAY) {
        const uint16_t *ids = c->data;
        id = ids[k];
        while (run && k + n < c->n && ids[k + n] == id + n)
            n++;
    } else if (c->form == RUNS) {
        const struct chunk_run *runs = c->data;
        const uint32_t r = find_run(c, k);
        id = runs[r].begin + (k - runs[r].at);
        n = run_end(c, r) - k;
    } else {
        const struct bits *b = c->data;
        uint32_t end = id = find_bit(b, k);
        if (run)
            next_run(b->words, id, &id, &end);
        n = end - id;
    }
    if (run)
        *run = n;
    return c->key * LEAT_CHUNK_IDS + id;
}

/* The next run of a chunk, whose ids count from 0. */
static bool chunk_next(const struct leat_chunk *c, uint32_t *place, uint32_t *begin, uint32_t *end)
{
    if (c->form == BITS) {
        if (!next_run(((const struct bits *)c->data)->words, *place, begin, end))
            return false;
        *place = *end;
        return true;
    }
    if (*place >= c->n)
        return false;
    if (c->form == RUNS) {
        const struct chunk_run *r = (const struct chunk_run *)c->data + *place;
        *begin = r->begin;
        *end = r->begin + (run_end(c, *place) - r->at);
        ++*place;
        return true;
    }
    const uint16_t *ids = c->data;
    *begin = *end = ids[*place];
    do {
        ++*end;
        ++*place;
    } while (*place < c->n && ids[*place] == *end);
    return true;
}

bool leat_packed_next(const struct leat_packed *p, struct leat_packed_cursor *at, uint64_t *begin, uint64_t *count)
{
    uint32_t first, end;
    while (at->chunk < p->n && !chunk_next(&p->chunks[at->chunk], &at->place, &first, &end)) {
        at->chunk++;
        at->place = 0;
    }
    if (at->chunk >= p->n)
        return false;
    *begin = p->chunks[at->chunk].key * LEAT_CHUNK_IDS + first;
    *count = end - first;
    while (end == LEAT_CHUNK_IDS && at->chunk + 1 < p->n &&
           p->chunks[at->chunk + 1].key == p->chunks[at->chunk].key + 1) {
        uint32_t place = 0;
        chunk_next(&p->chunks[at->chunk + 1], &place, &first, &end);
        if (first)
            break;
        *count += end;
        at->chunk++;
        at->place = place;
    }
    return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int flush(struct leat_set_making *p)
{
    int rc = p->open ? leat_packed_add(&p->packed, p->key, p->bits) : LEAT_OK;
    memset(p->bits, 0, sizeof p->bits);
    p->open = false;
    return rc;
}

int leat_set_making_add(struct leat_set_making *p, uint64_t begin, uint64_t count)
{
    int rc = LEAT_OK;
    p->end = begin + count;
    while (count && !rc) {
        const uint64_t key = begin / LEAT_CHUNK_IDS, from = begin % LEAT_CHUNK_IDS, room = LEAT_CHUNK_IDS - from;
        const uint64_t n = count < room ? count : room;
        if (p->open && key != p->key)
            rc = flush(p);
        p->open = true;
        p->key = key;
        for (uint64_t at = from; at < from + n;) {
            const uint64_t in = at & 63, ones = from + n - at < 64 - in ? from + n - at : 64 - in;
            p->bits[at >> 6] |= (ones == 64 ? UINT64_MAX : (UINT64_C(1) << ones) - 1) << in;
            at += ones;
        }
        begin += n;
        count -= n;
    }
    return rc;
}

int leat_set_making_close(struct leat_set_making *p, struct leat_packed *out)
{
    int rc = flush(p);
    if (rc) {
        leat_packed_destroy(&p->packed);
        return rc;
    }
    *out = p->packed;
    p->packed = (struct leat_packed){0};
    return LEAT_OK;
}
