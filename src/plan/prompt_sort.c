/*
 * Prompts in the order of their tokens: a multikey quicksort that skips what all prompts of a segment have in common.
 *
 *     order    | a a a a a a a a | b b b | c |        a segment: neighbours of which nothing is known yet but
 *     common   0 ? ? ? ? ? ? ? ?  12  ?  ?  3         that they share `depth` tokens
 *
 * A segment is compared with its first prompt, as far as all agree: that reads each prompt once, one after the other,
 * as fast as memory gives it. Then it is sorted by the one token behind, which ends it: prompts that differ there have
 * exactly so much in common, and those that have the same token there are segments again. So each token is looked at
 * once, apart from those that tell prompts apart, and tokens that one prompt alone has are not read at all.
 *
 * `common` is the list of what is left to do: a segment is a run of what is not known. Nothing else is kept, so memory
 * does not depend on how prompts share.
 *
 * Tokens of eight bytes are compared in two halves, the upper one first; a unit is such a half, or a token.
 */
#include "plan/prompt_sort.h"

#include <string.h>

#include "base/bytes.h"
#include "base/random.h"

#define UNKNOWN UINT32_MAX
#define TAG_BRANCHES ((UINT64_C(1) << 63) | 8)
/* Pairs that are sorted by insertion. */
#define FEW 16
/* A prompt is asked of memory so many before it is compared. */
#define AHEAD 4
#define LINE 64

static unsigned units_of_token(const struct leat_prompt_sort *s)
{
    return s->width == 8 ? 2 : 1;
}

/* Numbers and what goes with them, sorted by the numbers. */
static void swap(uint32_t *keys, uint32_t *with, uint64_t a, uint64_t b)
{
    const uint32_t key = keys[a], other = with[a];
    keys[a] = keys[b];
    with[a] = with[b];
    keys[b] = key;
    with[b] = other;
}

static void insert_pairs(uint32_t *keys, uint32_t *with, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        for (uint64_t k = i; k && keys[k - 1] > keys[k]; k--)
            swap(keys, with, k - 1, k);
}

static void heap_pairs(uint32_t *keys, uint32_t *with, uint64_t n)
{
    for (uint64_t from = n / 2, end = n; end > 1;) {
        if (from)
            from--;
        else
            swap(keys, with, 0, --end);
        for (uint64_t at = from, child; (child = 2 * at + 1) < end; at = child) {
            child += child + 1 < end && keys[child] < keys[child + 1];
            if (keys[at] >= keys[child])
                break;
            swap(keys, with, at, child);
        }
    }
}

static uint32_t median(uint32_t a, uint32_t b, uint32_t c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

/* Quicksort in three parts; by a heap, should it go too deep. */
static void sort_pairs(uint32_t *keys, uint32_t *with, uint64_t n, unsigned levels)
{
    while (n > FEW) {
        if (!levels--) {
            heap_pairs(keys, with, n);
            return;
        }
        const uint64_t step = n / 8;
        const uint32_t pivot =
            median(median(keys[0], keys[step], keys[2 * step]), median(keys[3 * step], keys[4 * step], keys[5 * step]),
                   median(keys[6 * step], keys[7 * step], keys[n - 1]));
        uint64_t low = 0, high = n;
        for (uint64_t i = 0; i < high;)
            if (keys[i] < pivot)
                swap(keys, with, i++, low++);
            else if (keys[i] > pivot)
                swap(keys, with, i, --high);
            else
                i++;
        const bool left = low < n - high; /* the smaller part */
        sort_pairs(left ? keys : keys + high, left ? with : with + high, left ? low : n - high, levels);
        keys = left ? keys + high : keys;
        with = left ? with + high : with;
        n = left ? n - high : low;
    }
    insert_pairs(keys, with, n);
}

static void sort_range(uint32_t *keys, uint32_t *with, uint64_t n)
{
    sort_pairs(keys, with, n, n ? 2 * (64 - (unsigned)__builtin_clzll(n)) : 0);
}

/* A unit of a prompt that has it. */
static uint32_t unit_at(const struct leat_prompt_sort *s, uint32_t prompt, uint32_t depth)
{
    const uint8_t *at = s->at[prompt];
    uint32_t unit = 0;
    switch (s->width) {
    case 1:
        unit = at[depth];
        break;
    case 2:
        unit = leat_get_u16(at + 2 * (uint64_t)depth);
        break;
    case 4:
        unit = leat_get_u32(at + 4 * (uint64_t)depth);
        break;
    default:
        unit = leat_get_u32(at + 8 * (uint64_t)(depth / 2) + (depth & 1 ? 0 : 4));
        break;
    }
    if (s->seed && depth < units_of_token(s)) { /* each step can be undone, so that units stay apart */
        const uint64_t key = leat_key_mix(s->seed, TAG_BRANCHES);
        unit = (unit ^ (uint32_t)key) * UINT32_C(0x9e3779b1);
        unit = (unit ^ unit >> 16 ^ (uint32_t)(key >> 32)) * UINT32_C(0x85ebca6b);
        unit ^= unit >> 13;
    }
    return unit;
}

/* Bytes [from, end) that are equal in both, from `from` on. */
static uint64_t equal_bytes(const uint8_t *a, const uint8_t *b, uint64_t from, uint64_t end)
{
    for (; end - from >= LINE; from += LINE) {
        uint64_t x[LINE / 8], y[LINE / 8], differ = 0;
        memcpy(x, a + from, LINE);
        memcpy(y, b + from, LINE);
        for (unsigned k = 0; k < LINE / 8; k++)
            differ |= x[k] ^ y[k];
        if (differ)
            break;
    }
    while (from < end && a[from] == b[from])
        from++;
    return from;
}

/* Units from `depth` on that two prompts have in common, at most `most`, which both have. */
static uint32_t common_units(const struct leat_prompt_sort *s, uint32_t a, uint32_t b, uint32_t depth, uint32_t most)
{
    const unsigned per = units_of_token(s);
    const uint8_t *x = s->at[a], *y = s->at[b];
    const uint64_t begin = (uint64_t)(depth / per) * s->width, end = ((uint64_t)most + per - 1) / per * s->width;
    const uint64_t token = equal_bytes(x, y, begin, end) / s->width;
    uint64_t units = token * per;
    if (per == 2 && token * s->width < end)
        units += leat_get_u32(x + token * 8 + 4) == leat_get_u32(y + token * 8 + 4);
    return units < most ? (uint32_t)units : most;
}

static uint32_t units(const struct leat_prompt_sort *s, uint32_t prompt)
{
    return s->lengths[prompt] * units_of_token(s);
}

/* The next segment of more than one prompt. False: there is none. */
static bool find_segment(struct leat_prompt_sort *s)
{
    for (; s->first < s->n; s->first = s->end) {
        s->end = s->first + 1;
        while (s->end < s->n && s->common[s->end] == UNKNOWN)
            s->end++;
        if (s->end - s->first > 1)
            break;
    }
    if (s->first >= s->n)
        return false;
    const bool all = !s->first && s->end == s->n; /* the first one: of others, a neighbour is known */
    const uint32_t left = s->first ? s->common[s->first] : 0, right = s->end < s->n ? s->common[s->end] : 0;
    s->depth = all ? 0 : (left > right ? left : right) + 1;
    s->shared = units(s, s->order[s->first]);
    s->next = s->first + 1;
    return true;
}

/* Ends with what all prompts of the segment have in common, or as the budget does: false. */
static bool compare_segment(struct leat_prompt_sort *s, uint64_t *budget)
{
    const uint32_t leader = s->order[s->first];
    for (; s->next < s->end && s->shared > s->depth; s->next++) {
        if (!*budget)
            return false;
        if (s->end - s->next > AHEAD)
            __builtin_prefetch(s->at[s->order[s->next + AHEAD]] + (uint64_t)s->depth * s->width / units_of_token(s));
        const uint32_t other = s->order[s->next], length = units(s, other);
        const uint32_t most = length < s->shared ? length : s->shared;
        s->shared = common_units(s, leader, other, s->depth, most);
        const uint64_t cost = (uint64_t)(s->shared - s->depth) * s->width + LINE;
        *budget -= cost < *budget ? cost : *budget;
    }
    return true;
}

/* Sorts a segment by the unit behind what it has in common. Prompts that end there are equal, and come first. */
static void split_segment(struct leat_prompt_sort *s)
{
    uint64_t ended = s->first;
    for (uint64_t i = s->first; i < s->end; i++)
        if (units(s, s->order[i]) == s->shared) {
            const uint32_t prompt = s->order[i];
            s->order[i] = s->order[ended];
            s->order[ended] = prompt;
            s->keys[ended++] = prompt;
        }
    sort_range(s->keys + s->first, s->order + s->first, ended - s->first);
    for (uint64_t i = s->first + 1; i <= ended && i < s->end; i++) /* the first one behind them, too */
        s->common[i] = s->shared;
    for (uint64_t i = ended; i < s->end; i++)
        s->keys[i] = unit_at(s, s->order[i], s->shared);
    sort_range(s->keys + ended, s->order + ended, s->end - ended);
    for (uint64_t i = ended + 1; i < s->end; i++)
        if (s->keys[i] != s->keys[i - 1])
            s->common[i] = s->shared;
}

static void begin(struct leat_prompt_sort *s)
{
    for (uint64_t i = 0; i < s->n; i++) {
        s->order[i] = (uint32_t)i;
        s->common[i] = i ? UNKNOWN : 0;
    }
    s->first = 0;
}

bool leat_prompt_sort(struct leat_prompt_sort *s, uint64_t budget)
{
    for (;;)
        switch (s->state) {
        case LEAT_PROMPT_BEGIN:
            begin(s);
            s->state = LEAT_PROMPT_FIND;
            break;
        case LEAT_PROMPT_FIND:
            if (find_segment(s)) {
                s->state = LEAT_PROMPT_COMPARE;
                break;
            }
            for (uint64_t i = 0; i < s->n; i++)
                s->common[i] /= units_of_token(s);
            s->state = LEAT_PROMPT_DONE;
            break;
        case LEAT_PROMPT_COMPARE:
            if (!compare_segment(s, &budget))
                return false;
            s->state = LEAT_PROMPT_SPLIT;
            break;
        case LEAT_PROMPT_SPLIT:
            split_segment(s);
            s->state = LEAT_PROMPT_FIND;
            break;
        case LEAT_PROMPT_DONE:
            return true;
        }
}
